//! Pod disruption budgets: the number of pods of a set that may be disrupted at once.

use corten_api::names::NameRule;
use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{Generation, RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, int_at, integer, name, text};
use crate::validation::conditions::validate_conditions;
use crate::validation::fields::{non_negative, part};
use crate::validation::int_or_percent::{validate_at_most_100_percent, validate_int_or_percent};
use crate::validation::internal_form;
use crate::validation::label_selector::{LabelSelectorOptions, has_invalid_values, validate_label_selector};
use crate::validation::text::{list, member};

pub(crate) const RULES: Rules = Rules {
    group: "policy",
    resource: "poddisruptionbudgets",
    storage_prefix: "poddisruptionbudgets",
    name: NameRule::PathSegment,
    qualified_finalizers: false,
    generation: Generation::SPEC,
    prepare_create: drop_status,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: |budget, errors| validate(budget, LabelSelectorOptions::default(), errors),
    validate_update,
    validate_subresource,
    unconditional_update: false,
    columns: &[
        NAME,
        text("Min Available", "The minimum number of pods that must be available."),
        text("Max Unavailable", "The maximum number of pods that may be unavailable."),
        integer("Allowed Disruptions", "Calculated number of pods that may be disrupted at this time."),
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

fn validate_update(budget: &Value, old: &Value, errors: &mut ErrorList) {
    let allow_invalid_values = has_invalid_values(old.at(&["spec", "selector"]));
    validate(budget, LabelSelectorOptions { allow_invalid_values }, errors);
}

fn validate(budget: &Value, options: LabelSelectorOptions, errors: &mut ErrorList) {
    let (spec, at) = (part(budget, "spec"), Field::new("spec"));
    let (least, most) = (member(spec, "minAvailable"), member(spec, "maxUnavailable"));
    if least.is_some() && most.is_some() {
        let shown = internal_form::compact("PodDisruptionBudgetSpec", spec);
        errors.invalid_shown(at, shown, "minAvailable and maxUnavailable cannot be both set");
    }
    for (key, amount) in [("minAvailable", least), ("maxUnavailable", most)] {
        let Some(amount) = amount else { continue };
        validate_int_or_percent(amount, &at.child(key), errors);
        validate_at_most_100_percent(amount, &at.child(key), errors);
    }
    validate_label_selector(spec.get("selector"), options, &at.child("selector"), errors);
    if let Some(policy) = member(spec, "unhealthyPodEvictionPolicy") {
        let known = ["AlwaysAllow", "IfHealthyBudget"];
        if !policy.as_str().is_some_and(|policy| known.contains(&policy)) {
            errors.not_supported(at.child("unhealthyPodEvictionPolicy"), policy, &known);
        }
    }
}

fn validate_subresource(sub: &str, budget: &Value, _: &Value, errors: &mut ErrorList) {
    if sub != "status" {
        return;
    }
    let (status, at) = (part(budget, "status"), Field::new("status"));
    validate_conditions(list(status, "conditions"), &at.child("conditions"), errors);
    for key in ["disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods"] {
        non_negative(status, key, &at, errors);
    }
}
