//! The scheduler: which node each pod goes to, by upstream's rules.
//!
//! Pods wait in a queue, one decision is made at a time over a snapshot that follows every change, and what was decided
//! is written while the next decision is made. Decisions are pure (`cycle`, `plugins`); only `run` speaks to the server.
//!
//! Never in here: what happens on nodes, and any second opinion on what the API server admitted.

mod budgets;
mod cluster;
mod config;
mod cycle;
mod engine;
mod framework;
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
