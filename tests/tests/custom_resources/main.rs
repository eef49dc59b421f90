//! Custom resources as clients see them: definitions, objects, versions, the rest of the cluster, and attacks.

mod attacks;
mod cluster;
mod definitions;
mod objects;
mod versions;

use corten_e2e::eventually;
use corten_testkit::Client;
use serde_json::{Value, json};

pub(crate) const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
pub(crate) const WIDGETS: &str = "/apis/example.com/v1/namespaces/default/widgets";

/// A definition of namespaced widgets with one version, whose schema has these properties.
pub(crate) fn definition(properties: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1", properties)],
        },
    })
}

/// A served version; `v1` is the stored one.
pub(crate) fn version(name: &str, properties: &Value) -> Value {
    json!({
        "name": name, "served": true, "storage": name == "v1",
        "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}},
    })
}

/// A widget with this specification.
pub(crate) fn widget(name: &str, spec: &Value) -> Value {
    json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})
}

/// Creates a definition and waits until it is established.
#[track_caller]
pub(crate) fn install(client: &Client, definition: &Value) {
    client.post(DEFINITIONS, definition).expect(201);
    let name = definition["metadata"]["name"].as_str().unwrap_or_default();
    eventually("the definition is established", || condition(client, name, "Established").0 == "True");
}

/// Status and reason of a condition; empty if there is none.
#[track_caller]
pub(crate) fn condition(client: &Client, definition: &str, kind: &str) -> (String, String) {
    let definition = client.get(format!("{DEFINITIONS}/{definition}")).expect(200);
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let found = conditions.into_iter().find(|c| c["type"] == kind).unwrap_or_default();
    let text = |key: &str| found[key].as_str().unwrap_or_default().to_owned();
    (text("status"), text("reason"))
}

/// A schema of an object that keeps all fields.
pub(crate) fn any() -> Value {
    json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
}
