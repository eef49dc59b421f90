//! What can be done to a resource: one file per family of verbs.

pub mod delete;
pub mod list;
mod prepare;
pub mod subresource;
pub mod watch;
pub mod write;
