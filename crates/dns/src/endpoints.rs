//! The controller of the DNS service's EndpointSlice: every node is an endpoint.
//!
//! Watches nodes and the service. Writes one slice; never changes one that is not its own.

use corten_api::{Value, meta, value};
use corten_client::{Caches, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

pub const NAMESPACE: &str = "kube-system";
pub const SERVICE: &str = "kube-dns";
/// The label that excludes a service from proxies: every node has the service's address itself.
pub const PROXY_NAME: &str = "service.kubernetes.io/service-proxy-name";
/// The label's value for the DNS service.
pub const OURS: &str = "corten-dns";
const MANAGED_BY: &str = "endpointslice.kubernetes.io/managed-by";
/// The limit of endpoints in a slice.
const MOST: usize = 1000;

pub struct NodeEndpoints;

/// The service and the slice, if they are there, and the nodes.
#[derive(Debug, Default)]
pub struct World {
    service: Option<Value>,
    slice: Option<Value>,
    nodes: Vec<Value>,
}

impl Controller for NodeEndpoints {
    type World = World;

    fn name(&self) -> &'static str {
        "dns-endpoints-controller"
    }

    fn account(&self) -> &'static str {
        "endpointslice-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::NODES, keys: |_, _, keys| keys.push(own()) },
            Watch {
                kind: &kinds::SERVICES,
                keys: |_, change, keys| keys.extend(Some(own()).filter(|key| *key == change.object().key)),
            },
            Watch {
                kind: &kinds::ENDPOINT_SLICES,
                keys: |_, change, keys| keys.extend(Some(own()).filter(|key| *key == change.object().key)),
            },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let nodes = caches.of(&kinds::NODES).list("");
        World {
            service: caches.of(&kinds::SERVICES).get(key).map(|service| service.tree()),
            slice: caches.of(&kinds::ENDPOINT_SLICES).get(key).map(|slice| slice.tree()),
            nodes: nodes.iter().map(|node| node.tree()).collect(),
        }
    }

    fn plan(&self, _: &Key, world: &World, _: Timestamp) -> Plan {
        let label =
            world.service.as_ref().and_then(|service| service.str_at(&["metadata", "labels", PROXY_NAME]));
        let Some(service) = world.service.as_ref().filter(|_| label == Some(OURS)) else {
            // The slice is garbage-collected with its owner.
            return Plan::done();
        };
        let wanted = slice(service, &world.nodes);
        let kind = &kinds::ENDPOINT_SLICES;
        match &world.slice {
            None => Plan::done().then(Action::Create { kind, object: wanted }),
            Some(found) if same(found, &wanted) => Plan::done(),
            Some(found) if found.str_at(&["metadata", "labels", MANAGED_BY]) != Some(OURS) => Plan::done(),
            Some(found) => {
                let mut object = found.clone();
                for field in ["endpoints", "ports"] {
                    object.set(&[field], wanted.get(field).cloned().unwrap_or_default());
                }
                Plan::done().then(Action::Update { kind, object, subresource: "" })
            }
        }
    }

    fn workers(&self) -> usize {
        1
    }
}

fn own() -> Key {
    Key::new(NAMESPACE, SERVICE)
}

fn same(actual: &Value, desired: &Value) -> bool {
    // An empty list is stored as null.
    ["endpoints", "ports"].iter().all(|field| actual.items_at(&[field]) == desired.items_at(&[field]))
}

fn slice(service: &Value, nodes: &[Value]) -> Value {
    let ipv6 = service.str_at(&["spec", "clusterIP"]).is_some_and(|address| address.contains(':'));
    let mut slice = kinds::ENDPOINT_SLICES.new_object(NAMESPACE, SERVICE);
    slice.set(&["metadata", "labels", "kubernetes.io/service-name"], SERVICE);
    slice.set(&["metadata", "labels", MANAGED_BY], OURS);
    slice.set(&["metadata", "labels", PROXY_NAME], OURS);
    slice.set(
        &["metadata", "ownerReferences"],
        value!([{
            "apiVersion": "v1", "kind": "Service", "name": (SERVICE), "uid": (meta::uid(service)),
            "controller": true, "blockOwnerDeletion": true,
        }]),
    );
    slice.set(&["addressType"], if ipv6 { "IPv6" } else { "IPv4" });
    let endpoints = nodes.iter().filter_map(|node| endpoint(node, ipv6)).take(MOST);
    slice.set(&["endpoints"], Value::Array(endpoints.collect()));
    let port = |name: &str, protocol: &str, port: i64| value!({"name": (name), "port": (port), "protocol": (protocol)});
    let ports = vec![port("dns", "UDP", 53), port("dns-tcp", "TCP", 53), port("metrics", "TCP", 9153)];
    slice.set(&["ports"], Value::Array(ports));
    slice
}

/// The endpoint of a node, if it has an address of the family.
fn endpoint(node: &Value, ipv6: bool) -> Option<Value> {
    let addresses = node.items_at(&["status", "addresses"]).iter();
    let mut internal = addresses.filter(|address| address.str_at(&["type"]) == Some("InternalIP"));
    let address = internal.find_map(|address| {
        address.str_at(&["address"]).filter(|text| text.contains(':') == ipv6).map(str::to_owned)
    })?;
    let conditions = node.items_at(&["status", "conditions"]).iter();
    let mut ready = conditions.filter(|condition| condition.str_at(&["type"]) == Some("Ready"));
    let ready = ready.next().and_then(|condition| condition.str_at(&["status"])) == Some("True");
    Some(value!({
        "addresses": [(address)],
        "conditions": {"ready": (ready), "serving": (ready), "terminating": false},
        "nodeName": (meta::name(node)),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slice_without_nodes_is_written_once() {
        let desired = slice(&service(), &[]);
        let mut stored = desired.clone();
        stored.set(&["endpoints"], Value::Null);
        assert!(same(&stored, &desired));
        assert!(!same(&stored, &slice(&service(), &[node("n", "192.0.2.1", "True")])));
    }

    fn service() -> Value {
        let mut service = kinds::SERVICES.new_object(NAMESPACE, SERVICE);
        service.set(&["metadata", "labels", PROXY_NAME], OURS);
        service.set(&["spec", "clusterIP"], "10.96.0.10");
        service
    }

    fn node(name: &str, address: &str, ready: &str) -> Value {
        value!({"metadata": {"name": (name)}, "status": {
            "addresses": [{"type": "InternalIP", "address": (address)}],
            "conditions": [{"type": "Ready", "status": (ready)}],
        }})
    }

    fn plan(world: &World) -> Plan {
        NodeEndpoints.plan(&own(), world, Timestamp::UNIX_EPOCH)
    }

    fn written(plan: &Plan) -> Vec<String> {
        let endpoints = |object: &Value| {
            let endpoints = object.items_at(&["endpoints"]).iter().map(|endpoint| {
                let ready = endpoint.bool_at(&["conditions", "ready"]) == Some(true);
                let name = endpoint.str_at(&["nodeName"]).unwrap_or_default();
                format!("{name} {}", if ready { "ready" } else { "not" })
            });
            endpoints.collect::<Vec<_>>()
        };
        let mut found = plan.actions().map(|action| match action {
            Action::Create { object, .. } | Action::Update { object, .. } => endpoints(object),
            other => panic!("{other:?}"),
        });
        found.next().unwrap_or_default()
    }

    #[test]
    fn every_node_is_an_endpoint() {
        let nodes = vec![
            node("a", "192.0.2.1", "True"),
            node("b", "192.0.2.2", "Unknown"),
            node("c", "fd00::1", "True"),
        ];
        let mut world = World { service: Some(service()), slice: None, nodes };
        let first = plan(&world);
        assert_eq!(written(&first), ["a ready", "b not"]);
        let Some(Action::Create { object, .. }) = first.actions().next() else { panic!("{first:?}") };
        world.slice = Some(object.clone());
        assert!(plan(&world).is_done(), "what is so is not written again");
        world.nodes.remove(0);
        assert_eq!(written(&plan(&world)), ["b not"]);
    }

    #[test]
    fn slices_of_other_controllers_are_not_changed() {
        let mut theirs = service();
        theirs.remove(&["metadata", "labels"]);
        let nodes = vec![node("a", "192.0.2.1", "True")];
        assert!(plan(&World { service: Some(theirs), slice: None, nodes: nodes.clone() }).is_done());
        let slice = kinds::ENDPOINT_SLICES.new_object(NAMESPACE, SERVICE);
        assert!(plan(&World { service: Some(service()), slice: Some(slice), nodes }).is_done());
    }
}
