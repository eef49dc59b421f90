//! Service CIDRs: ranges that cluster IPs come from.

use corten_api::Value;

use crate::prepare::{
    drop_status, keep_status, resets_spec_and_metadata_or_status, status_keeps_spec_and_metadata,
};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, joined, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "networking.k8s.io",
    resource: "servicecidrs",
    storage_prefix: "servicecidrs",
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec_and_metadata,
    reset_fields: resets_spec_and_metadata_or_status,
    columns: &[NAME, text("CIDRs", "The ranges: one, or one of each family."), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), joined(object, &["spec", "cidrs"], ","), age(object, context)]
}
