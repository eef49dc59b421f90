//! Which nodes get a pod, and how old pods are replaced.

use corten_api::value;

use super::*;
use crate::testing::{at, at_text, cached};

fn set(strategy: Value) -> Value {
    value!({
        "apiVersion": "apps/v1", "kind": "DaemonSet",
        "metadata": {"name": "d", "namespace": "default", "uid": "set", "generation": 1},
        "spec": {
            "selector": {"matchLabels": {"app": "d"}}, "updateStrategy": (strategy),
            "template": {"metadata": {"labels": {"app": "d"}}, "spec": {"nodeSelector": {"disk": "ssd"}}},
        },
    })
}

fn rolling(surge: i64, unavailable: i64) -> Value {
    let limits = value!({"maxSurge": (surge), "maxUnavailable": (unavailable)});
    value!({"type": "RollingUpdate", "rollingUpdate": (limits)})
}

fn node(name: &str, disk: &str, taint: Option<&str>) -> Value {
    let taints = taint.map(|effect| value!({"key": "k", "effect": (effect)})).into_iter().collect::<Vec<_>>();
    value!({
        "metadata": {"name": (name), "labels": {"disk": (disk)}}, "spec": {"taints": (taints)},
    })
}

/// A ready pod of a revision on a node.
fn pod(node: &str, hash: &str) -> Value {
    let ready = value!({"type": "Ready", "status": "True", "lastTransitionTime": (at_text(-500))});
    value!({
        "metadata": {
            "name": (format!("d-{node}-{hash}")), "namespace": "default", "uid": (format!("{node}-{hash}")),
            "labels": {"app": "d", "controller-revision-hash": (hash)}, "creationTimestamp": (at_text(-1000)),
            "ownerReferences": [(claims::reference(&set(Value::Null)))],
        },
        "spec": {"nodeName": (node)}, "status": {"phase": "Running", "conditions": [(ready)]},
    })
}

fn world(set: Value, nodes: &[Value], pods: &[Value]) -> World {
    let selector = selectors::of(&set).unwrap();
    let nodes: Vec<_> = nodes.iter().map(cached).collect();
    let pods: Vec<_> = pods.iter().map(cached).collect();
    let pods = claims::decide(&set, &selector, &pods);
    let revisions = Claims::default();
    World { nodes: nodes::all(&nodes, &set), set: Some(set), pods, revisions }
}

/// What is done with pods, by node.
fn words(world: &World) -> Vec<String> {
    let plan = DaemonSets.plan(&Key::new("default", "d"), world, at(0));
    let node = |pod: &Value| template::node_of(&Pod::from(cached(pod))).unwrap();
    let word = |action: &Action| match action {
        Action::Create { kind, object } if **kind == kinds::PODS => Some(format!("create {}", node(object))),
        Action::Delete { key, .. } => Some(format!("delete {}", key.name)),
        _ => None,
    };
    plan.actions().filter_map(word).collect()
}

fn current_hash() -> String {
    let world = world(set(Value::Null), &[], &[]);
    history::hash(&Revisions::of(&world, &set(Value::Null)).current).to_owned()
}

#[test]
fn pods_are_where_they_fit() {
    let nodes = [
        node("fits", "ssd", None),
        node("slow", "hdd", None),
        node("closed", "ssd", Some("NoSchedule")),
        node("evicting", "ssd", Some("NoExecute")),
        node("shy", "ssd", Some("PreferNoSchedule")),
    ];
    assert_eq!(words(&world(set(rolling(0, 1)), &nodes, &[])), ["create fits", "create shy"]);
    let hash = current_hash();
    let pods: Vec<_> = ["fits", "slow", "closed", "evicting", "shy"].map(|node| pod(node, &hash)).to_vec();
    let world = world(set(rolling(0, 1)), &nodes, &pods);
    assert_eq!(words(&world), [format!("delete d-evicting-{hash}"), format!("delete d-slow-{hash}")]);
    let status = update::status(&world, &set(rolling(0, 1)), &hash, at(0));
    assert_eq!(status.int_at(&["desiredNumberScheduled"]), Some(2));
    assert_eq!(status.int_at(&["numberMisscheduled"]), Some(3));
    assert_eq!(status.int_at(&["numberAvailable"]), Some(2));
}

#[test]
fn old_pods_are_replaced_as_the_strategy_allows() {
    let nodes: Vec<_> = ["a", "b", "c"].map(|name| node(name, "ssd", None)).to_vec();
    let pods: Vec<_> = ["a", "b", "c"].map(|name| pod(name, "old")).to_vec();
    let after = |strategy: Value| words(&world(set(strategy), &nodes, &pods));
    assert_eq!(after(rolling(0, 1)), ["delete d-a-old"]);
    assert_eq!(after(rolling(0, 2)), ["delete d-a-old", "delete d-b-old"]);
    assert_eq!(after(rolling(1, 0)), ["create a"], "a new one comes first");
    assert!(after(value!({"type": "OnDelete"})).is_empty());
    let both = [pods[0].clone(), pod("a", &current_hash()), pods[1].clone(), pods[2].clone()];
    assert_eq!(words(&world(set(rolling(1, 0)), &nodes, &both)), ["delete d-a-old"], "the new one works");
}
