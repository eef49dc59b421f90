//! The scheduler: assigns pods to nodes by upstream's rules.
//!
//! Pods wait in a queue; one decision at a time is made on a snapshot that follows every change, and decisions are
//! written while the next ones are made. Decisions are pure (`cycle`, `plugins`); only `run` talks to the API server.
//!
//! Never in here: what happens on nodes, and validation of what the API server has admitted.

mod allocation;
mod budgets;
mod cluster;
mod config;
mod cycle;
mod engine;
mod framework;
#[cfg(test)]
#[path = "../../api/tests/bounds/meter.rs"]
mod meter;
mod metrics;
mod node;
mod node_selector;
mod plugins;
mod pod;
mod queue;
mod random;
mod rehearsal;
mod resources;
mod run;
mod snapshot;
mod storage;
#[cfg(test)]
mod testing;
mod tolerations;
mod workloads;

pub use config::{Config, ConfigError};
pub use metrics::Metrics;
pub use rehearsal::{Rehearsed, rehearse};
pub use run::start;
