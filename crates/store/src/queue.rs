//! The queue of requests to the committer, and their responses.
//!
//! Invariant: every accepted request gets a response, or its sender is dropped when the store closes, which the waiting side
//! reports as [`Error::Closed`].

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

use crate::{Committed, Error, LeaseId, Op, Outcome, Program, Revision, Txn, WorkerThreads};

pub(crate) type Reply<T> = oneshot::Sender<Result<T, Error>>;

pub(crate) enum Request {
    Txn(Txn, Reply<Committed>),
    Program(Program, Reply<Outcome>),
    /// The id is the caller's, or the next one.
    Grant(Option<LeaseId>, Duration, Reply<LeaseId>),
    KeepAlive(LeaseId, Reply<()>),
    Revoke(LeaseId, Reply<()>),
    /// Revoke expired leases.
    Expire(Reply<()>),
    Compact(Revision, Reply<()>),
    /// Replace the logs by a snapshot.
    Shrink(Reply<()>),
    /// Free the space that is prepared for further writes.
    Trim(Reply<()>),
    /// Assign later revisions than this from now on.
    Raise(Revision, Reply<()>),
}

impl Request {
    fn bytes(&self) -> usize {
        let size = |op: &Op| op.value().map_or(0, |value| value.bytes.len());
        match self {
            Request::Txn(txn, _) => txn.ops.iter().map(size).sum(),
            Request::Program(program, _) => program.bytes(),
            _ => 0,
        }
    }
}

/// The limits of one commit, so that no writer waits for a huge one.
const BATCH_REQUESTS: usize = 512;
const BATCH_BYTES: usize = 8 << 20;
/// The longest time that a commit waits for more requests while all worker threads are busy.
const MAX_WAIT: Duration = Duration::from_micros(500);

#[derive(Default)]
pub(crate) struct Queue {
    worker_threads: Option<Arc<WorkerThreads>>,
    waiting: Mutex<Waiting>,
    arrived: Condvar,
    /// Signalled when the committer has responded to its batch.
    responded: Condvar,
    /// The number of tasks that wait for the committer or the disk.
    waiting_tasks: AtomicUsize,
}

#[derive(Default)]
struct Waiting {
    requests: VecDeque<Request>,
    closed: bool,
    /// If held: the number of requests at the front that may be taken.
    allowed: Option<usize>,
    /// True while a batch is taken and its responses are not sent.
    busy: bool,
}

impl Waiting {
    /// The number of requests that can be taken.
    fn ready(&self) -> usize {
        let all = self.requests.len();
        self.allowed.filter(|_| !self.closed).map_or(all, |allowed| allowed.min(all))
    }
}

/// A waiting task, counted until it is dropped.
pub(crate) struct WaitingTask<'a>(&'a Queue);

impl Drop for WaitingTask<'_> {
    fn drop(&mut self) {
        self.0.waiting_tasks.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Queue {
    pub(crate) fn new(worker_threads: Option<Arc<WorkerThreads>>) -> Queue {
        Queue { worker_threads, ..Queue::default() }
    }

    /// True if no more requests are accepted.
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

    /// Sends a request and waits for its response, from a task.
    pub(crate) async fn submit<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let _asking = self.count_waiting();
        let (reply, answer) = oneshot::channel();
        self.push(request(reply))?;
        answer.await.unwrap_or(Err(Error::Closed))
    }

    /// Counts a task as waiting until it has processed its response.
    pub(crate) fn count_waiting(&self) -> WaitingTask<'_> {
        self.waiting_tasks.fetch_add(1, Ordering::AcqRel);
        WaitingTask(self)
    }

    pub(crate) fn is_quiet(&self) -> bool {
        self.waiting_tasks.load(Ordering::Acquire) == 0
    }

    /// Sends a request and waits for its response, from a plain thread.
    pub(crate) fn submit_blocking<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, Error> {
        let (reply, answer) = oneshot::channel();
        self.push(request(reply))?;
        answer.blocking_recv().unwrap_or(Err(Error::Closed))
    }

    /// The next requests to commit together, once there are any; `None` when the store is closed.
    pub(crate) fn take(&self) -> Option<Vec<Request>> {
        let mut waiting = self.waiting.lock();
        waiting.busy = false;
        self.responded.notify_all();
        while waiting.ready() == 0 {
            if waiting.closed {
                return None;
            }
            self.arrived.wait(&mut waiting);
        }
        if let Some(threads) =
            self.worker_threads.as_ref().filter(|_| waiting.allowed.is_none() && !waiting.closed)
        {
            MutexGuard::unlocked(&mut waiting, || threads.wait_for_idle(MAX_WAIT));
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

    /// From now on only `flush` lets requests be taken, until `release` or `close`.
    pub(crate) fn hold(&self) {
        self.waiting.lock().allowed = Some(0);
    }

    /// Ends `hold`.
    pub(crate) fn release(&self) {
        self.waiting.lock().allowed = None;
        self.arrived.notify_one();
    }

    /// Lets all waiting requests be taken, and waits for their responses.
    pub(crate) fn flush(&self) {
        let mut waiting = self.waiting.lock();
        waiting.allowed = Some(waiting.requests.len());
        self.arrived.notify_one();
        while !waiting.closed && (waiting.busy || waiting.ready() > 0) {
            self.responded.wait(&mut waiting);
        }
    }

    /// Accepts no more requests and drops the waiting ones.
    pub(crate) fn abort(&self) {
        let mut waiting = self.waiting.lock();
        waiting.closed = true;
        waiting.requests.clear();
        self.responded.notify_all();
    }

    /// Accepts no more requests; the waiting ones are still committed.
    pub(crate) fn close(&self) {
        self.waiting.lock().closed = true;
        self.arrived.notify_all();
    }
}
