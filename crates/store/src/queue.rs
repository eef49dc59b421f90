//! The requests waiting for the committer, and their answers.
//!
//! Invariant: every request that was accepted is answered, or its sender is dropped when the store
//! closes, which the waiting side reads as [`Error::Closed`].

use std::{
    collections::VecDeque,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use parking_lot::{Condvar, Mutex, MutexGuard};
use tokio::sync::oneshot;

use crate::{Committed, Crew, Error, LeaseId, Op, Revision, Txn};

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

pub(crate) enum Request {
    Txn(Txn, Reply<Committed>),
    Grant(Duration, Reply<LeaseId>),
    KeepAlive(LeaseId, Reply<()>),
    Revoke(LeaseId, Reply<()>),
    /// Revoke what has expired.
    Expire(Reply<()>),
    Compact(Revision, Reply<()>),
}

impl Request {
    fn bytes(&self) -> usize {
        let Request::Txn(txn, _) = self else { return 0 };
        let size = |op: &Op| op.value().map_or(0, |value| value.bytes.len());
        txn.ops.iter().map(size).sum()
    }
}

/// One commit takes no more than this, so that no writer waits behind a huge one.
const BATCH_REQUESTS: usize = 512;
const BATCH_BYTES: usize = 8 << 20;
/// How long a commit waits for more at most, while all who could bring it are at work.
const PATIENCE: Duration = Duration::from_micros(500);

#[derive(Default)]
pub(crate) struct Queue {
    crew: Option<Arc<Crew>>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// The committer has answered what it took.
    answered: Condvar,
    /// How many tasks wait for an answer, of the committer or of the disk.
    asking: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    closed: bool,
    /// If held: how many of the first may be taken.
    allowed: Option<usize>,
    /// Some were taken and are not answered yet.
    busy: bool,
}

impl Waiting {
    /// How many can be taken.
    fn ready(&self) -> usize {
        let all = self.requests.len();
        self.allowed.filter(|_| !self.closed).map_or(all, |allowed| allowed.min(all))
    }
}

/// A task that waits for an answer.
pub(crate) struct Asking<'a>(&'a Queue);

impl Drop for Asking<'_> {
    fn drop(&mut self) {
        self.0.asking.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Queue {
    pub(crate) fn new(crew: Option<Arc<Crew>>) -> Queue {
        Queue { crew, ..Queue::default() }
    }

    /// Whether nothing more is taken.
    pub(crate) fn is_closed(&self) -> bool {
        self.waiting.lock().closed
    }

    pub(crate) fn push(&self, request: Request) -> Result<(), Error> {
        let mut waiting = self.waiting.lock();
        if waiting.closed {
            return Err(Error::Closed);
        }
        waiting.requests.push_back(request);
        drop(waiting);
        self.arrived.notify_one();
        Ok(())
    }

    /// Waits for its answer, from a task.
    pub(crate) async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let _asking = self.asking();
        let (reply, answer) = oneshot::channel();
        self.push(request(reply))?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Counts a task as waiting until it has taken note of its answer.
    pub(crate) fn asking(&self) -> Asking<'_> {
        self.asking.fetch_add(1, Ordering::AcqRel);
        Asking(self)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.asking.load(Ordering::Acquire) == 0
    }

    /// Waits for its answer, from a plain thread.
    pub(crate) fn ask_blocking<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.push(request(reply))?;
        answer.blocking_recv().unwrap_or(Err(Error::Closed))
    }

    /// The next requests to commit together, once there are any; `None` when the store is closed.
    pub(crate) fn take(&self) -> Option<Vec<Request>> {
        let mut waiting = self.waiting.lock();
        waiting.busy = false;
        self.answered.notify_all();
        while waiting.ready() == 0 {
            if waiting.closed {
                return None;
            }
            self.arrived.wait(&mut waiting);
        }
        if let Some(crew) = self.crew.as_ref().filter(|_| waiting.allowed.is_none() && !waiting.closed) {
            MutexGuard::unlocked(&mut waiting, || crew.gather(PATIENCE));
        }
        let most = waiting.ready().min(BATCH_REQUESTS);
        let mut batch = Vec::with_capacity(most);
        let mut bytes = 0;
        while batch.len() < most && bytes < BATCH_BYTES {
            let Some(request) = waiting.requests.pop_front() else { break };
            bytes += request.bytes();
            batch.push(request);
        }
        waiting.allowed = waiting.allowed.map(|allowed| allowed - batch.len().min(allowed));
        waiting.busy = true;
        Some(batch)
    }

    /// From now on nothing is taken but by `flush`, until the end.
    pub(crate) fn hold(&self) {
        self.waiting.lock().allowed = Some(0);
    }

    /// Whatever waits is taken again as it comes.
    pub(crate) fn release(&self) {
        self.waiting.lock().allowed = None;
        self.arrived.notify_one();
    }

    /// Has everything taken that waits, and waits until it is answered.
    pub(crate) fn flush(&self) {
        let mut waiting = self.waiting.lock();
        waiting.allowed = Some(waiting.requests.len());
        self.arrived.notify_one();
        while !waiting.closed && (waiting.busy || waiting.ready() > 0) {
            self.answered.wait(&mut waiting);
        }
    }

    /// Accepts nothing more and forgets what waits.
    pub(crate) fn abort(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        waiting.requests.clear();
        self.answered.notify_all();
    }

    /// Accepts nothing more; what waits is still done.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
    }
}
