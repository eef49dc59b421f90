//! The load that `corten bench` puts on a server, and what it measures.
//!
//! [`apiserver`] starts a server as a child process and works it over TLS as clients would: creating, reading,
//! listing, updating and watching pods. It must run in a process of its own, for the server's CPU time and
//! memory are read from `/proc`. Nothing here knows how the server works inside: any binary that takes the
//! same arguments can be measured.

mod apiserver;
mod cluster;
mod controllers;
mod dns;
mod events;
mod http;
mod line;
mod load;
mod node;
mod objects;
mod pods;
mod process;
mod proxy;
mod raw;
mod report;
mod scheduler;
mod usage;
mod watch;
mod watching;

pub use apiserver::{ApiserverOptions, apiserver};
pub use cluster::{ClusterOptions, cluster};
pub use controllers::{ControllersOptions, controllers};
pub use dns::{DnsOptions, dns};
pub use node::{NodeOptions, node};
pub use proxy::{OpenRules, ProxyOptions, Rules, proxy};
pub use raw::raw_server;
pub use report::Report;
pub use scheduler::{SchedulerOptions, scheduler};

#[cfg(test)]
mod fake;
#[cfg(test)]
mod tests;
