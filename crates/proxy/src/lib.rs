//! The service proxy: Services and EndpointSlices become rules of the kernel, which then does everything itself.
//!
//! What shall be is decided purely: `service` and `endpoints` read objects, `route` decides which endpoints a port leads
//! to, and each back end says what that means in its own rules and what has to change. Only `run` and the back ends'
//! writers act.
//!
//! *Invariants:* nothing is done at the end of the process: rules stay, and are taken over without a moment in which
//! there are none. What one changed object costs does not depend on how many there are.
//!
//! Never in here: the pod network, and whom policies let through.

mod backend;
pub mod base;
pub mod config;
pub mod conntrack;
pub mod endpoints;
mod engine;
mod health;
pub mod inputs;
pub mod iptables;
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
