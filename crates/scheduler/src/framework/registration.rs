//! The registration of a plugin: its name, default weight, extension points and constructor. `crate::plugins` lists
//! them.

use std::sync::Arc;

use corten_api::Value;

use super::Plugin;

/// An extension point. PreFilter and PreScore of upstream are part of Filter and Score here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Point {
    PreEnqueue,
    QueueSort,
    Filter,
    PostFilter,
    Score,
    Reserve,
    PreBind,
    Bind,
}

/// Creates a plugin from its arguments in a profile, or returns what is wrong with them.
pub(crate) type Create = fn(&Value) -> Result<Arc<dyn Plugin>, String>;

pub(crate) struct Registration {
    pub(crate) name: &'static str,
    /// The default weight of its scores.
    pub(crate) weight: i64,
    pub(crate) points: &'static [Point],
    /// `None` for a plugin that the queue or the binding cycle calls directly.
    pub(crate) create: Option<Create>,
}
