//! The committer: the only thread that writes.
//!
//! Each round takes all waiting requests, plans them against the published state, makes them durable in one frame, publishes
//! them, and only then responds. Invariants: nothing is visible before it is on disk, nothing is acknowledged before it is
//! visible; a failed write changes nothing in memory and fails every request of its batch.

use std::{
    error::Error as StdError,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use crate::{
    Committed, Error, LeaseId, Outcome, Revision,
    disk::DiskFile,
    log::{Engine, Next, Snapshot},
    plan::{Changes, Planner},
    queue::{Reply, Request},
    shared::Shared,
    witness::{Marks, Witness},
};

pub(crate) struct Committer {
    shared: Arc<Shared>,
    engine: Engine,
    witness: Witness,
    /// The last assigned revision.
    assigned: Revision,
    /// The size of logs at which a snapshot is taken.
    snapshot_bytes: u64,
    /// True if the last commit failed. A full disk fails every commit, and is logged once.
    is_failing: bool,
    /// True if the disk was too full for the last commit with puts.
    is_full: bool,
    /// Held while this thread may write.
    lock: Box<dyn DiskFile>,
}

/// The decisions about a batch.
struct Planned {
    changes: Changes,
    assigned: Revision,
    responses: Vec<Response>,
    /// True if a snapshot is to replace the logs.
    shrink: bool,
    /// True if prepared space is to be freed.
    trim: bool,
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        engine: Engine,
        witness: Witness,
        assigned: Revision,
        snapshot_bytes: u64,
        lock: Box<dyn DiskFile>,
    ) -> Self {
        Committer {
            shared,
            engine,
            witness,
            assigned,
            snapshot_bytes,
            is_failing: false,
            is_full: false,
            lock,
        }
    }

    /// Runs until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let _end = End(Arc::clone(&self.shared));
        while let Some(requests) = self.shared.queue.take() {
            self.commit(requests);
        }
        self.shared.generations.close();
        if let Err(error) = self.witness.sync() {
            tracing::warn!(err = %error, "cannot sync witness file");
        }
        drop(self.lock);
    }

    fn commit(&mut self, requests: Vec<Request>) {
        let Planned { changes, assigned, responses, shrink, trim } = self.plan(requests);
        if let Some(error) = self.shared.failure() {
            responses.into_iter().for_each(|response| response.fail(&error));
            return;
        }
        self.assigned = assigned;
        if changes.is_empty() {
            self.begin_generation(shrink.then_some(Next::Small));
            if trim && let Err(error) = self.engine.trim() {
                self.shared.fail_or_warn(&error, "cannot free space prepared for writes");
            }
            responses.into_iter().for_each(Response::send);
            return;
        }
        match self.store(&changes) {
            Ok(()) => {
                if std::mem::take(&mut self.is_failing) {
                    tracing::info!("datastore accepts writes again");
                }
                self.publish(&changes);
                responses.into_iter().for_each(Response::send);
                self.is_full &= !changes.has_puts();
                let frees = self.is_full
                    && changes.compacted.is_some_and(|revision| self.engine.reaches_back(revision));
                if frees {
                    self.shared.housekeeping.allow_snapshot();
                }
                let small = (shrink || frees).then_some(Next::Small);
                self.begin_generation(small.or_else(|| self.needs_snapshot().then_some(Next::Prepared)));
            }
            Err(error @ Error::Sync { .. }) => {
                self.shared.fail(&error);
                responses.into_iter().for_each(|response| response.fail(&error));
            }
            Err(error) => {
                let err = &error as &dyn StdError;
                if !std::mem::replace(&mut self.is_failing, true) {
                    tracing::error!(err, "cannot write to the datastore; rejecting writes until it succeeds");
                }
                let marks = Marks { acknowledged: self.shared.live.revision(), assigned };
                if let Err(error) = self.witness.write(marks) {
                    tracing::warn!(err = %error, "cannot write revisions of failed commit to witness file");
                }
                responses.into_iter().for_each(|response| response.fail(&error));
                let compacted = self.shared.live.compacted();
                self.is_full |= matches!(error, Error::NoSpace(_));
                let frees = self.is_full && self.engine.reaches_back(compacted);
                self.begin_generation(frees.then_some(Next::Small));
            }
        }
    }

    /// True if the logs since the last snapshot are large enough for a new one.
    fn needs_snapshot(&self) -> bool {
        let (logs, snapshot) = self.shared.generations.sizes();
        logs >= self.snapshot_bytes.max(snapshot)
    }

    /// Continues in a new log and queues a snapshot of the current state, if one is wanted and possible.
    fn begin_generation(&mut self, next: Option<Next>) {
        let housekeeping = &self.shared.housekeeping;
        let Some(next) = next.filter(|_| housekeeping.may_take_snapshot()) else { return };
        match self.engine.begin_generation(next) {
            Ok(false) => {}
            Ok(true) => {
                let (state, leases) = (self.shared.live.state.read(), self.shared.leases.lock());
                let compacted = self.shared.live.compacted();
                housekeeping.take_snapshot(Snapshot::of(&state, &leases, compacted));
            }
            Err(error) => {
                self.shared.fail_or_warn(&error, "cannot start new log file; snapshot postponed");
                housekeeping.snapshot_taken(false);
            }
        }
    }

    fn plan(&self, requests: Vec<Request>) -> Planned {
        let state = self.shared.live.state.read();
        let leases = self.shared.leases.lock();
        let compacted = self.shared.live.compacted();
        let sealing = &*self.shared.generations.sealing;
        let mut planner = Planner::new(&state, &leases, sealing, compacted, self.assigned, Instant::now());
        let mut responses = Vec::with_capacity(requests.len());
        let (mut shrink, mut trim) = (false, false);
        for request in requests {
            responses.push(match request {
                Request::Txn(txn, reply) => Response::Txn(planner.txn(txn), reply),
                Request::Program(program, reply) => Response::Program(planner.program(program), reply),
                Request::Grant(id, ttl, reply) => Response::Lease(planner.grant(id, ttl), reply),
                Request::KeepAlive(id, reply) => Response::Done(planner.keep_alive(id), reply),
                Request::Revoke(id, reply) => Response::Done(planner.revoke(id), reply),
                Request::Expire(reply) => {
                    planner.expire();
                    Response::Done(Ok(()), reply)
                }
                Request::Compact(revision, reply) => Response::Done(planner.compact(revision), reply),
                Request::Shrink(reply) => {
                    shrink = true;
                    Response::Done(Ok(()), reply)
                }
                Request::Trim(reply) => {
                    trim = true;
                    Response::Done(Ok(()), reply)
                }
                Request::Raise(revision, reply) => Response::Done(planner.raise(revision), reply),
            });
        }
        let (changes, assigned) = planner.finish();
        Planned { changes, assigned, responses, shrink, trim }
    }

    /// Makes the changes durable: the log first, then the witness.
    fn store(&mut self, changes: &Changes) -> Result<(), Error> {
        let started = Instant::now();
        let snapshot = self.shared.live.state.read().snapshot_bytes();
        self.engine.commit(changes, snapshot)?;
        self.shared.commits.observe(started.elapsed().as_secs_f64());
        if let Some(last) = changes.writes.last() {
            let marks = Marks { acknowledged: last.event.revision, assigned: self.assigned };
            // The commit is valid without this; the witness is a second check.
            if let Err(error) = self.witness.write(marks) {
                tracing::warn!(err = %error, "cannot write last acknowledged revision to witness file");
            }
        }
        Ok(())
    }

    fn publish(&self, changes: &Changes) {
        let granted = {
            let mut leases = self.shared.leases.lock();
            let granted = changes.leases.iter().any(|(id, term)| term.is_some() && leases.get(*id).is_none());
            for (id, term) in &changes.leases {
                leases.set(*id, *term);
            }
            for write in &changes.writes {
                leases.apply(&write.event);
            }
            granted
        };
        if let Some(revision) = changes.compacted {
            self.shared.live.compacted.store(revision, Ordering::Release);
        }
        self.shared.live.publish(changes.writes.iter().map(|write| &write.event));
        if !changes.writes.is_empty() {
            self.shared.housekeeping.history_grew();
        }
        // Renewing a lease only moves its deadline back; the housekeeper rechecks when the old one passes.
        if granted || changes.compacted.is_some() {
            self.shared.housekeeping.wake();
        }
    }
}

/// Closes the queue when the committer ends, even by an observer's panic, so that no caller waits for ever.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.queue.abort();
        self.0.generations.close();
        self.0.live.observers.close();
    }
}

/// A decided request and the sender of its response.
enum Response {
    Txn(Result<Committed, Error>, Reply<Committed>),
    Program(Result<Outcome, Error>, Reply<Outcome>),
    Lease(Result<LeaseId, Error>, Reply<LeaseId>),
    Done(Result<(), Error>, Reply<()>),
}

impl Response {
    /// Sends the response; a cancelled caller is ignored.
    fn send(self) {
        match self {
            Response::Txn(result, reply) => drop(reply.send(result)),
            Response::Program(result, reply) => drop(reply.send(result)),
            Response::Lease(result, reply) => drop(reply.send(result)),
            Response::Done(result, reply) => drop(reply.send(result)),
        }
    }

    fn fail(self, error: &Error) {
        match self {
            Response::Txn(_, reply) => drop(reply.send(Err(error.clone()))),
            Response::Program(_, reply) => drop(reply.send(Err(error.clone()))),
            Response::Lease(_, reply) => drop(reply.send(Err(error.clone()))),
            Response::Done(_, reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}
