//! The benchmarks of `corten bench`.
//!
//! [`apiserver`] starts a server as a child process and sends requests over TLS as clients would: creating, reading,
//! listing, updating and watching pods. The server must be a process of its own, because its CPU time and memory are
//! read from `/proc`. Nothing here depends on the server's internals: any binary with the same flags can be measured.

mod admission;
mod apiserver;
mod cluster;
mod controllers;
mod crd;
mod dns;
mod events;
mod http;
mod kills;
mod line;
mod load;
mod node;
mod objects;
mod pods;
mod process;
mod proxy;
mod raw;
mod release;
mod report;
mod scheduler;
mod usage;
mod watch;
mod watching;

pub use admission::{AdmissionOptions, admission};
pub use apiserver::{ApiserverOptions, apiserver};
pub use cluster::{ClusterOptions, cluster};
pub use controllers::{ControllersOptions, controllers};
pub use crd::{CrdOptions, Upstream, crd};
pub use dns::{DnsOptions, dns};
pub use kills::{KillsOptions, kills};
pub use node::{NodeOptions, node};
pub use proxy::{OpenRules, ProxyOptions, Rules, proxy};
pub use raw::raw_server;
pub use release::{ReleaseOptions, release};
pub use report::Report;
pub use scheduler::{SchedulerOptions, scheduler};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
