//! Validation of pool status requests and of their answers, which are given once.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, go, names, schema};

use crate::prepare::same;
use crate::resource::validate::{POOL_NAME_MAX_LENGTH, validate_items};
use crate::validation::conditions::validate_conditions;
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, optional, required, text};

const SPEC: Field<'static> = Field::new("spec");
const STATUS: Field<'static> = Field::new("status");
const LIMIT_MAX: i64 = 1000;
const POOLS_MAX: usize = 1000;
const CONDITIONS_MAX: usize = 10;
const ERROR_MAX_LENGTH: usize = 256;
const PARTITION_TYPES_MAX: usize = 32;
const CAPACITIES_MAX: usize = 32;

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    let spec = object.get("spec").unwrap_or(&Value::Null);
    required(text(spec, "driver"), names::long_name_caseless, &SPEC.child("driver"), errors);
    if let Some(pool) = member(spec, "poolName") {
        validate_segments(pool.as_str().unwrap_or_default(), &SPEC.child("poolName"), errors);
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
    required_at_least(0, status, "poolCount", &STATUS, errors);
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
    match text(pool, "poolName") {
        "" => errors.required(at.child("poolName"), ""),
        name => validate_segments(name, &at.child("poolName"), errors),
    }
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
    validate_partitions(list(pool, "partitionSummary"), &at.child("partitionSummary"), errors);
    if let Some(summary) = member(pool, "shareableSummary") {
        validate_shareable(summary, &at.child("shareableSummary"), errors);
    }
}

/// The name of a pool, whose errors name the segment here.
fn validate_segments(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if name.len() > POOL_NAME_MAX_LENGTH {
        errors.too_long(at, POOL_NAME_MAX_LENGTH);
    }
    for (i, segment) in name.split('/').enumerate() {
        if segment.is_empty() {
            errors.invalid(at, &Value::from(name), format!("segment {i}: must not be empty"));
            continue;
        }
        for why in names::long_name(segment) {
            errors.invalid(at, &Value::from(segment), format!("segment {i}: {why}"));
        }
    }
}

/// The devices of a pool by the type of their partitions, each type once.
fn validate_partitions(partitions: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let repeats = Repeats::of(partitions, |one| (text(one, "attribute"), text(one, "type")));
    let schema = schema::lookup("resource/v1alpha3", "PartitionTypeStatus");
    if let Some(schema) = schema.filter(|_| partitions.len() <= PARTITION_TYPES_MAX) {
        for (i, one) in partitions.iter().enumerate().filter(|(i, _)| repeats.at(*i)) {
            errors.duplicate_shown(at.index(i), go::json_of(one, &schema));
        }
    }
    validate_items(partitions, PARTITION_TYPES_MAX, at, errors, &mut |one, at, errors| {
        for key in ["attribute", "type"].into_iter().filter(|key| text(one, key).is_empty()) {
            errors.required(at.child(key), "");
        }
        required_at_least(0, one, "total", at, errors);
        required_at_least(0, one, "allocatable", at, errors);
    });
}

/// The devices of a pool that requests share, and their capacity.
fn validate_shareable(summary: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    required_at_least(0, summary, "fullyAvailableDevices", at, errors);
    required_at_least(0, summary, "partiallyAvailableDevices", at, errors);
    let capacities = list(summary, "capacity");
    validate_items(capacities, CAPACITIES_MAX, &at.child("capacity"), errors, &mut |one, at, errors| {
        if text(one, "name").is_empty() {
            errors.required(at.child("name"), "");
        }
        for key in ["total", "consumed", "available"].into_iter().filter(|key| member(one, key).is_none()) {
            errors.required(at.child(key), "");
        }
    });
}

/// Requires a number, and that it is not below a minimum.
fn required_at_least(least: i64, owner: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    match member(owner, key) {
        None => errors.required(at.child(key), ""),
        Some(_) => at_least(least, owner, key, at, errors),
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

    #[track_caller]
    fn check_pool(summaries: &Value, expected: &str) {
        let mut pool = value!({"driver": "d.example", "poolName": "p", "generation": 1});
        for (key, summary) in summaries.as_object().unwrap().iter() {
            pool.set(&[key.as_str()], summary.clone());
        }
        let mut errors = ErrorList::new();
        validate_pool(&pool, &Field::new("pool"), &mut errors);
        assert_eq!(errors.summary(), expected);
    }

    #[test]
    fn errors_of_pool_names_name_the_segment() {
        let mut errors = ErrorList::new();
        create(&value!({"spec": {"driver": "d.example", "poolName": "a//b c"}}), &mut errors);
        let shown = errors.summary();
        let first = "[spec.poolName: Invalid value: \"a//b c\": segment 1: must not be empty, \
                     spec.poolName: Invalid value: \"b c\": segment 2: a lowercase RFC 1123 subdomain must";
        assert!(shown.starts_with(first), "{shown}");
        let mut errors = ErrorList::new();
        create(&value!({"spec": {"driver": "d.example", "poolName": ""}}), &mut errors);
        assert_eq!(errors.summary(), "spec.poolName: Invalid value: \"\": segment 0: must not be empty");
    }

    #[test]
    fn summaries_of_a_pool_are_complete() {
        check_pool(
            &value!({"partitionSummary": [{}, {"attribute": "a", "type": "t", "total": (-1), "allocatable": 0}]}),
            "[pool.partitionSummary[0].attribute: Required value, pool.partitionSummary[0].type: Required value, \
             pool.partitionSummary[0].total: Required value, pool.partitionSummary[0].allocatable: Required value, \
             pool.partitionSummary[1].total: Invalid value: -1: must be greater than or equal to 0]",
        );
        let one = value!({"attribute": "a", "type": "t", "total": 1, "allocatable": 2});
        let other = value!({"attribute": "a", "type": "u", "total": 1, "allocatable": 2});
        let mut summaries = Value::object();
        summaries.set(&["partitionSummary"], vec![one.clone(), other, one]);
        check_pool(
            &summaries,
            "pool.partitionSummary[2]: Duplicate value: \
             {\"attribute\":\"a\",\"type\":\"t\",\"total\":1,\"allocatable\":2}",
        );
        check_pool(
            &value!({"shareableSummary": {"fullyAvailableDevices": (-1), "capacity": [{"consumed": "0"}]}}),
            "[pool.shareableSummary.fullyAvailableDevices: Invalid value: -1: must be greater than or equal to 0, \
             pool.shareableSummary.partiallyAvailableDevices: Required value, \
             pool.shareableSummary.capacity[0].name: Required value, \
             pool.shareableSummary.capacity[0].total: Required value, \
             pool.shareableSummary.capacity[0].available: Required value]",
        );
        for (owner, key) in [
            (&["partitionSummary"][..], "partitionSummary"),
            (&["shareableSummary", "capacity"], "shareableSummary.capacity"),
        ] {
            let mut pool = value!({"driver": "d.example", "poolName": "p", "generation": 1});
            if owner.len() > 1 {
                pool.set(
                    &["shareableSummary"],
                    value!({"fullyAvailableDevices": 0, "partiallyAvailableDevices": 0}),
                );
            }
            pool.set(owner, vec![Value::object(); 33]);
            let mut errors = ErrorList::new();
            validate_pool(&pool, &Field::new("pool"), &mut errors);
            assert_eq!(errors.summary(), format!("pool.{key}: Too many: 33: must have at most 32 items"));
        }
    }
}
