//! End to end: the real binary and real clients.
//!
//! Shared by the suites: a manifest for every kind, the served resources by discovery, machines on a network, and
//! waiting. The suites
//! are in `tests/`, one file per client or per feature.

mod kubectl;
mod machines;
mod manifests;
pub mod pods;
mod served;
mod traffic;
mod waiting;

pub use kubectl::kubectl_minor;
pub use machines::{Machine, Switch};
pub use manifests::{Sample, pod, sample, widgets};
pub use served::{Served, served, settled};
pub use traffic::{Answer, ECHO, LongConnection, PORT};
pub use waiting::eventually;
