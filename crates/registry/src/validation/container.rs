//! One container, of any list.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::env::{validate_env, validate_env_from};
use crate::validation::fields::one_of;
use crate::validation::pod_context::PodContext;
use crate::validation::ports::validate_ports;
use crate::validation::repeats::Repeats;
use crate::validation::requirements::validate_container_resources;
use crate::validation::security_context::validate_security_context;
use crate::validation::text::{list, member, required, text};
use crate::validation::volume::Volumes;
use crate::validation::volume_mount::{validate_volume_devices, validate_volume_mounts};

/// Rules of all containers.
pub(crate) fn validate_container(
    context: &PodContext<'_>,
    container: &Value,
    volumes: &Volumes<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    required(text(container, "name"), names::dns1123_label, &at.child("name"), errors);
    if text(container, "image").is_empty() {
        errors.required(at.child("image"), "");
    }
    one_of(container, "terminationMessagePolicy", &["File", "FallbackToLogsOnError"], at, errors);
    validate_ports(container, &at.child("ports"), errors);
    validate_env(container, &at.child("env"), errors);
    validate_env_from(container, &at.child("envFrom"), errors);
    validate_volume_mounts(container, volumes, &at.child("volumeMounts"), errors);
    validate_volume_devices(container, volumes, &at.child("volumeDevices"), errors);
    validate_pull_policy(container, "imagePullPolicy", at, errors);
    validate_container_resources(context, container, &at.child("resources"), errors);
    validate_resize_policy(context, container, &at.child("resizePolicy"), errors);
    validate_security_context(context, container, &at.child("securityContext"), errors);
}

pub(crate) fn validate_pull_policy(value: &Value, key: &str, at: &Field<'_>, errors: &mut ErrorList) {
    one_of(value, key, &["Always", "IfNotPresent", "Never"], at, errors);
}

/// A pod's images have no surrounding space; those of templates may.
pub(crate) fn validate_image_is_trimmed(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let image = text(container, "image");
    if image.trim().len() != image.len() {
        let why = "must not have leading or trailing whitespace";
        errors.invalid(at.child("image"), &Value::from(image), why);
    }
}

fn validate_resize_policy(
    context: &PodContext<'_>,
    container: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let policies = list(container, "resizePolicy");
    let repeats = Repeats::of(policies, |item| text(item, "resourceName"));
    for (i, entry) in policies.iter().enumerate() {
        let (resource, policy) = (text(entry, "resourceName"), text(entry, "restartPolicy"));
        if repeats.at(i) {
            errors.duplicate(at.index(i), &Value::from(resource));
        }
        word(resource, &["cpu", "memory"], at, errors);
        word(policy, &["NotRequired", "RestartContainer"], at, errors);
        if text(context.spec, "restartPolicy") == "Never" && policy != "NotRequired" {
            let why = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(at, &Value::from(policy), why);
        }
    }
}

/// A text whose exact field upstream does not report.
fn word(word: &str, words: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    match word {
        "" => errors.required(at, ""),
        word if words.contains(&word) => {}
        other => errors.not_supported(at, &Value::from(other), words),
    }
}

const NO_POLICY: &str = "must specify restartPolicy when restart rules are used";

/// The restart policy of a container that does not use its pod's.
pub(crate) fn validate_restart_policy(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST_RULES: usize = 20;
    let rules = list(container, "restartPolicyRules");
    match container.get("restartPolicy").and_then(Value::as_str) {
        None if rules.is_empty() => return,
        None => {
            errors.required(at.child("restartPolicy"), NO_POLICY);
        }
        Some("Always" | "Never" | "OnFailure") => {}
        Some(other) => {
            let supported = ["Always", "Never", "OnFailure"];
            errors.not_supported(at.child("restartPolicy"), &Value::from(other), &supported);
        }
    }
    let at = at.child("restartPolicyRules");
    if rules.len() > MOST_RULES {
        errors.too_many(at, rules.len(), MOST_RULES);
    }
    for (i, rule) in rules.iter().enumerate() {
        validate_restart_rule(rule, &at.index(i), errors);
    }
}

/// The same of an init container: its rules are validated only if it has a policy.
pub(crate) fn validate_init_restart_policy(container: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let has_policy = container.get("restartPolicy").is_some_and(|policy| !policy.is_null());
    if has_policy || list(container, "restartPolicyRules").is_empty() {
        validate_restart_policy(container, at, errors);
    } else {
        errors.required(at.child("restartPolicy"), NO_POLICY);
    }
}

fn validate_restart_rule(rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST_CODES: usize = 255;
    let action = text(rule, "action");
    if !matches!(action, "Restart" | "RestartAllContainers") {
        let supported = ["Restart", "RestartAllContainers"];
        errors.not_supported(at.child("action"), &Value::from(action), &supported);
    }
    let at = at.child("exitCodes");
    let Some(codes) = member(rule, "exitCodes") else {
        errors.required(at, "must be specified");
        return;
    };
    let operator = text(codes, "operator");
    if !matches!(operator, "In" | "NotIn") {
        errors.not_supported(at.child("operator"), &Value::from(operator), &["In", "NotIn"]);
    }
    let values = list(codes, "values").len();
    if values > MOST_CODES {
        errors.too_many(at.child("values"), values, MOST_CODES);
    }
}
