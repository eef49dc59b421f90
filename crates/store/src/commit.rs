//! The committer: the only thread that writes.
//!
//! Each round takes whatever waits, plans it against the published state, makes it durable in one
//! disk transaction, publishes it, and only then answers. Invariants: nothing is visible before it is
//! on disk, nothing is acknowledged before it is visible; a failed disk transaction changes nothing
//! in memory and fails every request of its batch.

use std::{
    error::Error as StdError,
    fs::File,
    sync::{Arc, atomic::Ordering},
    time::Instant,
};

use crate::{
    Committed, Error, LeaseId, Revision,
    plan::{Changes, Planner},
    queue::{Reply, Request, Work},
    shared::Shared,
    sqlite::{Engine, Scrub},
    witness::{Marks, Witness},
};

/// How many rows of compacted history are looked at per commit, besides twice as many as it wrote.
const SCRUB_WITH_COMMIT: usize = 32;
/// And per round when nothing else is to do.
const SCRUB_WHEN_IDLE: usize = 1024;

pub(crate) struct Committer {
    shared: Arc<Shared>,
    engine: Engine,
    witness: Witness,
    /// The last revision handed out.
    assigned: Revision,
    /// Removing compacted rows failed and is not tried again before a commit succeeds.
    scrub_failed: bool,
    /// Held for as long as this thread may write.
    lock: File,
}

impl Committer {
    pub(crate) fn new(
        shared: Arc<Shared>,
        engine: Engine,
        witness: Witness,
        assigned: Revision,
        lock: File,
    ) -> Self {
        Committer { shared, engine, witness, assigned, scrub_failed: false, lock }
    }

    /// Works until the queue is closed and empty.
    pub(crate) fn run(mut self) {
        let _end = End(Arc::clone(&self.shared));
        loop {
            let scrub_pending = self.scrub_target().is_some() && !self.scrub_failed;
            match self.shared.queue.take(!scrub_pending) {
                Work::Batch(requests) => self.commit(requests),
                Work::Idle => self.scrub(),
                Work::Closed => break,
            }
        }
        self.shared.readers.close();
        if let Err(error) = self.witness.sync() {
            tracing::warn!(%error, "cannot sync the record of the last acknowledged revision");
        }
        if let Err(error) = self.engine.close() {
            tracing::warn!(error = &error as &dyn StdError, "cannot fold the log on close");
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
                self.scrub_failed = false;
                self.publish(&changes);
                answers.into_iter().for_each(Answer::send);
            }
            Err(error) => {
                tracing::warn!(error = &error as &dyn StdError, "a commit failed");
                let marks = Marks { acknowledged: self.shared.revision(), assigned };
                if let Err(error) = self.witness.write(marks) {
                    tracing::warn!(%error, "cannot record the revisions a failed commit used");
                }
                answers.into_iter().for_each(|answer| answer.fail(&error));
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

    /// Makes the changes durable: the database first, then the witness.
    fn store(&mut self, changes: &Changes) -> Result<(), Error> {
        let rows = SCRUB_WITH_COMMIT + 2 * changes.writes.len();
        let scrub = self.scrub_target().map(|up_to| Scrub { up_to, rows });
        let written = {
            let _gate = self.shared.gate.lock();
            if self.shared.housekeeping.log_overdue() && self.engine.checkpoint()? {
                self.shared.housekeeping.log_folded();
            }
            self.engine.commit(changes, scrub)?
        };
        if let Some(last) = changes.writes.last() {
            let marks = Marks { acknowledged: last.event.revision, assigned: self.assigned };
            // The commit stands whether or not this succeeds; the witness is a second opinion.
            if let Err(error) = self.witness.write(marks) {
                tracing::warn!(%error, "cannot record the last acknowledged revision");
            }
        }
        self.shared.housekeeping.log_grew(written);
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
        if granted {
            self.shared.housekeeping.wake();
        }
    }

    /// How far compacted rows can be removed; `None` when that is done. The last row stays, for it
    /// carries the revision.
    fn scrub_target(&self) -> Option<Revision> {
        let compacted = self.shared.compacted.load(Ordering::Acquire);
        let up_to = compacted.min(self.shared.revision().saturating_sub(1));
        (up_to > self.engine.scrubbed()).then_some(up_to)
    }

    fn scrub(&mut self) {
        let Some(up_to) = self.scrub_target() else { return };
        let result = {
            let _gate = self.shared.gate.lock();
            self.engine.commit(&Changes::default(), Some(Scrub { up_to, rows: SCRUB_WHEN_IDLE }))
        };
        match result {
            Ok(written) => self.shared.housekeeping.log_grew(written),
            Err(error) => {
                let error = &error as &dyn StdError;
                tracing::warn!(error, "cannot remove compacted history");
                self.scrub_failed = true;
            }
        }
    }
}

/// However the committer ends, even by an observer's panic, nobody is left waiting for it.
struct End(Arc<Shared>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.queue.abort();
        self.0.readers.close();
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
