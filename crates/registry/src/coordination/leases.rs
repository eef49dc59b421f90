//! Leases: their holders and durations.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::coordination::strategy::validate_strategy;
use crate::rules::{RowContext, Rules};
use crate::table::{AGE, NAME, age, cells, name, str_at, text};
use crate::validation::fields::part;
use crate::validation::number::{given, int, non_negative};

pub(crate) const RULES: Rules = Rules {
    group: "coordination.k8s.io",
    resource: "leases",
    storage_prefix: "leases",
    qualified_finalizers: false,
    prepare_create: |lease, _| drop_coordination(lease, &Value::Null),
    prepare_update: |lease, old, _| drop_coordination(lease, old),
    validate_create: validate,
    validate_update: |lease, _, errors| validate(lease, errors),
    unconditional_update: false,
    create_on_update: true,
    columns: &[NAME, text("Holder", "Who holds it.").of("coordination/v1.LeaseSpec", "holderIdentity"), AGE],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    cells![name(object), str_at(object, &["spec", "holderIdentity"]), age(object, context)]
}

/// Coordinated leader election is disabled: only a lease that already uses it keeps it.
fn drop_coordination(lease: &mut Value, old: &Value) {
    for key in ["strategy", "preferredHolder"] {
        if old.at(&["spec", key]).is_none() {
            lease.remove(&["spec", key]);
        }
    }
}

fn validate(lease: &Value, errors: &mut ErrorList) {
    let (spec, at) = (part(lease, "spec"), Field::new("spec"));
    if let Some(seconds) = given(spec, "leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
        errors.invalid(at.child("leaseDurationSeconds"), &Value::from(seconds), "must be greater than 0");
    }
    non_negative(int(spec, "leaseTransitions"), &at.child("leaseTransitions"), errors);
    let strategy = spec.get("strategy").and_then(Value::as_str);
    if let Some(strategy) = strategy {
        validate_strategy(strategy, &at.child("strategy"), errors);
    }
    if !str_at(spec, &["preferredHolder"]).is_empty() && strategy.unwrap_or_default().is_empty() {
        let why = "may only be specified if `strategy` is defined";
        errors.forbidden(at.child("preferredHolder"), why);
    }
}
