//! DefaultBinder: tells the API server which node a pod goes to.

use corten_api::{Value, value};

use crate::pod::Pod;

pub(crate) const NAME: &str = "DefaultBinder";

/// The binding of a pod to a node: of this very pod, not of another by its name.
pub(crate) fn binding(pod: &Pod, node: &str) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {
            "name": (pod.key.name.clone()), "namespace": (pod.key.namespace.clone()), "uid": (pod.uid.clone()),
        },
        "target": {"kind": "Node", "name": (node)},
    })
}
