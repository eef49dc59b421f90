//! Composite pod groups: pod groups scheduled together.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules};
use crate::scheduling::podgroups::{policy, workload};
use crate::table::{AGE, NAME, age, cells, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "scheduling.k8s.io",
    resource: "compositepodgroups",
    storage_version: "v1alpha3",
    storage_prefix: "compositepodgroups",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Policy", "Basic, or Gang: all or none.")
            .of("scheduling/v1alpha3.CompositePodGroupSpec", "schedulingPolicy"),
        text("Workload", "The workload it belongs to."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), policy(object), workload(object), age(object, context)]
}
