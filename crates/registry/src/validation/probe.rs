//! Probes and lifecycle hooks of containers.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::handler::{grace_seconds, validate_handler};
use crate::validation::number::{given, int, non_negative};
use crate::validation::pod_context::PodContext;
use crate::validation::text::member;

pub(crate) fn validate_probes(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for key in ["livenessProbe", "readinessProbe", "startupProbe"] {
        if let Some(probe) = member(container, key) {
            validate_probe(probe, key == "readinessProbe", &at.child(key), errors);
        }
    }
}

fn validate_probe(probe: &Value, readiness: bool, at: &Field<'_>, errors: &mut ErrorList) {
    const TERMINATION: &str = "terminationGracePeriodSeconds";
    validate_handler(probe, None, at, errors);
    for key in
        ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"]
    {
        non_negative(int(probe, key), &at.child(key), errors);
    }
    let termination = given(probe, TERMINATION);
    if let Some(seconds) = termination.filter(|seconds| *seconds <= 0) {
        errors.invalid(at.child(TERMINATION), &Value::from(seconds), "must be greater than 0");
    }
    let successes = int(probe, "successThreshold");
    match (readiness, termination) {
        (true, Some(seconds)) => {
            let why = "must not be set for readinessProbes";
            errors.invalid(at.child(TERMINATION), &Value::from(seconds), why);
        }
        (false, _) if successes != 1 => {
            errors.invalid(at.child("successThreshold"), &Value::from(successes), "must be 1");
        }
        _ => {}
    }
}

pub(crate) fn validate_lifecycle(
    context: &PodContext<'_>,
    container: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(lifecycle) = member(container, "lifecycle") else { return };
    let at = at.child("lifecycle");
    for key in ["postStart", "preStop"] {
        if let Some(hook) = member(lifecycle, key) {
            validate_handler(hook, grace_seconds(context.spec), &at.child(key), errors);
        }
    }
}
