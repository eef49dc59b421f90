//! Who brings requests, and whether a commit waits for more of them.
//!
//! A commit costs about the same however much is in it. While every thread that makes requests is at work,
//! more will come soon, and a commit that waits a moment takes it along. As soon as one of them rests, there
//! is less to do than could be done, and waiting longer would help nobody.

use std::{
    sync::{
        OnceLock,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    thread::{self, Thread},
    time::{Duration, Instant},
};

/// The threads that make requests. Whoever runs them tells when one rests and when it goes on.
#[derive(Debug, Default)]
pub struct Crew {
    resting: AtomicUsize,
    /// The committer waits for more.
    gathering: AtomicBool,
    committer: OnceLock<Thread>,
}

impl Crew {
    /// One of them has nothing to do.
    pub fn rests(&self) {
        self.resting.fetch_add(1, Ordering::SeqCst);
        // Either this is seen, or the committer sees that one rests before it waits.
        if self.gathering.load(Ordering::SeqCst)
            && let Some(committer) = self.committer.get()
        {
            committer.unpark();
        }
    }

    /// It has something to do again.
    pub fn goes_on(&self) {
        self.resting.fetch_sub(1, Ordering::SeqCst);
    }

    /// Waits as long as all are at work, but not longer than `patience`. For the committer's thread alone.
    pub(crate) fn gather(&self, patience: Duration) {
        self.committer.get_or_init(thread::current);
        let deadline = Instant::now() + patience;
        self.gathering.store(true, Ordering::SeqCst);
        while self.resting.load(Ordering::SeqCst) == 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            thread::park_timeout(left);
        }
        self.gathering.store(false, Ordering::SeqCst);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, mpsc};

    use super::*;

    const FOR_EVER: Duration = Duration::from_secs(3600);

    #[test]
    fn nobody_waits_while_somebody_rests() {
        let crew = Crew::default();
        crew.rests();
        crew.rests();
        crew.goes_on();
        crew.gather(FOR_EVER);
    }

    #[test]
    fn who_waits_goes_on_when_somebody_rests_or_time_is_over() {
        let crew = Arc::new(Crew::default());
        let (done, is_done) = mpsc::channel();
        let waiting = {
            let crew = crew.clone();
            thread::spawn(move || {
                crew.gather(Duration::from_micros(1));
                crew.gather(FOR_EVER);
                done.send(()).unwrap();
            })
        };
        while !crew.gathering.load(Ordering::SeqCst) {
            thread::yield_now();
        }
        assert!(is_done.try_recv().is_err());
        crew.rests();
        is_done.recv().unwrap();
        waiting.join().unwrap();
        assert!(!crew.gathering.load(Ordering::SeqCst));
    }
}
