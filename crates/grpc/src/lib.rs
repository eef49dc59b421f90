//! gRPC over HTTP/2 for every component: a client, a server, and the protobuf codec of their messages.
//!
//! ```text
//! Channel ─► endpoint ─► connection ─► call ─► frames ─► messages        Router: path ─► handler
//! ```
//!
//! Invariants: every message, header list, wait and queue has a limit, because the peer may be hostile; a call always ends
//! with a [`Status`] or its messages, never with a panic; dropping a call cancels it at the peer.
//!
//! Services are described by the crates that use them: their messages are tables for [`protobuf::message!`], their methods
//! are paths. Nothing is generated. Compression, reflection and binary metadata are deliberately absent.

mod body;
pub mod channel;
mod client;
mod connect;
mod frame;
#[doc(hidden)]
pub mod fuzz;
pub mod health;
pub mod protobuf;
mod server;
mod status;
mod stream;
mod timeout;

pub use body::Body;
pub use channel::{Channel, ChannelOptions, KeepAlive};
pub use client::CallOptions;
pub use connect::Endpoint;
pub use server::{Call, Router, ServerLimits, serve_connection, serve_unix};
pub use status::{Code, Status};
pub use stream::{Receiver, Sender};

/// The default limit of a received message, as in upstream's gRPC libraries.
pub const MAX_MESSAGE: usize = 4 << 20;
