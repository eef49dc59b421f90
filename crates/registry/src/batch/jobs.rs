//! Jobs: pods that complete. Deleting one orphans its pods by default, as it always has.

mod indexes;
mod policies;
mod status;
mod template;
pub(crate) mod validate;

use corten_api::{Field, Map, Str, Value};

use crate::defaults::{child, fill_absent, fill_zero, is_absent, items, made, pod_template, template_labels};
use crate::prepare::{drop_status, keep_status, resets_spec_or_status, status_keeps_spec};
use crate::rules::{GarbageCollection, Generation, Request, RowContext, Rules, Selectable};
use crate::selector::selector_cell;
use crate::table::{
    AGE, CONTAINERS, IMAGES, NAME, age, cells, condition_true, containers, int_at, name, present, str_at,
    text, time_at,
};
use crate::validation::fields::part;
use crate::validation::pod_template::pod_template_warnings;
use crate::validation::workload::name_warning;
use corten_api::duration::human_since;

pub(crate) const RULES: Rules = Rules {
    group: "batch",
    resource: "jobs",
    storage_prefix: "jobs",
    generation: Generation::SPEC,
    default,
    prepare_create,
    prepare_update: keep_status,
    prepare_subresource: status_keeps_spec,
    reset_fields: resets_spec_or_status,
    validate_create: validate::validate_create,
    validate_update: validate::validate_update,
    validate_subresource: status::validate_subresource,
    warnings,
    garbage_collection: GarbageCollection::Orphan,
    selectable: &[Selectable {
        label: "status.successful",
        value: |o| Str::from(int_at(o, &["status", "succeeded"]).to_string()),
    }],
    columns: &[
        NAME,
        text("Status", "Status of the job."),
        text("Completions", "How many pods succeeded, of how many should.")
            .of("batch/v1.JobStatus", "succeeded"),
        text("Duration", "Time required to complete the job."),
        AGE,
        CONTAINERS,
        IMAGES,
        text("Selector", "Labels of the pods that are counted.").of("batch/v1.JobSpec", "selector").wide(),
    ],
    row,
    ..Rules::DEFAULT
};

fn row(object: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let [names, images] = containers(object, &["spec", "template", "spec", "containers"]);
    cells![
        name(object),
        shown_status(object),
        completions(object),
        duration(object, context),
        age(object, context),
        names,
        images,
        selector_cell(object.at(&["spec", "selector"])),
    ]
}

fn default(object: &mut Value) {
    let Some(object) = object.as_object_mut() else { return };
    template_labels(object);
    let spec = made(object, "spec");
    if is_absent(spec, "completions") && is_absent(spec, "parallelism") {
        spec.insert("completions", 1);
    }
    fill_absent(spec, "parallelism", 1);
    let limit = if is_absent(spec, "backoffLimitPerIndex") { 6 } else { i32::MAX };
    fill_absent(spec, "backoffLimit", limit);
    fill_absent(spec, "completionMode", "NonIndexed");
    fill_absent(spec, "suspend", false);
    fill_absent(spec, "manualSelector", false);
    let replaced = if failure_policy(spec) { "Failed" } else { "TerminatingOrFailed" };
    fill_absent(spec, "podReplacementPolicy", replaced);
    pod_template(spec);
}

/// Completes the policy for failed pods, if there is one.
pub(crate) fn failure_policy(spec: &mut Map) -> bool {
    let Some(policy) = child(spec, "podFailurePolicy") else { return false };
    for condition in items(policy, "rules").flat_map(|rule| items(rule, "onPodConditions")) {
        fill_zero(condition, "status", "True");
    }
    true
}

fn shown_status(object: &Value) -> &'static str {
    let deleted = present(object, &["metadata", "deletionTimestamp"]);
    match () {
        () if condition_true(object, "Complete") => "Complete",
        () if condition_true(object, "Failed") => "Failed",
        () if deleted => "Terminating",
        () if condition_true(object, "Suspended") => "Suspended",
        () if condition_true(object, "FailureTarget") => "FailureTarget",
        () if condition_true(object, "SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn completions(object: &Value) -> String {
    let succeeded = int_at(object, &["status", "succeeded"]);
    match (object.int_at(&["spec", "completions"]), int_at(object, &["spec", "parallelism"])) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration(object: &Value, context: &RowContext<'_>) -> String {
    let Some(started) = time_at(object, &["status", "startTime"]) else { return String::new() };
    human_since(started, time_at(object, &["status", "completionTime"]).unwrap_or(context.now))
}

/// A job selects its pods by its own uid, unless `manualSelector` is set.
fn prepare_create(object: &mut Value, request: &Request<'_>) {
    drop_status(object, request);
    if object.bool_at(&["spec", "manualSelector"]) == Some(true) {
        return;
    }
    let meta = |object: &Value, key: &str| str_at(object, &["metadata", key]).to_owned();
    let (name, uid) = (meta(object, "name"), meta(object, "uid"));
    let labels: [(&str, &str); 4] =
        [("job-name", &name), (JOB_NAME, &name), ("controller-uid", &uid), (CONTROLLER_UID, &uid)];
    for (key, text) in labels {
        fill(object, &["spec", "template", "metadata", "labels", key], text);
    }
    fill(object, &["spec", "selector", "matchLabels", CONTROLLER_UID], &uid);
    // A job without labels gets those of its pods.
    let own =
        object.at(&["metadata", "labels"]).and_then(Value::as_object).is_some_and(|map| !map.is_empty());
    if let (false, Some(labels)) = (own, object.at(&["spec", "template", "metadata", "labels"]).cloned()) {
        object.set(&["metadata", "labels"], labels);
    }
}

const JOB_NAME: &str = "batch.kubernetes.io/job-name";
const CONTROLLER_UID: &str = "batch.kubernetes.io/controller-uid";

/// Sets an absent value; one that a client set is left to validation.
fn fill(object: &mut Value, path: &[&str], text: &str) {
    if object.at(path).is_none() {
        object.set(path, text);
    }
}

/// Warnings about an accepted job.
fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let generation = |object: &Value| int_at(object, &["metadata", "generation"]);
    if old.is_some_and(|old| generation(old) == generation(object)) {
        return Vec::new();
    }
    let spec = |object| part(object, "spec");
    let name = if old.is_none() { name_warning(object) } else { None };
    name.into_iter().chain(spec_warnings(spec(object), old.map(spec), &Field::new("spec"))).collect()
}

/// Warnings about the spec of a job, also of a template.
pub(crate) fn spec_warnings(spec: &Value, old: Option<&Value>, at: &Field<'_>) -> Vec<String> {
    let number = |key: &str| int_at(spec, &[key]);
    let mut warnings = Vec::new();
    let indexed = str_at(spec, &["completionMode"]) == "Indexed";
    if indexed && number("completions") > 100_000 && number("parallelism") > 10_000 {
        warnings.push(format!("{at}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail"));
    }
    let template = |spec| part(spec, "template");
    warnings.extend(pod_template_warnings(template(spec), old.map(template), &at.child("template")));
    warnings
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn selectors_are_generated_unless_manual() {
        let created = |spec: Value| {
            let mut job = value!({"metadata": {"name": "j", "uid": "u-1"}, "spec": spec});
            RULES.prepare_for_create(&mut job, &Request { now: jiff::Timestamp::UNIX_EPOCH, user: None });
            job
        };
        let job = created(value!({"template": {"metadata": {"labels": {"job-name": "mine"}}}}));
        let labels = value!({
            "job-name": "mine", "batch.kubernetes.io/job-name": "j",
            "controller-uid": "u-1", "batch.kubernetes.io/controller-uid": "u-1",
        });
        assert_eq!(job.at(&["spec", "template", "metadata", "labels"]), Some(&labels));
        assert_eq!(
            job.at(&["spec", "selector", "matchLabels"]),
            Some(&value!({"batch.kubernetes.io/controller-uid": "u-1"}))
        );
        assert_eq!(job.int_at(&["metadata", "generation"]), Some(1));
        assert_eq!(created(value!({"manualSelector": true})).at(&["spec", "selector"]), None);
    }
}
