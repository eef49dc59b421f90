//! What every part needs and none owns: the clock, which tests can hold still, growing delays, and files with
//! the modes that they should have.

mod backoff;
mod clock;
pub mod files;

pub use backoff::Backoff;
pub use clock::{Clock, Hands};
