//! End to end: the real binary and real clients.
//!
//! What the suites share: a manifest for every kind, what discovery says is served, machines on a network, and patience. The suites are in
//! `tests/`, one file per client or per promise.

mod kubectl;
mod machines;
mod manifests;
pub mod pods;
mod served;
mod talking;
mod waiting;

pub use kubectl::kubectl_minor;
pub use machines::{Machine, Switch};
pub use manifests::{Sample, pod, sample};
pub use served::{Served, served};
pub use talking::{Answer, ECHO, Lasting, PORT};
pub use waiting::eventually;
