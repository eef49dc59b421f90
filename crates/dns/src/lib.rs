//! Names for services and pods, answered from memory on every node; all other names are asked for where the node itself
//! asks.
//!
//! `resolve` decides purely what the answer is; `zone` is what there is, kept up to date by `follow`; `message` reads
//! and writes what goes over the wire; `serve` has the sockets. What others answered goes through `forward`.
//!
//! *Invariants:* an answer about the cluster never waits for anybody. It is given from what was last known, however
//! long the API server is away. Nothing is ever asked of the API server on behalf of a question.
//!
//! *Why a codec of our own:* the messages needed are 300 lines without dependencies, and writing an answer is a
//! quarter of a microsecond; a general library would be built for a minute and make objects of what we only copy.

mod cache;
mod dns;
mod endpoints;
mod follow;
mod forward;
mod message;
mod metrics;
mod name;
mod neighbours;
mod passed;
mod resolve;
mod resolvers;
mod serve;
mod zone;

use std::net::IpAddr;
use std::path::PathBuf;

pub use dns::Dns;
pub use endpoints::{NAMESPACE, NodeEndpoints, OURS, PROXY_NAME, SERVICE};
pub use follow::follow;
pub use message::kind;
pub use name::Name;
pub use neighbours::Neighbours;
pub use serve::{Bound, MayAsk, anybody};

/// The port that names are asked for at.
pub const PORT: u16 = 53;

/// What the server of names has to be told.
#[derive(Debug, Clone)]
pub struct Options {
    /// What the cluster's names end in.
    pub domain: String,
    /// Where it is asked.
    pub addresses: Vec<IpAddr>,
    /// Where it is said whom to ask about all other names.
    pub resolv_conf: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0:?} cannot be what names end in")]
    Domain(String),
}
