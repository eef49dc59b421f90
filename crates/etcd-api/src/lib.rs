//! etcd's v3 API, of etcd v3.7: its messages, methods and errors, for the server that speaks it and for clients of etcd.
//!
//! Messages have upstream's names, fields and numbers. It decides nothing: limits and meaning are the server's.

mod auth;
mod cluster;
pub mod errors;
#[doc(hidden)]
pub mod fuzz;
mod kv;
mod lease;
mod maintenance;
pub mod methods;
mod watch;

pub use auth::*;
pub use cluster::*;
pub use kv::*;
pub use lease::*;
pub use maintenance::*;
pub use watch::*;

#[cfg(test)]
mod tests;
