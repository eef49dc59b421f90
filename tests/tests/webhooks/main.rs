//! Admission webhooks as their authors and clients see them: which requests they get, in which form, what they may change,
//! and what becomes of a request when a webhook is dead, slow or hostile.

mod credentials;
mod failures;
mod matching;
mod mutating;
mod reviews;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use corten_testkit::{Client, Webhook};
use serde_json::{Value, json};

pub(crate) const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
pub(crate) const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
pub(crate) const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A webhook for creates and updates of config maps, with further or other fields.
pub(crate) fn hook(name: &str, webhook: &Webhook, fields: &Value) -> Value {
    let mut hook = json!({
        "name": name,
        "clientConfig": webhook.client_config("/admit"),
        "admissionReviewVersions": ["v1"],
        "sideEffects": "None",
        "rules": [{
            "operations": ["CREATE", "UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]
        }],
    });
    for (key, value) in fields.as_object().into_iter().flatten() {
        hook[key] = value.clone();
    }
    hook
}

/// Creates a configuration with these webhooks.
#[track_caller]
pub(crate) fn configure(client: &Client, path: &str, name: &str, webhooks: &[Value]) {
    let kind =
        if path == MUTATING { "MutatingWebhookConfiguration" } else { "ValidatingWebhookConfiguration" };
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": webhooks,
    });
    client.post(path, &configuration).expect(201);
}

pub(crate) fn config_map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

/// A response to a review with these fields.
pub(crate) fn respond(review: &Value, fields: &Value) -> Value {
    let mut response = fields.clone();
    response["uid"] = review["request"]["uid"].clone();
    json!({"kind": "AdmissionReview", "apiVersion": review["apiVersion"], "response": response})
}

pub(crate) fn allow(review: &Value) -> Value {
    respond(review, &json!({"allowed": true}))
}

pub(crate) fn deny(review: &Value, status: &Value) -> Value {
    respond(review, &json!({"allowed": false, "status": status}))
}

pub(crate) fn patch(review: &Value, operations: &Value) -> Value {
    let patch = STANDARD.encode(operations.to_string());
    respond(review, &json!({"allowed": true, "patchType": "JSONPatch", "patch": patch}))
}
