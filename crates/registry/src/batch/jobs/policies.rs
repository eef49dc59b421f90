//! Policies of jobs: pod failure policy and success policy.

use corten_api::status::{ErrorList, quoted};
use corten_api::{ByContent, Field, Value, names};

use super::indexes;
use crate::validation::fields::{invalid_omitted, non_negative, number, part};
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, member, text};

const MOST_RULES: usize = 20;
const MOST_EXIT_CODES: usize = 255;
const MOST_CONDITIONS: usize = 20;
const INDEXES_MAX_LENGTH: usize = 64 * 1024;
const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];

pub(super) fn validate_pod_failure_policy(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let rules = list(part(spec, "podFailurePolicy"), "rules");
    let at = at.child("rules");
    if rules.len() > MOST_RULES {
        errors.too_many(at, rules.len(), MOST_RULES);
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_failure_rule(spec, rule, &at.index(i), errors);
    }
}

fn validate_failure_rule(spec: &Value, rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let action = text(rule, "action");
    if action == "FailIndex" && member(spec, "backoffLimitPerIndex").is_none() {
        let why = "requires the backoffLimitPerIndex to be set";
        errors.invalid(at.child("action"), &Value::from(action), why);
    }
    validate_word(rule, "action", &ACTIONS, at, errors);
    let codes = member(rule, "onExitCodes");
    if let Some(codes) = codes {
        validate_exit_codes(spec, codes, &at.child("onExitCodes"), errors);
    }
    let conditions = list(rule, "onPodConditions");
    validate_pod_conditions(conditions, &at.child("onPodConditions"), errors);
    match (codes.is_some(), !conditions.is_empty()) {
        (true, true) => {
            let why = "specifying both OnExitCodes and OnPodConditions is not supported";
            invalid_omitted(*at, why, errors);
        }
        (false, false) => {
            let why = "specifying one of OnExitCodes and OnPodConditions is required";
            invalid_omitted(*at, why, errors);
        }
        _ => {}
    }
}

/// A required text that must be one of these.
fn validate_word(owner: &Value, key: &str, known: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    match text(owner, key) {
        "" => {
            let known: Vec<String> = known.iter().copied().map(quoted).collect();
            errors.required(at.child(key), format!("valid values: [{}]", known.join(" ")));
        }
        word if known.contains(&word) => {}
        other => errors.not_supported(at.child(key), &Value::from(other), known),
    }
}

fn validate_pod_conditions(conditions: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    if conditions.len() > MOST_CONDITIONS {
        errors.too_many(*at, conditions.len(), MOST_CONDITIONS);
    }
    for (i, condition) in conditions.iter().enumerate() {
        let at = at.index(i);
        let kind = text(condition, "type");
        complain(&at.child("type"), kind, names::qualified_name(kind), errors);
        validate_word(condition, "status", &["False", "True", "Unknown"], &at, errors);
    }
}

fn validate_exit_codes(spec: &Value, codes: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_word(codes, "operator", &["In", "NotIn"], at, errors);
    if let Some(name) = member(codes, "containerName").and_then(Value::as_str) {
        let pod = part(part(spec, "template"), "spec");
        let mut containers = list(pod, "containers").iter().chain(list(pod, "initContainers"));
        if !containers.any(|container| text(container, "name") == name) {
            let why = "must be one of the container or initContainer names in the pod template";
            errors.invalid(at.child("containerName"), &Value::from(name), why);
        }
    }
    let values = list(codes, "values");
    let at = at.child("values");
    if values.is_empty() {
        errors.invalid(at, part(codes, "values"), "at least one value is required");
    } else if values.len() > MOST_EXIT_CODES {
        errors.too_many(at, values.len(), MOST_EXIT_CODES);
    }
    let repeats = Repeats::of(values, ByContent);
    for (i, value) in values.iter().enumerate() {
        if text(codes, "operator") == "In" && value.as_int() == Some(0) {
            errors.invalid(at.index(i), value, "must not be 0 for the In operator");
        }
        if repeats.at(i) {
            errors.duplicate(at.index(i), value);
        }
    }
    if !values.is_sorted_by_key(|value| value.as_int().unwrap_or(0)) {
        errors.invalid(at, part(codes, "values"), "must be ordered");
    }
}

pub(super) fn validate_success_policy(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let rules = list(part(spec, "successPolicy"), "rules");
    let at = at.child("rules");
    if rules.is_empty() {
        let why = "at least one rules must be specified when the successPolicy is specified";
        errors.required(at, why);
    }
    if rules.len() > MOST_RULES {
        errors.too_many(at, rules.len(), MOST_RULES);
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_success_rule(number(spec, "completions"), rule, &at.index(i), errors);
    }
}

fn validate_success_rule(completions: i64, rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let indexes = member(rule, "succeededIndexes").and_then(Value::as_str);
    let count = member(rule, "succeededCount").and_then(Value::as_int);
    if indexes.is_none() && count.is_none() {
        errors.required(*at, "at least one of succeededCount or succeededIndexes must be specified");
    }
    let mut total = 0;
    if let Some(indexes) = indexes {
        let at = at.child("succeededIndexes");
        if indexes.len() > INDEXES_MAX_LENGTH {
            errors.too_long(at, INDEXES_MAX_LENGTH);
        }
        match indexes::count(indexes, completions) {
            Ok(count) => total = count,
            Err(why) => {
                let why = format!("error parsing succeededIndexes: {why}");
                errors.invalid(at, &Value::from(indexes), why);
            }
        }
    }
    let Some(count) = count else { return };
    non_negative(rule, "succeededCount", at, errors);
    let mut at_most = |most: i64, what: &str| {
        if count > most {
            let why = format!("must be less than or equal to {most} (the number of {what})");
            errors.invalid(at.child("succeededCount"), &Value::Int(count), why);
        }
    };
    at_most(completions, "specified completions");
    if indexes.is_some() {
        at_most(total, "indexes in the specified succeededIndexes field");
    }
}
