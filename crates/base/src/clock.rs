//! The clock. A real clock is the machine's; a manual one is moved by tests, so that days pass in a test as fast as their
//! work is done.
//!
//! All code that needs the time or waits uses a `Clock`; nothing else reads the machine's clock.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;
use tokio::sync::oneshot;

#[derive(Clone, Debug)]
pub struct Clock(Arc<Kind>);

#[derive(Debug)]
enum Kind {
    Real,
    Manual(Mutex<Manual>),
}

#[derive(Debug)]
struct Manual {
    now: Timestamp,
    /// The sleeping tasks by deadline, earliest first; the number orders tasks with equal deadlines.
    sleepers: BTreeMap<(Timestamp, u64), oneshot::Sender<()>>,
    asked: u64,
}

/// The control of a manual clock.
#[derive(Clone, Debug)]
pub struct ClockControl(Clock);

impl Clock {
    pub fn real() -> Clock {
        Clock(Arc::new(Kind::Real))
    }

    /// A manual clock at `start`, and its control.
    pub fn manual(start: Timestamp) -> (Clock, ClockControl) {
        let manual = Manual { now: start, sleepers: BTreeMap::new(), asked: 0 };
        let clock = Clock(Arc::new(Kind::Manual(Mutex::new(manual))));
        (clock.clone(), ClockControl(clock))
    }

    pub fn now(&self) -> Timestamp {
        match &*self.0 {
            Kind::Real => Timestamp::now(),
            Kind::Manual(manual) => manual.lock().now,
        }
    }

    /// The time since an arbitrary moment. It never goes back and never jumps, whatever happens to the system time.
    pub fn monotonic(&self) -> Duration {
        static START: LazyLock<Instant> = LazyLock::new(Instant::now);
        match &*self.0 {
            Kind::Real => START.elapsed(),
            Kind::Manual(manual) => {
                let since = manual.lock().now.duration_since(Timestamp::UNIX_EPOCH);
                since.try_into().unwrap_or_default()
            }
        }
    }

    pub async fn sleep(&self, duration: Duration) {
        let until = SignedDuration::try_from(duration).ok().and_then(|d| self.now().checked_add(d).ok());
        self.sleep_until(until.unwrap_or(Timestamp::MAX)).await;
    }

    /// The output of a future; `None` after the timeout.
    pub async fn timeout<T>(&self, limit: Duration, future: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            value = future => Some(value),
            () = self.sleep(limit) => None,
        }
    }

    pub async fn sleep_until(&self, until: Timestamp) {
        let woken = match &*self.0 {
            Kind::Real => {
                let left = until.duration_since(Timestamp::now());
                return tokio::time::sleep(left.try_into().unwrap_or_default()).await;
            }
            Kind::Manual(manual) => {
                let mut manual = manual.lock();
                if manual.now >= until {
                    return;
                }
                let (wake, woken) = oneshot::channel();
                let number = manual.asked;
                manual.asked += 1;
                manual.sleepers.insert((until, number), wake);
                woken
            }
        };
        // The sender is dropped only with the clock itself, when no task waits any more.
        let _ = woken.await;
    }
}

impl ClockControl {
    /// Advances the clock and wakes the tasks whose deadline has passed.
    pub fn advance(&self, by: Duration) {
        let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
        self.set(|now, _| now.checked_add(by).unwrap_or(Timestamp::MAX));
    }

    /// Advances the clock to the next deadline, but not past `limit`. False if no task waits.
    pub fn advance_to_next(&self, limit: Timestamp) -> bool {
        self.set(|now, manual| {
            let next = manual.sleepers.keys().next().map_or(limit, |(at, _)| *at);
            next.min(limit).max(now)
        })
    }

    /// Sets the time; true if it moved.
    fn set(&self, to: impl FnOnce(Timestamp, &mut Manual) -> Timestamp) -> bool {
        let Kind::Manual(manual) = &*self.0.0 else { return false };
        let mut manual = manual.lock();
        // Cancelled waits are ignored.
        manual.sleepers.retain(|_, wake| !wake.is_closed());
        let before = manual.now;
        manual.now = to(before, &mut manual);
        let now = manual.now;
        let later = manual.sleepers.split_off(&(now, u64::MAX));
        for (_, wake) in std::mem::replace(&mut manual.sleepers, later) {
            // Fails if the task has been cancelled.
            let _ = wake.send(());
        }
        now > before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_manual_clock_moves_only_when_advanced() {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let (clock, control) = Clock::manual(start);
        let sleeper = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep(Duration::from_secs(3600)).await }
        });
        tokio::task::yield_now().await;
        control.advance(Duration::from_secs(60));
        tokio::task::yield_now().await;
        assert!(!sleeper.is_finished());
        assert!(control.advance_to_next(Timestamp::MAX));
        sleeper.await.unwrap();
        assert_eq!(clock.now().duration_since(start).as_secs(), 3600);
        let before = clock.monotonic();
        control.advance(Duration::from_secs(5));
        assert_eq!(clock.monotonic() - before, Duration::from_secs(5));
        assert!(!control.advance_to_next(clock.now()));
    }
}
