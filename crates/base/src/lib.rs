//! What everything is timed by: the clock, which tests can hold still, and growing delays.

mod backoff;
mod clock;

pub use backoff::Backoff;
pub use clock::{Clock, Hands};
