//! DefaultBinder: binds a pod to its node in the API.

use corten_api::{Value, value};

use crate::framework::registration::{Point, Registration};
use crate::pod::Pod;

pub(crate) const NAME: &str = "DefaultBinder";

pub(crate) const REGISTRATION: Registration =
    Registration { name: NAME, weight: 0, points: &[Point::Bind], create: None };

/// The binding of a pod to a node, by the pod's uid: it never binds another pod of the same name.
pub(crate) fn binding(pod: &Pod, node: &str) -> Value {
    value!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {
            "name": (pod.key.name.clone()), "namespace": (pod.key.namespace.clone()), "uid": (pod.uid.clone()),
        },
        "target": {"kind": "Node", "name": (node)},
    })
}
