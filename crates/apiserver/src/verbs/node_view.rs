//! The view that nodes get of other nodes' pods: only the fields that network policies and routing need.
//!
//! Nodes list and watch the pods of all nodes to enforce network policies (`corten:node-network`); upstream's nodes see their
//! own pods alone. A node's credential must not give away what other nodes' pods hold, environment values above all, so a
//! list or watch by a node that is not limited to its own pods shows every pod through this view, in whatever format.
//! Access to single pods is decided by the node authorizer. A watch in the server's own process shares the server's objects and
//! gets them whole: the process holds them anyway.

use corten_api::{Map, Value};
use corten_auth::User;

use crate::call::Call;
use crate::filter::Filter;

/// Reduces a pod to the fields that nodes may see.
pub(crate) type View = fn(&Value) -> Value;

/// The view through which a list or watch is shown; none for whole objects.
pub(crate) fn of(call: &Call, filter: &Filter) -> Option<View> {
    let is_pods = (call.served.group(), call.served.name()) == ("", "pods");
    let is_limited = |node: &str| filter.requires(&call.served, "spec.nodeName", node);
    let limited = node_name(&call.user).is_some_and(|node| !node.is_empty() && is_limited(node));
    (is_pods && is_node(&call.user) && !limited).then_some(network)
}

pub(super) fn is_node(user: &User) -> bool {
    user.is_in("system:nodes")
}

fn node_name(user: &User) -> Option<&str> {
    user.name.strip_prefix("system:node:")
}

/// The identity, the addresses and the named ports of a pod.
fn network(pod: &Value) -> Value {
    let metadata = ["name", "namespace", "uid", "resourceVersion", "labels", "deletionTimestamp"];
    let mut view = Value::object();
    for key in ["apiVersion", "kind"] {
        copy(pod, &mut view, &[key]);
    }
    metadata.iter().for_each(|key| copy(pod, &mut view, &["metadata", key]));
    ["nodeName", "hostNetwork"].iter().for_each(|key| copy(pod, &mut view, &["spec", key]));
    ["phase", "podIP", "podIPs"].iter().for_each(|key| copy(pod, &mut view, &["status", key]));
    for list in ["containers", "initContainers"] {
        let containers: Vec<Value> = pod.items_at(&["spec", list]).iter().map(container).collect();
        if !containers.is_empty() {
            view.set(&["spec", list], containers);
        }
    }
    view
}

fn container(container: &Value) -> Value {
    let mut view = Map::new();
    for key in ["name", "restartPolicy", "ports"] {
        if let Some(value) = container.get(key) {
            view.insert(key, value.clone());
        }
    }
    Value::Object(view)
}

fn copy(from: &Value, to: &mut Value, path: &[&str]) {
    if let Some(value) = from.at(path) {
        to.set(path, value.clone());
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn nodes_see_only_network_fields_of_pods() {
        let ports = value!([{"name": "web", "containerPort": 80, "protocol": "TCP"}]);
        let pod = value!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"app": "a"},
                "annotations": {"kubectl.kubernetes.io/last-applied-configuration": "PASSWORD"},
                "managedFields": [{"manager": "m"}],
            },
            "spec": {
                "nodeName": "other", "hostNetwork": false, "serviceAccountName": "s",
                "containers": [{
                    "name": "c", "image": "i", "command": ["run", "PASSWORD"], "ports": (ports.clone()),
                    "env": [{"name": "E", "value": "PASSWORD"}],
                }],
                "initContainers": [{"name": "s", "restartPolicy": "Always", "ports": (ports.clone()), "args": ["x"]}],
                "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            },
            "status": {
                "phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}],
                "containerStatuses": [{"name": "c", "state": {"terminated": {"message": "PASSWORD"}}}],
            },
        });
        let expected = value!({
            "apiVersion": "v1", "kind": "Pod",
            "metadata": {
                "name": "p", "namespace": "n", "uid": "u", "resourceVersion": "7", "labels": {"app": "a"},
            },
            "spec": {
                "nodeName": "other", "hostNetwork": false,
                "containers": [{"name": "c", "ports": (ports.clone())}],
                "initContainers": [{"name": "s", "restartPolicy": "Always", "ports": (ports)}],
            },
            "status": {"phase": "Running", "podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]},
        });
        assert_eq!(network(&pod), expected);
    }
}
