//! Resource quotas: how much a namespace may use; how much it does is the status.

use corten_api::{Map, Value};

use crate::defaults::{made, resource_list};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, quantity, text};

pub(crate) const RULES: Rules = Rules {
    group: "",
    resource: "resourcequotas",
    storage_prefix: "resourcequotas",
    default,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    delete_returns_object: true,
    columns: &[
        NAME,
        text("Request", "What is used of what may be requested."),
        text("Limit", "What is used of what limits may add up to."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    let hard = object.at(&["status", "hard"]).and_then(Value::as_object).map(Map::keys);
    for resource in hard.into_iter().flatten() {
        let used = quantity(object, &["status", "used", resource]);
        let hard = quantity(object, &["status", "hard", resource]);
        let column = if resource.starts_with("limits.") { &mut limits } else { &mut requests };
        column.push(format!("{resource}: {used}/{hard}"));
    }
    cells![name(object), requests.join(", "), limits.join(", "), age(object, context)]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    resource_list(made(object, "spec"), "hard");
    let status = made(object, "status");
    resource_list(status, "hard");
    resource_list(status, "used");
}
