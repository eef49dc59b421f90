//! Basics that every crate may use: the clock, which tests can control, backoff delays, files with exact modes, and connection
//! limits of listeners.

mod backoff;
mod clock;
mod connections;
pub mod files;

pub use backoff::Backoff;
pub use clock::{Clock, ClockControl};
pub use connections::{Connected, ConnectionLimits, Connections};
