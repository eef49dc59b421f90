//! Objects created from the template of a workload.

use corten_api::{Map, Value, meta};

use crate::claims;

/// The pod of a template: its labels, annotations, finalizers and spec, owned by the workload, with a name generated
/// from the owner's.
pub(crate) fn pod(template: &Value, owner: &Value) -> Value {
    let mut metadata = Map::new();
    metadata.insert("namespace", meta::namespace(owner));
    metadata.insert("generateName", name_prefix(meta::name(owner)));
    for key in ["labels", "annotations", "finalizers"] {
        if let Some(given) = template.at(&["metadata", key]) {
            metadata.insert(key, given.clone());
        }
    }
    metadata.insert("ownerReferences", vec![claims::reference(owner)]);
    let mut pod = Map::new();
    pod.insert("apiVersion", "v1");
    pod.insert("kind", "Pod");
    pod.insert("metadata", metadata);
    pod.insert("spec", template.get("spec").cloned().unwrap_or_else(Value::object));
    Value::Object(pod)
}

/// The prefix of the names of an owner's pods.
fn name_prefix(owner: &str) -> String {
    let prefix = format!("{owner}-");
    // An invalid prefix is better whole than truncated.
    if corten_api::names::NameRule::DnsSubdomain.check_prefix(&prefix).is_empty() {
        prefix
    } else {
        owner.to_owned()
    }
}
