//! The pods of a job.

use corten_api::{Value, meta, value};

use super::policies::Meaning;
use super::spec::Job;
use super::tracking::{FAILURES, FINALIZER, IGNORED_FAILURES, INDEX, JobPod};
use crate::templates;

/// The environment variable with the completion index.
const INDEX_VARIABLE: &str = "JOB_COMPLETION_INDEX";
/// The longest prefix that, with five random characters, fits a label.
const LONGEST_PREFIX: usize = 58;

/// A pod with the tracking finalizer.
pub(super) fn pod(job: &Job) -> Value {
    let template = job.0.at(&["spec", "template"]).unwrap_or(&Value::Null);
    let mut pod = templates::pod(template, &job.0);
    let finalizers = meta::of(&mut pod).entry("finalizers").make_array();
    if !finalizers.iter().any(|finalizer| finalizer.as_str() == Some(FINALIZER)) {
        finalizers.push(FINALIZER.into());
    }
    pod
}

/// A pod for an index, after the one that failed before it.
pub(super) fn indexed_pod(job: &Job, index: i64, failed: Option<&JobPod>) -> Value {
    let mut pod = pod(job);
    let (name, text) = (meta::name(&job.0), index.to_string());
    pod.set(&["metadata", "generateName"], name_prefix(name, index));
    pod.set(&["metadata", "annotations", INDEX], text.clone());
    pod.set(&["metadata", "labels", INDEX], text);
    pod.set(&["spec", "hostname"], format!("{name}-{index}"));
    for list in ["initContainers", "containers"] {
        let containers = pod.get_mut("spec").and_then(|spec| spec.get_mut(list));
        containers.and_then(Value::as_array_mut).into_iter().flatten().for_each(add_variable);
    }
    if job.backoff_limit_per_index().is_some() {
        let (failures, ignored) = failures_after(job, failed);
        pod.set(&["metadata", "annotations", FAILURES], failures.to_string());
        if ignored > 0 {
            pod.set(&["metadata", "annotations", IGNORED_FAILURES], ignored.to_string());
        }
    }
    pod
}

fn add_variable(container: &mut Value) {
    let variables = container.make_object().entry("env").make_array();
    if variables.iter().all(|variable| variable.str_at(&["name"]) != Some(INDEX_VARIABLE)) {
        let path = format!("metadata.labels['{INDEX}']");
        variables.push(value!({"name": (INDEX_VARIABLE), "valueFrom": {"fieldRef": {"fieldPath": (path)}}}));
    }
}

/// The prefix of the names of an index's pods; the index is never truncated.
fn name_prefix(job: &str, index: i64) -> String {
    let end = format!("-{index}-");
    let room = LONGEST_PREFIX.saturating_sub(end.len());
    format!("{}{end}", job.get(..room).unwrap_or(job))
}

/// The failure counts of an index after the failure of a pod: counted and ignored ones.
fn failures_after(job: &Job, failed: Option<&JobPod>) -> (i64, i64) {
    let Some(pod) = failed else { return (0, 0) };
    let (failures, ignored) = (pod.tracking.failures, pod.tracking.ignored_failures);
    match pod.meaning(job) {
        Meaning::Ignored => (failures, ignored + 1),
        _ => (failures + 1, ignored),
    }
}
