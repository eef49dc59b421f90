//! Metrics of pods: never stored.

use corten_api::Value;
use corten_api::quantity::Quantity;

use super::COLUMNS;
use crate::rules::{RowContext, Rules};
use crate::table::{cells, name, str_at};

pub(crate) const RULES: Rules = Rules {
    group: "metrics.k8s.io",
    resource: "pods",
    stored: false,
    columns: COLUMNS,
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, _: &RowContext<'_>) -> Vec<Value> {
    let together = |resource: &str| {
        let mut sum = Quantity::ZERO;
        let used = object.items_at(&["containers"]).iter().filter_map(|c| c.str_at(&["usage", resource]));
        used.filter_map(|text| Quantity::parse(text).ok()).for_each(|quantity| sum.add(quantity));
        sum.to_str()
    };
    cells![name(object), together("cpu"), together("memory"), str_at(object, &["window"])]
}
