//! Mutable parts of a job's template: none, unless the job is suspended and has no running pods.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use super::status::is_true;
use crate::prepare::copy;
use crate::validation::fields::{IMMUTABLE, number, part};
use crate::validation::internal_form;
use crate::validation::text::{list, member, text};

/// Scheduling directives, below the template.
const DIRECTIVES: [&[&str]; 5] = [
    &["spec", "nodeSelector"],
    &["spec", "tolerations"],
    &["spec", "schedulingGates"],
    &["metadata", "annotations"],
    &["metadata", "labels"],
];

pub(super) fn validate_template_update(job: &Value, old: &Value, errors: &mut ErrorList) {
    let (template, before) = (part(part(job, "spec"), "template"), part(part(old, "spec"), "template"));
    if template == before {
        return;
    }
    let spec_at = Field::new("spec");
    let at = spec_at.child("template");
    if !is_idle(old) {
        errors.invalid_shown(at, shown(template), IMMUTABLE);
        return;
    }
    let mut expected = before.clone();
    for path in DIRECTIVES {
        copy(&mut expected, template, path);
    }
    allow_node_affinity(&mut expected, template);
    for key in ["containers", "initContainers"] {
        allow_resources(&mut expected, template, key);
    }
    if !same_spec(template, &expected) {
        let spec = internal_form::compact("PodSpec", part(template, "spec"));
        errors.invalid_shown(at.child("spec"), spec, IMMUTABLE);
    }
}

/// A template as messages print it: its metadata, then the spec in upstream's form.
fn shown(template: &Value) -> String {
    let members = internal_form::metadata_members(part(template, "metadata"));
    let members = members.map(|(key, value)| (key, internal_form::compact_metadata(key, value)));
    let metadata: String =
        members.filter(|(_, text)| text != "{}").map(|(key, text)| format!("\"{key}\":{text},")).collect();
    format!("{{{metadata}\"Spec\":{}}}", internal_form::compact("PodSpec", part(template, "spec")))
}

fn same_spec(a: &Value, b: &Value) -> bool {
    part(a, "spec") == part(b, "spec")
}

/// Returns true if the job is suspended and has no pods.
fn is_idle(job: &Value) -> bool {
    let status = part(job, "status");
    let stopped = member(status, "startTime").is_none() || is_true(status, "Suspended");
    job.bool_at(&["spec", "suspend"]) == Some(true) && stopped && number(status, "active") == 0
}

/// Node affinity may change, pod affinity may not.
fn allow_node_affinity(expected: &mut Value, template: &Value) {
    const AFFINITY: &[&str] = &["spec", "affinity"];
    const NODE: &[&str] = &["spec", "affinity", "nodeAffinity"];
    copy(expected, template, NODE);
    let nothing = |value: &Value| value.as_object().is_some_and(|map| map.is_empty());
    if template.at(AFFINITY).is_none() && expected.at(AFFINITY).is_some_and(nothing) {
        expected.remove(AFFINITY);
    }
}

/// The resources of the same containers may change.
fn allow_resources(expected: &mut Value, template: &Value, key: &str) {
    let now = list(part(template, "spec"), key);
    let Some(containers) = expected
        .get_mut("spec")
        .and_then(|spec| spec.get_mut(key))
        .and_then(Value::as_array_mut)
        .filter(|containers| containers.len() == now.len())
    else {
        return;
    };
    for (container, now) in containers.iter_mut().zip(now) {
        if text(container, "name") == text(now, "name") {
            copy(container, now, &["resources"]);
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_template_is_shown_with_all_of_its_metadata() {
        let template = value!({"metadata": {"labels": {"a": "b"}, "generateName": "p", "annotations": {}}});
        let shown = shown(&template);
        assert!(shown.starts_with(r#"{"generateName":"p","labels":{"a":"b"},"Spec":"#), "{shown}");
    }
}
