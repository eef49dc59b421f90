//! CSI nodes: which drivers a node has.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, count, integer, name};

pub(crate) const RULES: Rules = Rules {
    group: "storage.k8s.io",
    resource: "csinodes",
    storage_prefix: "csinodes",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    unconditional_update: false,
    delete_returns_object: true,
    columns: &[NAME, integer("Drivers", "How many drivers the node has."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), count(object, &["spec", "drivers"]), age(object, context)]
}
