//! Conditions as a kubelet writes them: an unchanged condition keeps its transition time.

use corten_api::{Map, Value, time};
use jiff::Timestamp;

/// A desired condition. An empty reason means none.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Condition {
    pub(crate) kind: &'static str,
    pub(crate) holds: bool,
    pub(crate) reason: &'static str,
    pub(crate) message: String,
}

/// The condition of a type.
pub(crate) fn find<'a>(object: &'a Value, kind: &str) -> Option<&'a Value> {
    object.items_at(&["status", "conditions"]).iter().find(|c| c.str_at(&["type"]) == Some(kind))
}

pub(crate) fn is_true(object: &Value, kind: &str) -> bool {
    find(object, kind).and_then(|c| c.str_at(&["status"])) == Some("True")
}

impl Condition {
    /// The condition as part of a patch of an object; fields to remove are null.
    pub(crate) fn patch(&self, object: &Value, now: Timestamp) -> Map {
        let status = if self.holds { "True" } else { "False" };
        let known = find(object, self.kind).filter(|c| c.str_at(&["status"]) == Some(status));
        let since = known.and_then(|c| c.get("lastTransitionTime")).cloned();
        let mut patch = Map::new();
        patch.insert("type", self.kind);
        patch.insert("status", status);
        patch.insert("lastTransitionTime", since.unwrap_or_else(|| time::format(now).into()));
        for (key, text) in [("reason", self.reason), ("message", self.message.as_str())] {
            patch.insert(key, if text.is_empty() { Value::Null } else { text.into() });
        }
        patch
    }
}
