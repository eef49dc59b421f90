//! Workloads: templates of pod groups.

use corten_api::Value;

use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name};

pub(crate) const RULES: Rules = Rules {
    group: "scheduling.k8s.io",
    resource: "workloads",
    storage_version: "v1beta1",
    storage_prefix: "workloads",
    unconditional_update: false,
    columns: &[NAME, AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), age(object, context)]
}
