//! Pod disruption budgets: how many pods of a set may be away at once.

use corten_api::Value;

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, int_at, integer, name, text};

pub(crate) const RULES: Rules = Rules {
    group: "policy",
    resource: "poddisruptionbudgets",
    storage_prefix: "poddisruptionbudgets",
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Min Available", "How many pods must stay available."),
        text("Max Unavailable", "How many pods may be unavailable."),
        integer("Allowed Disruptions", "How many pods may be disrupted now."),
        AGE,
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let bound = |key: &str| match object.at(&["spec", key]) {
        Some(Value::String(text)) => text.to_string(),
        Some(Value::Int(number)) => number.to_string(),
        _ => "N/A".to_owned(),
    };
    cells![
        name(object),
        bound("minAvailable"),
        bound("maxUnavailable"),
        int_at(object, &["status", "disruptionsAllowed"]),
        age(object, context),
    ]
}
