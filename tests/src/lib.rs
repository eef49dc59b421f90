//! End to end: the real binary and real clients.
//!
//! What the suites share: a manifest for every kind and what discovery says is served. The suites are in
//! `tests/`, one file per client or per promise.

mod manifests;
mod served;

pub use manifests::{Sample, pod, sample};
pub use served::{Served, served};
