//! Priority classes. The generation is always one.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::defaults::fill_absent;
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, boolean, cells, int_at, integer, name, str_at, text};
use crate::validation::fields::{immutable, number};
use crate::validation::text::member;

pub(crate) const RULES: Rules = Rules {
    group: "scheduling.k8s.io",
    resource: "priorityclasses",
    storage_prefix: "priorityclasses",
    generation: Generation { initial: 1, counts: &[] },
    default,
    validate_create,
    validate_update,
    columns: &[
        NAME,
        integer("Value", "The priority pods of this class get.").of("scheduling/v1.PriorityClass", "value"),
        boolean("Global-Default", "Whether pods without a class get this one.")
            .of("scheduling/v1.PriorityClass", "globalDefault"),
        AGE,
        text("PreemptionPolicy", "Whether such pods may push others out.")
            .of("scheduling/v1.PriorityClass", "preemptionPolicy"),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![
        name(object),
        int_at(object, &["value"]),
        object.bool_at(&["globalDefault"]).unwrap_or(false),
        age(object, context),
        str_at(object, &["preemptionPolicy"]),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    fill_absent(object, "preemptionPolicy", "PreemptLowerPriority");
}

/// Priorities above this are reserved for the system.
const HIGHEST_OF_USERS: i64 = 1_000_000_000;
/// The system's classes, which are never the global default.
const SYSTEM: [(&str, i64); 2] =
    [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)];

fn validate_create(class: &Value, errors: &mut ErrorList) {
    let (name, priority) = (str_at(class, &["metadata", "name"]), number(class, "value"));
    if name.starts_with("system-") {
        if let Some(why) = system_name_complaint(class, name, priority) {
            let why = format!(
                "priority class names with 'system-' prefix are reserved for system use only. error: {why}"
            );
            errors.forbidden("metadata.name", why);
        }
    } else if priority > HIGHEST_OF_USERS {
        let why = format!("maximum allowed value of a user defined priority is {HIGHEST_OF_USERS}");
        errors.forbidden("value", why);
    }
    match member(class, "preemptionPolicy").and_then(Value::as_str) {
        None | Some("PreemptLowerPriority" | "Never") => {}
        Some("") => errors.required("preemptionPolicy", ""),
        Some(other) => {
            let known = ["PreemptLowerPriority", "Never"];
            errors.not_supported("preemptionPolicy", &Value::from(other), &known);
        }
    }
}

/// The reason for which a class may not have a system name.
fn system_name_complaint(class: &Value, name: &str, priority: i64) -> Option<String> {
    let Some((_, fixed)) = SYSTEM.iter().find(|(known, _)| *known == name) else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if priority != *fixed {
        return Some(format!("value of {name} PriorityClass must be {fixed}"));
    }
    (class.bool_at(&["globalDefault"]) == Some(true))
        .then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

fn validate_update(class: &Value, old: &Value, errors: &mut ErrorList) {
    if number(class, "value") != number(old, "value") {
        errors.forbidden("value", "may not be changed in an update.");
    }
    immutable(class, old, "preemptionPolicy", &Field::ROOT, errors);
}
