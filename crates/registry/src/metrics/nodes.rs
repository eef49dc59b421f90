//! Metrics of nodes: never stored.

use corten_api::Value;

use super::COLUMNS;
use crate::rules::{RowContext, Rules};
use crate::table::{cells, name, str_at};

pub(crate) const RULES: Rules = Rules {
    group: "metrics.k8s.io",
    resource: "nodes",
    stored: false,
    columns: COLUMNS,
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let usage = |resource: &str| str_at(object, &["usage", resource]);
    cells![name(object), usage("cpu"), usage("memory"), str_at(object, &["window"])]
}
