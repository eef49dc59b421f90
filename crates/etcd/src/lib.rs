//! etcd's v3 API on the embedded store, as a cluster of one member.
//!
//! ```text
//! connection ─► gRPC method ─► checks, pure ─► store::Program ─► store
//!            └► watch stream ─► recent events, or history ─► one cursor per stream
//! ```
//!
//! Requests, responses and errors are those of etcd v3.7. What only a cluster of several members has (adding members, moving
//! the leader) and etcd's own users and roles are refused.
//!
//! Invariants: nothing that is read is older than what was acknowledged before the request; a watch gets every event after
//! its start, once, in order, or is cancelled with the compacted revision; a slow client holds no memory beyond one page of
//! events; keys below a protected prefix are never written.

mod check;
mod convert;
mod counted_io;
mod identity;
mod keys;
mod kv;
mod lease;
pub mod listen;
mod maintenance;
mod metrics;
mod recent;
mod service;
mod snapshot;
mod watch;

pub use identity::Identity;
pub use service::{Etcd, Options};
