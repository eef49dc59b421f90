//! Admission policies as clients see them: validation, mutation, parameters, type checks, manifests, and attacks.

mod attacks;
mod manifests;
mod mutating;
mod params;
mod status;
mod validating;

use corten_testkit::{Client, Response};
use serde_json::{Value, json};

pub(crate) const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A rule for creations and updates of a resource.
pub(crate) fn rule(group: &str, resource: &str) -> Value {
    json!({
        "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource],
    })
}

/// A validating policy for config maps with these additional fields.
pub(crate) fn policy(name: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {"matchConstraints": {"resourceRules": [rule("", "configmaps")]}},
    });
    merge(&mut object["spec"], spec);
    object
}

/// A binding of a validating policy.
pub(crate) fn binding(name: &str, policy: &str, spec: &Value) -> Value {
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": policy, "validationActions": ["Deny"]},
    });
    merge(&mut object["spec"], spec);
    object
}

fn merge(into: &mut Value, from: &Value) {
    for (key, value) in from.as_object().into_iter().flatten() {
        into[key] = value.clone();
    }
}

/// Creates a validating policy and its binding, both of the same name.
#[track_caller]
pub(crate) fn install(client: &Client, name: &str, spec: &Value, bound: &Value) {
    client.post(format!("{GROUP}/validatingadmissionpolicies"), &policy(name, spec)).expect(201);
    client
        .post(format!("{GROUP}/validatingadmissionpolicybindings"), &binding(name, name, bound))
        .expect(201);
}

/// A mutating policy for config maps with its binding.
#[track_caller]
pub(crate) fn install_mutating(client: &Client, name: &str, spec: &Value, bound: &Value) {
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicy",
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rule("", "configmaps")]},
            "reinvocationPolicy": "Never",
        },
    });
    merge(&mut object["spec"], spec);
    client.post(format!("{GROUP}/mutatingadmissionpolicies"), &object).expect(201);
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingAdmissionPolicyBinding",
        "metadata": {"name": name}, "spec": {"policyName": name},
    });
    merge(&mut object["spec"], bound);
    client.post(format!("{GROUP}/mutatingadmissionpolicybindings"), &object).expect(201);
}

pub(crate) fn config_map(name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}

/// Creates a config map.
pub(crate) fn create(client: &Client, name: &str, data: &Value) -> Response {
    client.post(CONFIG_MAPS, &config_map(name, data))
}

/// An expression in `validations`.
pub(crate) fn validations(expression: &str) -> Value {
    json!({"validations": [{"expression": expression}]})
}
