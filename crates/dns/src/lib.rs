//! The DNS server of every node: answers queries for Services and pods from memory, and forwards all others to the node's
//! own resolvers.
//!
//! `resolve` computes answers, purely; `zone` holds the records' sources, which `follow` keeps in sync with the cluster;
//! `message` decodes queries and encodes responses; `serve` has the sockets; `forward` queries upstream resolvers.
//!
//! *Invariants:* a response about the cluster never waits for I/O. It is computed from the last known state, however long
//! the API server is unreachable. No DNS query ever causes a request to the API server.
//!
//! *Why a codec of our own:* the messages needed are 300 lines without dependencies, and encoding a response takes a quarter
//! of a microsecond; a general library would take a minute to build and allocate objects for bytes that are only copied.

mod cache;
mod cluster_clients;
mod dns;
mod endpoints;
mod follow;
mod forward;
#[doc(hidden)]
pub mod fuzz;
mod message;
mod metrics;
mod name;
mod resolve;
mod resolvers;
mod serve;
mod upstream;
mod zone;

use std::net::IpAddr;
use std::path::PathBuf;

pub use cluster_clients::ClusterClients;
pub use dns::Dns;
pub use endpoints::{NAMESPACE, NodeEndpoints, OURS, PROXY_NAME, SERVICE};
pub use follow::follow;
pub use message::kind;
pub use name::Name;
pub use serve::{Bound, ClientFilter, all_clients};

/// The port of DNS.
pub const PORT: u16 = 53;

/// The options of the DNS server.
#[derive(Debug, Clone)]
pub struct Options {
    /// The cluster domain.
    pub domain: String,
    /// The addresses of the DNS service.
    pub addresses: Vec<IpAddr>,
    /// The file that names the node's resolvers.
    pub resolv_conf: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} is not a DNS domain")]
    Domain(String),
}
