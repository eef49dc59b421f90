//! Requests to a Kubernetes API, over TLS or within the process, and one shared cache per kind.
//!
//! The parts of a cluster use the API only through this crate. A transport carries the user of its requests; the server
//! authorizes them. Never in here: decisions about objects.

mod account;
mod cache;
mod caches;
mod discovery;
mod error;
mod index;
mod kind;
pub mod kinds;
mod object;
mod reflector;
mod remote;
mod requests;
mod servers;
mod transport;

pub use account::AccountTransport;
pub use cache::{Cache, Change, Changes};
pub use caches::Caches;
pub use discovery::{Discovery, Served};
pub use error::Error;
pub use index::Index;
pub use kind::Kind;
pub use object::{Key, Object, Owner, View};
pub use remote::{Remote, RemoteError};
pub use requests::{Client, DeleteOptions, Patch, Propagation};
pub use servers::Servers;
pub use transport::{EventStream, Seen, Transport, WatchEvent, WatchRequest};
