//! What can be done to a resource: one file per family of verbs.

pub(crate) mod delete;
pub(crate) mod list;
pub(crate) mod patch;
pub(crate) mod prepare;
mod scale;
pub(crate) mod subresource;
mod token;
pub(crate) mod watch;
pub(crate) mod write;
