//! What every part needs and none owns: the clock, which tests can hold still, growing delays, files with the
//! modes that they should have, and how many connections a listener takes on.

mod backoff;
mod clock;
mod connections;
pub mod files;

pub use backoff::Backoff;
pub use clock::{Clock, Hands};
pub use connections::{Connected, ConnectionLimits, Connections};
