//! Validation of pool status requests and of their answers, which are given once.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::same;
use crate::resource::validate::{validate_items, validate_pool_name};
use crate::validation::conditions::validate_conditions;
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, optional, required, text};

const SPEC: Field<'static> = Field::new("spec");
const STATUS: Field<'static> = Field::new("status");
const LIMIT_MAX: i64 = 1000;
const POOLS_MAX: usize = 1000;
const CONDITIONS_MAX: usize = 10;
const ERROR_MAX_LENGTH: usize = 256;

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    required(text(spec, "driver"), names::long_name_caseless, &SPEC.child("driver"), errors);
    if let Some(pool) = member(spec, "poolName") {
        validate_pool_name(pool.as_str().unwrap_or_default(), &SPEC.child("poolName"), errors);
    }
    if let Some(limit) = spec.int_at(&["limit"]).filter(|limit| *limit > LIMIT_MAX) {
        let why = format!("must be less than or equal to {LIMIT_MAX}");
        errors.invalid(SPEC.child("limit"), &Value::Int(limit), why);
    }
    at_least(1, spec, "limit", &SPEC, errors);
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    if !same(object, old, &["spec"]) {
        errors.invalid(SPEC, &Value::Null, "field is immutable");
    }
}

pub(super) fn subresource(name: &str, object: &Value, old: &Value, errors: &mut ErrorList) {
    if name != "status" {
        return;
    }
    if member(old, "status").is_some() {
        if !same(object, old, &["status"]) {
            errors.invalid(STATUS, object.get("status").unwrap_or(&Value::Null), "field is immutable");
        }
        return;
    }
    let Some(status) = member(object, "status") else { return };
    let conditions = list(status, "conditions");
    let conditions_at = STATUS.child("conditions");
    validate_conditions(conditions, &conditions_at, errors);
    match member(status, "poolCount") {
        None => errors.required(STATUS.child("poolCount"), ""),
        Some(_) => at_least(0, status, "poolCount", &STATUS, errors),
    }
    validate_items(list(status, "pools"), POOLS_MAX, &STATUS.child("pools"), errors, &mut validate_pool);
    if conditions.len() > CONDITIONS_MAX {
        errors.too_many(conditions_at, conditions.len(), CONDITIONS_MAX);
    }
    let repeats = Repeats::of(conditions, |condition| text(condition, "type"));
    for (i, condition) in conditions.iter().enumerate().filter(|(i, _)| repeats.at(*i)) {
        errors.duplicate(conditions_at.index(i), &Value::from(text(condition, "type")));
    }
}

fn validate_pool(pool: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    required(text(pool, "driver"), names::long_name_caseless, &at.child("driver"), errors);
    validate_pool_name(text(pool, "poolName"), &at.child("poolName"), errors);
    match pool.int_at(&["generation"]).unwrap_or(0) {
        0 => errors.required(at.child("generation"), ""),
        _ => at_least(0, pool, "generation", at, errors),
    }
    at_least(1, pool, "resourceSliceCount", at, errors);
    for key in ["totalDevices", "allocatedDevices", "availableDevices", "unavailableDevices"] {
        at_least(0, pool, key, at, errors);
    }
    optional(text(pool, "nodeName"), names::long_name, &at.child("nodeName"), errors);
    if text(pool, "validationError").len() > ERROR_MAX_LENGTH {
        errors.too_long(at.child("validationError"), ERROR_MAX_LENGTH);
    }
}

/// Requires a number, if there is one, not to be below a minimum.
fn at_least(least: i64, owner: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(number) = owner.int_at(&[key]).filter(|number| *number < least) {
        let why = format!("must be greater than or equal to {least}");
        errors.invalid(at.child(key), &Value::Int(number), why);
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn requests_are_validated_and_answered_once() {
        let found = |check: &dyn Fn(&mut ErrorList)| {
            let mut errors = ErrorList::new();
            check(&mut errors);
            errors.summary()
        };
        let request = value!({"spec": {"limit": 1001}});
        assert_eq!(
            found(&|errors| create(&request, errors)),
            "[spec.driver: Required value, spec.limit: Invalid value: 1001: must be less than or equal to 1000]"
        );
        let asked = value!({"spec": {"driver": "d.example", "limit": 1}});
        assert_eq!(
            found(&|errors| update(&request, &asked, errors)),
            "spec: Invalid value: null: field is immutable"
        );
        let answered = value!({"status": {"poolCount": 0}});
        assert_eq!(found(&|errors| subresource("status", &answered, &asked, errors)), "");
        let again = value!({"status": {"poolCount": 1}});
        assert_eq!(
            found(&|errors| subresource("status", &again, &answered, errors)),
            "status: Invalid value: {\"poolCount\":1}: field is immutable"
        );
        let unfit =
            value!({"status": {"pools": [{"driver": "d.example", "poolName": "p", "totalDevices": (-1)}]}});
        assert_eq!(
            found(&|errors| subresource("status", &unfit, &asked, errors)),
            "[status.poolCount: Required value, status.pools[0].generation: Required value, \
             status.pools[0].totalDevices: Invalid value: -1: must be greater than or equal to 0]"
        );
    }
}
