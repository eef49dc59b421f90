//! The threads that submit requests, and whether a commit waits for more of them.
//!
//! A commit costs about the same whatever its size. While every worker thread is busy, more requests arrive soon, and
//! a commit that waits a moment includes them. As soon as one thread is idle, no request is delayed by a lack of
//! threads, and a longer wait would only add latency.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// The number of idle worker threads. The runtime that owns the threads calls `parked` and `unparked`.
#[derive(Debug, Default)]
pub struct WorkerThreads {
    idle: AtomicUsize,
    /// True while the committer waits for more requests.
    waiting: AtomicBool,
    committer: OnceLock<Thread>,
}

impl WorkerThreads {
    /// Counts a thread that became idle.
    pub fn parked(&self) {
        self.idle.fetch_add(1, Ordering::SeqCst);
        // Either the load below sees the waiting committer, or the committer sees the idle thread before it parks.
        if self.waiting.load(Ordering::SeqCst)
            && let Some(committer) = self.committer.get()
        {
            committer.unpark();
        }
    }

    /// Counts a thread that became busy.
    pub fn unparked(&self) {
        self.idle.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits while all threads are busy, for `timeout` at most. Only for the committer's thread.
    pub(crate) fn wait_for_idle(&self, timeout: Duration) {
        self.committer.get_or_init(thread::current);
        let deadline = Instant::now() + timeout;
        self.waiting.store(true, Ordering::SeqCst);
        while self.idle.load(Ordering::SeqCst) == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        self.waiting.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn a_commit_does_not_wait_while_a_thread_is_idle() {
        let threads = WorkerThreads::default();
        threads.parked();
        threads.parked();
        threads.unparked();
        threads.wait_for_idle(FOR_EVER);
    }

    #[test]
    fn a_waiting_commit_continues_when_a_thread_is_idle_or_the_timeout_expires() {
        let threads = Arc::new(WorkerThreads::default());
        let (done, is_done) = mpsc::channel();
        let committer = {
            let threads = threads.clone();
            thread::spawn(move || {
                threads.wait_for_idle(Duration::from_micros(1));
                threads.wait_for_idle(FOR_EVER);
                done.send(()).unwrap();
            })
        };
        while !threads.waiting.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        assert!(is_done.try_recv().is_err());
        threads.parked();
        is_done.recv().unwrap();
        committer.join().unwrap();
        assert!(!threads.waiting.load(Ordering::SeqCst));
    }
}
