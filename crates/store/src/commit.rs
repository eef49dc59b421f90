//! The committer: the only thread that writes.
//!
//! Each round takes whatever waits, plans it against the published state, makes it durable at once,
//! publishes it, and only then answers. Invariants: nothing is visible before it is on disk, nothing is
//! acknowledged before it is visible; a write that fails changes nothing in memory and fails every
//! request of its batch.

use std::{
    error::Error as StdError,
    fs::File,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use crate::{
    Committed, Error, LeaseId, Revision,
    log::{Engine, Snapshot},
    plan::{Changes, Planner},
    queue::{Reply, Request},
    shared::Shared,
    witness::{Marks, Witness},
};

pub(crate) struct Committer {
    shared: Arc<Shared>,
    engine: Engine,
    witness: Witness,
    /// The last revision handed out.
    assigned: Revision,
    /// How far logs may grow before a snapshot takes their place.
    snapshot_bytes: u64,
    /// Held for as long as this thread may write.
    lock: File,
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        engine: Engine,
        witness: Witness,
        assigned: Revision,
        snapshot_bytes: u64,
        lock: File,
    ) -> Self {
        Committer { shared, engine, witness, assigned, snapshot_bytes, lock }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let _end = End(Arc::clone(&self.shared));
        while let Some(requests) = self.shared.queue.take() {
            self.commit(requests);
        }
        self.shared.generations.close();
        if let Err(error) = self.witness.sync() {
            tracing::warn!(%error, "cannot sync the record of the last acknowledged revision");
        }
        drop(self.lock);
    }

    fn commit(&mut self, requests: Vec<Request>) {
        let (changes, assigned, answers) = self.plan(requests);
        self.assigned = assigned;
        if changes.is_empty() {
            answers.into_iter().for_each(Answer::send);
            return;
        }
        match self.store(&changes) {
            Ok(()) => {
                self.publish(&changes);
                answers.into_iter().for_each(Answer::send);
                self.begin_generation(self.outgrown());
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn StdError, "a commit failed");
                let marks = Marks { acknowledged: self.shared.revision(), assigned };
                if let Err(error) = self.witness.write(marks) {
                    tracing::warn!(%error, "cannot record the revisions a failed commit used");
                }
                answers.into_iter().for_each(|answer| answer.fail(&error));
                let compacted = self.shared.compacted.load(Ordering::Acquire);
                self.begin_generation(
                    matches!(error, Error::NoSpace(_)) && self.engine.reaches_back(compacted),
                );
            }
        }
    }

    /// Whether the logs that the next open has to read are larger than a snapshot would be.
    fn outgrown(&self) -> bool {
        let (logs, snapshot) = self.shared.generations.sizes();
        logs >= self.snapshot_bytes.max(snapshot)
    }

    /// Goes on in a new log and has the state as it is written beside it, if that is wanted and possible.
    fn begin_generation(&mut self, wanted: bool) {
        let housekeeping = &self.shared.housekeeping;
        if !wanted || !housekeeping.may_take_snapshot() {
            return;
        }
        match self.engine.begin_generation() {
            Ok(false) => {}
            Ok(true) => {
                let (state, leases) = (self.shared.state.read(), self.shared.leases.lock());
                let compacted = self.shared.compacted.load(Ordering::Acquire);
                housekeeping.take_snapshot(Snapshot::of(&state, &leases, compacted));
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn StdError, "cannot begin another log");
                housekeeping.snapshot_taken(false);
            }
        }
    }

    fn plan(&self, requests: Vec<Request>) -> (Changes, Revision, Vec<Answer>) {
        let state = self.shared.state.read();
        let leases = self.shared.leases.lock();
        let compacted = self.shared.compacted.load(Ordering::Acquire);
        let mut planner = Planner::new(&state, &leases, compacted, self.assigned, Instant::now());
        let mut answers = Vec::with_capacity(requests.len());
        for request in requests {
            answers.push(match request {
                Request::Txn(txn, reply) => Answer::Txn(planner.txn(txn), reply),
                Request::Grant(ttl, reply) => Answer::Lease(Ok(planner.grant(ttl)), reply),
                Request::KeepAlive(id, reply) => Answer::Done(planner.keep_alive(id), reply),
                Request::Revoke(id, reply) => Answer::Done(planner.revoke(id), reply),
                Request::Expire(reply) => {
                    planner.expire();
                    Answer::Done(Ok(()), reply)
                }
                Request::Compact(revision, reply) => Answer::Done(planner.compact(revision), reply),
            });
        }
        let (changes, assigned) = planner.finish();
        (changes, assigned, answers)
    }

    /// Makes the changes durable: the log first, then the witness.
    fn store(&mut self, changes: &Changes) -> Result<(), Error> {
        self.engine.commit(changes)?;
        if let Some(last) = changes.writes.last() {
            let marks = Marks { acknowledged: last.event.revision, assigned: self.assigned };
            // The commit stands whether or not this succeeds; the witness is a second opinion.
            if let Err(error) = self.witness.write(marks) {
                tracing::warn!(%error, "cannot record the last acknowledged revision");
            }
        }
        Ok(())
    }

    fn publish(&self, changes: &Changes) {
        let granted = {
            let mut leases = self.shared.leases.lock();
            let last = leases.last;
            for (id, term) in &changes.leases {
                leases.set(*id, *term);
            }
            for write in &changes.writes {
                leases.apply(&write.event);
            }
            leases.last > last
        };
        if let Some(revision) = changes.compacted {
            self.shared.compacted.store(revision, Ordering::Release);
        }
        self.shared.observers.publish(&self.shared.state, &changes.writes);
        if let Some(last) = changes.writes.last() {
            self.shared.progress.send_replace(last.event.revision);
            self.shared.housekeeping.history_grew();
        }
        // Keeping a lease alive only moves a deadline back; the keeper notices when it gets there.
        if granted || changes.compacted.is_some() {
            self.shared.housekeeping.wake();
        }
    }
}

/// However the committer ends, even by an observer's panic, nobody is left waiting for it.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.queue.abort();
        self.0.generations.close();
        self.0.observers.close();
    }
}

/// A decided request and where to send the decision.
enum Answer {
    Txn(Result<Committed, Error>, Reply<Committed>),
    Lease(Result<LeaseId, Error>, Reply<LeaseId>),
    Done(Result<(), Error>, Reply<()>),
}

impl Answer {
    /// Whoever stopped waiting does not need the answer.
    fn send(self) {
        match self {
            Answer::Txn(result, reply) => drop(reply.send(result)),
            Answer::Lease(result, reply) => drop(reply.send(result)),
            Answer::Done(result, reply) => drop(reply.send(result)),
        }
    }

    fn fail(self, error: &Error) {
        match self {
            Answer::Txn(_, reply) => drop(reply.send(Err(error.clone()))),
            Answer::Lease(_, reply) => drop(reply.send(Err(error.clone()))),
            Answer::Done(_, reply) => drop(reply.send(Err(error.clone()))),
        }
    }
}
