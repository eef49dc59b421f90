//! Tolerations of nodes' taints.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::text::{complain, member, text};

pub(crate) fn validate_tolerations(tolerations: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    for (i, toleration) in tolerations.iter().enumerate() {
        validate_toleration(toleration, &at.index(i), errors);
    }
}

fn validate_toleration(toleration: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (key, operator) = (text(toleration, "key"), text(toleration, "operator"));
    let effect = text(toleration, "effect");
    if !key.is_empty() {
        complain(&at.child("key"), key, names::qualified_name(key), errors);
    } else if operator != "Exists" {
        let why =
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.invalid(at.child("operator"), &Value::from(operator), why);
    }
    if member(toleration, "tolerationSeconds").is_some() && effect != "NoExecute" {
        let why = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.invalid(at.child("effect"), &Value::from(effect), why);
    }
    validate_operator(operator, text(toleration, "value"), &at.child("operator"), errors);
    if !effect.is_empty() {
        validate_taint_effect(effect, &at.child("effect"), errors);
    }
}

fn validate_operator(operator: &str, value: &str, at: &Field<'_>, errors: &mut ErrorList) {
    match operator {
        "Equal" | "" => {
            let complaints = names::label_value(value);
            if !complaints.is_empty() {
                errors.invalid(at, &Value::from(value), complaints.join(";"));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                let why = "value must be empty when `operator` is 'Exists'";
                errors.invalid(at, &Value::from(value), why);
            }
        }
        // Known, and not enabled yet.
        "Lt" | "Gt" => {
            errors.not_supported(at, &Value::from(operator), &["Equal", "Exists", "Lt", "Gt"]);
        }
        other => errors.not_supported(at, &Value::from(other), &["Equal", "Exists"]),
    }
}

/// The effect of a taint on pods that do not tolerate it.
pub(crate) fn validate_taint_effect(effect: &str, at: &Field<'_>, errors: &mut ErrorList) {
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !EFFECTS.contains(&effect) {
        errors.not_supported(at, &Value::from(effect), &EFFECTS);
    }
}
