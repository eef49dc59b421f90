//! The label selectors of workloads.

use corten_api::Value;
use corten_api::selector::LabelSelector;

/// What a workload selects; `None` if it selects nothing, as one does whose selector cannot be read.
pub(crate) fn of(object: &Value) -> Option<LabelSelector> {
    let selector = object.at(&["spec", "selector"])?;
    // Replication controllers spell theirs as plain labels.
    let plain = selector.get("matchLabels").is_none() && selector.get("matchExpressions").is_none();
    let selector = match selector {
        Value::Object(labels) if plain => LabelSelector::from_labels(labels),
        selector => LabelSelector::from_object(Some(selector)).ok()?,
    };
    (!selector.is_everything()).then_some(selector)
}
