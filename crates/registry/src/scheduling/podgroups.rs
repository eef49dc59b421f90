//! Pod groups: pods scheduled together.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, NONE, age, cells, condition, name, present, str_at, text};

pub(crate) const RULES: Rules = Rules {
    group: "scheduling.k8s.io",
    resource: "podgroups",
    storage_version: "v1beta1",
    storage_prefix: "podgroups",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Policy", "Basic, or Gang: all or none.")
            .of("scheduling/v1beta1.PodGroupSpec", "schedulingPolicy"),
        text("Workload", "The workload it belongs to."),
        text("Status", "Whether it is scheduled."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let scheduled = condition(object, "PodGroupInitiallyScheduled").map(|c| str_at(c, &["status"]));
    let status = match condition(object, "DisruptionTarget") {
        Some(disrupted) => str_at(disrupted, &["reason"]),
        None => match scheduled {
            None => "Pending",
            Some("True") => "Scheduled",
            Some(_) => "Unschedulable",
        },
    };
    cells![name(object), policy(object), workload(object), status, age(object, context)]
}

pub(crate) fn policy(object: &Value) -> &'static str {
    if present(object, &["spec", "schedulingPolicy", "gang"]) { "Gang" } else { "Basic" }
}

pub(crate) fn workload(object: &Value) -> &str {
    match object.at(&["spec", "workloadRef"]).filter(|r| !r.is_null()) {
        Some(reference) => str_at(reference, &["workloadName"]),
        None => NONE,
    }
}
