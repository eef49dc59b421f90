//! Eviction requests: requests to evict a target.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, UNSET, age, cells, condition, int_at, name, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "lifecycle.k8s.io",
    resource: "evictionrequests",
    storage_version: "v1alpha1",
    storage_prefix: "evictionrequests",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Target", "What should go.").of("lifecycle/v1alpha1.EvictionRequestSpec", "target"),
        text("Target Type", "What kind of thing that is.")
            .of("lifecycle/v1alpha1.EvictionRequestSpec", "target"),
        text("Status", "How it is going.").of("lifecycle/v1alpha1.EvictionRequestStatus", "conditions"),
        text("Requester", "Who asked.").of("lifecycle/v1alpha1.EvictionRequestSpec", "requester"),
        text("Intent", "What the requester wants.").of("lifecycle/v1alpha1.EvictionRequestSpec", "intent"),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let (target, target_type) = target(object);
    cells![
        name(object),
        target,
        target_type,
        status(object),
        str_at(object, &["spec", "requester"]),
        str_at(object, &["spec", "intent"]),
        age(object, context),
    ]
}

/// The name and the type of the target.
pub(crate) fn target(object: &Value) -> (&str, &'static str) {
    match object.at(&["spec", "target", "pod"]).filter(|pod| !pod.is_null()) {
        Some(pod) => (str_at(pod, &["name"]), "Pod"),
        None => (UNSET, UNSET),
    }
}

/// The state of an eviction, or of a request for one.
pub(crate) fn status(object: &Value) -> String {
    for outcome in ["TargetEvicted", "Failed"] {
        if let Some(condition) = condition(object, outcome).filter(|c| c.str_at(&["status"]) == Some("True"))
        {
            return format!("{outcome} ({})", str_at(condition, &["reason"]));
        }
    }
    let seen = int_at(object, &["status", "observedGeneration"]) > 0;
    if seen { "Progressing".to_owned() } else { "Pending".to_owned() }
}
