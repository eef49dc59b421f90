//! The verbs on resources: one file per family of verbs.

pub(crate) mod binding;
mod commit;
pub(crate) mod delete;
mod delete_unreadable;
mod empty_values;
mod eviction;
mod history;
pub(crate) mod list;
pub(crate) mod node_view;
pub(crate) mod patch;
pub(crate) mod prepare;
mod scale;
pub(crate) mod subresource;
mod token;
pub(crate) mod watch;
pub(crate) mod write;

pub(crate) use commit::{Companions, new_value, put_op};
pub(crate) use write::Ownership;
