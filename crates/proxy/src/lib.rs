//! The service proxy: writes Services and EndpointSlices as rules of the kernel, which forwards the packets.
//!
//! The desired state is computed purely: `service` and `endpoints` parse objects, `route` selects the endpoints of a port, and
//! each backend computes its rules and their changes. Only `run` and the backends' writers act.
//!
//! *Invariants:* the end of the process changes no rules, and the next process replaces them without a moment in which there
//! are none. The cost of a changed object does not depend on the number of objects.
//!
//! Never in here: the pod network and network policies.

mod backend;
pub mod base;
pub mod config;
pub mod conntrack;
pub mod endpoints;
mod engine;
mod health;
pub mod inputs;
pub mod iptables;
mod limits;
mod metrics;
mod names;
pub mod nftables;
mod node;
mod node_ports;
pub mod reserved;
pub mod route;
mod run;
pub mod service;
mod sysctls;
#[cfg(test)]
mod testing;

pub use config::{Config, ConfigError, Mode};
pub use engine::{Engine, Outcome, Synced};
pub use run::{Proxy, clean_up, start};
