//! Waiting for the effects of controllers.

use std::time::{Duration, Instant};

const DEADLINE: Duration = Duration::from_secs(60);

/// Polls until a condition holds.
#[track_caller]
pub fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}
