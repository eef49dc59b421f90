//! Fields of pods that several plugins read.

use corten_api::Value;

pub(super) use corten_api::pods::{MIRROR_ANNOTATION, containers, is_mirror};

pub(super) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    object.str_at(&["metadata", "annotations", key])
}

pub(super) fn name(item: &Value) -> &str {
    item.str_at(&["name"]).unwrap_or_default()
}

pub(super) fn node_name(pod: &Value) -> &str {
    pod.str_at(&["spec", "nodeName"]).unwrap_or_default()
}

/// The sources of a projected volume.
pub(super) fn projections(volume: &Value) -> impl Iterator<Item = &Value> {
    volume.items_at(&["projected", "sources"]).iter()
}
