//! Rows of the notable kinds, each as an object and the cells it makes.

mod cluster;
mod workloads;

use corten_api::{Value, json, time};

use crate::{RowContext, rules};

/// The time all rows are printed at: objects created at 10:00 are two hours old.
const NOW: &str = "2024-01-01T12:00:00Z";
const CREATED: &str = "2024-01-01T10:00:00Z";

/// The cells of an object, joined by ` | `. The object gets a name and an age.
fn shown(group: &str, resource: &str, object: &Value) -> String {
    let rules = rules(group, resource).unwrap();
    let context = RowContext { now: time::parse(NOW).unwrap(), marked: None };
    let mut object = object.clone();
    if object.str_at(&["metadata", "name"]).is_none() {
        object.set(&["metadata", "name"], "x");
    }
    object.set(&["metadata", "creationTimestamp"], CREATED);
    let cell = |value: Value| match value {
        Value::String(text) => text.to_string(),
        other => json::write_to_string(&other),
    };
    (rules.row)(&object, &context).into_iter().map(cell).collect::<Vec<_>>().join(" | ")
}

fn check(group: &str, resource: &str, table: &[(Value, &str)]) {
    for (object, expected) in table {
        assert_eq!(shown(group, resource, object), *expected, "{resource} {object:?}");
    }
}
