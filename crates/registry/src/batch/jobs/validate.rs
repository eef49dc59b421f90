//! Validation of a job: completions, failures, and mutable fields.

use corten_api::selector::LabelSelector;
use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names};

use super::policies::{validate_pod_failure_policy, validate_success_policy};
use super::template::validate_template_update;
use super::{CONTROLLER_UID, JOB_NAME};
use crate::prepare::same;
use crate::validation::fields::{IMMUTABLE, immutable, non_negative, number, part};
use crate::validation::internal_form;
use crate::validation::label_selector::{LabelSelectorOptions, has_invalid_values, validate_label_selector};
use crate::validation::text::{domain_prefixed_path, member, text};
use crate::validation::workload::{
    shown_selector, validate_selected, validate_selector_is_immutable, validate_template,
};

/// Limits that keep lists of indexes in a status short.
const MOST_PARALLEL: i64 = 100_000;
const MOST_FAILED_INDEXES: i64 = 100_000;
/// Above this number of completions the two limits below apply instead.
const MANY_COMPLETIONS: i64 = 100_000;
const MOST_PARALLEL_OF_MANY: i64 = 10_000;
const MOST_FAILED_INDEXES_OF_MANY: i64 = 10_000;
const MANAGED_BY_MAX_LENGTH: usize = 63;

pub(super) fn validate_create(job: &Value, errors: &mut ErrorList) {
    validate_generated_selector(job, errors);
    validate_job(job, None, LabelSelectorOptions::default(), errors);
    validate_host_names(job, errors);
}

pub(super) fn validate_update(job: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, before, at) = (part(job, "spec"), part(old, "spec"), Field::new("spec"));
    let allow_invalid_values = has_invalid_values(before.get("selector"));
    validate_job(job, Some(before), LabelSelectorOptions { allow_invalid_values }, errors);
    validate_completions_update(spec, before, &at, errors);
    validate_selector_is_immutable(job, old, errors);
    validate_template_update(job, old, errors);
    immutable(spec, before, "completionMode", &at, errors);
    let policy_stays = |key: &str, kind: &str, errors: &mut ErrorList| {
        if !same(spec, before, &[key]) {
            errors.invalid_shown(at.child(key), internal_form::compact(kind, part(spec, key)), IMMUTABLE);
        }
    };
    policy_stays("podFailurePolicy", "PodFailurePolicy", errors);
    immutable(spec, before, "backoffLimitPerIndex", &at, errors);
    immutable(spec, before, "managedBy", &at, errors);
    policy_stays("successPolicy", "SuccessPolicy", errors);
    validate_host_names(job, errors);
}

fn is_indexed(spec: &Value) -> bool {
    text(spec, "completionMode") == "Indexed"
}

/// A number that is set, though it may be zero.
fn given(spec: &Value, key: &str) -> Option<i64> {
    member(spec, key).and_then(Value::as_int)
}

/// Without a manual selector, the selector is the generated one.
fn validate_generated_selector(job: &Value, errors: &mut ErrorList) {
    let (spec, metadata) = (part(job, "spec"), part(job, "metadata"));
    let Some(selector) = member(spec, "selector") else { return };
    if spec.bool_at(&["manualSelector"]) == Some(true) {
        return;
    }
    let (name, uid) = (text(metadata, "name"), text(metadata, "uid"));
    if uid.is_empty() {
        errors.required("metadata.uid", "");
    }
    let expected = [("controller-uid", uid), ("job-name", name), (CONTROLLER_UID, uid), (JOB_NAME, name)];
    let labels = spec.at(&["template", "metadata", "labels"]).unwrap_or(&Value::Null);
    let template = Field::new("spec");
    let template = template.child("template");
    let metadata_at = template.child("metadata");
    let at = metadata_at.child("labels");
    for (key, value) in expected {
        match labels.get(key).and_then(Value::as_str) {
            None => errors.required(at.key(key), format!("must be '{value}'")),
            Some(other) if other != value => {
                errors.invalid(at.key(key), labels, format!("must be '{value}'"))
            }
            Some(_) => {}
        }
    }
    let expected: Map = expected.into_iter().map(|(key, value)| (key.into(), Value::from(value))).collect();
    if LabelSelector::from_object(Some(selector)).is_ok_and(|selector| !selector.matches(&expected)) {
        let why = "`selector` not auto-generated";
        errors.invalid_shown("spec.selector", shown_selector(Some(selector)), why);
    }
}

/// The names of an indexed job's pods consist of the job's name and their index.
fn validate_host_names(job: &Value, errors: &mut ErrorList) {
    let spec = part(job, "spec");
    let completions = number(spec, "completions");
    if !is_indexed(spec) || completions <= 0 {
        return;
    }
    let name = text(part(job, "metadata"), "name");
    let longest = format!("{name}-{}", completions - 1);
    if !names::dns1123_label(&longest).is_empty() {
        let why = format!("will not able to create pod with invalid DNS label: {longest}");
        errors.invalid("metadata.name", &Value::from(name), why);
    }
}

fn validate_job(job: &Value, old: Option<&Value>, options: LabelSelectorOptions, errors: &mut ErrorList) {
    let (spec, at) = (part(job, "spec"), Field::new("spec"));
    validate_spec(spec, old, &at, errors);
    match member(spec, "selector") {
        None => errors.required(at.child("selector"), ""),
        selector => validate_label_selector(selector, options, &at.child("selector"), errors),
    }
    validate_selected(spec, &at.child("template"), errors);
}

/// All of a job but its selector, which a cron job's template does not have yet.
pub(crate) fn validate_spec(spec: &Value, old: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    for key in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        non_negative(spec, key, at, errors);
    }
    let per_index = member(spec, "backoffLimitPerIndex").is_some();
    if member(spec, "maxFailedIndexes").is_some() && !per_index {
        errors.required(at.child("backoffLimitPerIndex"), "when maxFailedIndexes is specified");
    }
    if let Some(manager) = member(spec, "managedBy").and_then(Value::as_str) {
        domain_prefixed_path(manager, &at.child("managedBy"), errors);
        if manager.len() > MANAGED_BY_MAX_LENGTH {
            errors.too_long(at.child("managedBy"), MANAGED_BY_MAX_LENGTH);
        }
    }
    validate_completion_mode(spec, at, errors);
    if member(spec, "podFailurePolicy").is_some() {
        validate_pod_failure_policy(spec, &at.child("podFailurePolicy"), errors);
    }
    if let Some(policy) = member(spec, "successPolicy") {
        let at = at.child("successPolicy");
        if is_indexed(spec) {
            validate_success_policy(spec, &at, errors);
        } else {
            let shown = internal_form::compact("SuccessPolicy", policy);
            errors.invalid_shown(at, shown, "requires indexed completion mode");
        }
    }
    validate_replacement(spec, &at.child("podReplacementPolicy"), errors);
    validate_template(spec, old, &at.child("template"), errors);
    validate_restart_policy(spec, &at.child("template").child("spec").child("restartPolicy"), errors);
}

fn validate_completion_mode(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let mode = member(spec, "completionMode").and_then(Value::as_str);
    match mode {
        Some("Indexed") => validate_indexed(spec, at, errors),
        None | Some("NonIndexed") => {
            for key in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                if let Some(value) = member(spec, key) {
                    errors.invalid(at.child(key), value, "requires indexed completion mode");
                }
            }
        }
        Some(other) => {
            let known = ["NonIndexed", "Indexed"];
            errors.not_supported(at.child("completionMode"), &Value::from(other), &known);
        }
    }
}

fn validate_indexed(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let completions = given(spec, "completions");
    let (parallelism, failed) = (number(spec, "parallelism"), given(spec, "maxFailedIndexes"));
    if completions.is_none() {
        errors.required(at.child("completions"), "when completion mode is Indexed");
    }
    let mut refuse = |key: &str, number: i64, why: String| {
        errors.invalid(at.child(key), &Value::Int(number), why);
    };
    if parallelism > MOST_PARALLEL {
        let why = format!("must be less than or equal to {MOST_PARALLEL} when completion mode is Indexed");
        refuse("parallelism", parallelism, why);
    }
    if let Some(failed) = failed {
        if completions.is_some_and(|completions| failed > completions) {
            refuse("maxFailedIndexes", failed, "must be less than or equal to completions".to_owned());
        }
        if failed > MOST_FAILED_INDEXES {
            refuse(
                "maxFailedIndexes",
                failed,
                format!("must be less than or equal to {MOST_FAILED_INDEXES}"),
            );
        }
    }
    let many = completions.is_some_and(|completions| completions > MANY_COMPLETIONS);
    if !many || member(spec, "backoffLimitPerIndex").is_none() {
        return;
    }
    let within = |most: i64| {
        format!(
            "must be less than or equal to {most} when completions are above {MANY_COMPLETIONS} and used with backoff limit per index"
        )
    };
    if failed.is_none() {
        let why = format!("must be specified when completions is above {MANY_COMPLETIONS}");
        errors.required(at.child("maxFailedIndexes"), why);
    }
    if parallelism > MOST_PARALLEL_OF_MANY {
        errors.invalid(at.child("parallelism"), &Value::Int(parallelism), within(MOST_PARALLEL_OF_MANY));
    }
    if let Some(failed) = failed.filter(|failed| *failed > MOST_FAILED_INDEXES_OF_MANY) {
        let why = within(MOST_FAILED_INDEXES_OF_MANY);
        errors.invalid(at.child("maxFailedIndexes"), &Value::Int(failed), why);
    }
}

/// The replacement of terminating pods; with a pod failure policy there is none.
fn validate_replacement(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(policy) = member(spec, "podReplacementPolicy") else { return };
    let known: &[&str] = match member(spec, "podFailurePolicy") {
        Some(_) => &["Failed"],
        None => &["Failed", "TerminatingOrFailed"],
    };
    if !policy.as_str().is_some_and(|policy| known.contains(&policy)) {
        errors.not_supported(*at, policy, known);
    }
}

fn validate_restart_policy(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let policy = text(part(part(spec, "template"), "spec"), "restartPolicy");
    match policy {
        "" | "Always" => errors.required(*at, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if member(spec, "podFailurePolicy").is_some() => {
            let why = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(*at, &Value::from(policy), why);
        }
        "OnFailure" | "Never" => {}
        other => errors.not_supported(*at, &Value::from(other), &["OnFailure", "Never"]),
    }
}

/// The completions of an indexed job change together with its parallelism; others do not change.
fn validate_completions_update(spec: &Value, old: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if !is_indexed(spec) {
        immutable(spec, old, "completions", at, errors);
        return;
    }
    let Some(completions) = given(spec, "completions") else { return };
    if given(old, "completions") != Some(completions) && completions != number(spec, "parallelism") {
        let why = format!("can only be modified in tandem with {}", at.child("parallelism"));
        errors.invalid(at.child("completions"), &Value::Int(completions), why);
    }
}
