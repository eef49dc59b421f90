//! Tests of the daemon set controller: eligible nodes and rolling updates.

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

/// The actions on pods, by node.
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

/// The same pod in another phase, created some seconds ago.
fn in_phase(mut pod: Value, phase: &str, age: i64) -> Value {
    pod.set(&["status", "phase"], phase);
    pod.set(&["metadata", "creationTimestamp"], at_text(-age));
    pod
}

/// The same pod, not ready.
fn broken(mut pod: Value) -> Value {
    pod.remove(&["status", "conditions"]);
    pod
}

fn renamed(mut pod: Value, name: &str) -> Value {
    pod.set(&["metadata", "name"], name);
    pod.set(&["metadata", "uid"], name);
    pod
}

fn three_nodes() -> Vec<Value> {
    ["a", "b", "c"].map(|name| node(name, "ssd", None)).to_vec()
}

fn plan(world: &World) -> Plan {
    DaemonSets.plan(&Key::new("default", "d"), world, at(0))
}

#[test]
fn pods_that_ended_are_replaced() {
    let hash = current_hash();
    let on_a = |phase: &str, age: i64| {
        let pods = [in_phase(pod("a", &hash), phase, age)];
        let plan = plan(&world(set(rolling(0, 1)), &three_nodes()[..1], &pods));
        let deleted = plan.actions().filter(|action| matches!(action, Action::Delete { .. })).count();
        let events: Vec<_> = plan.events.iter().map(|event| event.reason.to_string()).collect();
        (deleted, events.join(","), plan.requeue_after)
    };
    assert_eq!(on_a("Running", 100), (0, String::new(), None));
    assert_eq!(on_a("Succeeded", 1), (1, "SucceededDaemonPod".to_owned(), None));
    assert_eq!(on_a("Failed", 100), (1, "FailedDaemonPod".to_owned(), None));
    let later = Some(Duration::from_secs(50));
    assert_eq!(on_a("Failed", 10), (0, String::new(), later), "a pod that always fails causes no hot loop");
}

#[test]
fn the_oldest_of_several_pods_on_a_node_stays() {
    let hash = current_hash();
    let younger = renamed(in_phase(pod("a", &hash), "Running", 10), "younger");
    let mut unbound = renamed(in_phase(pod("a", &hash), "Pending", 5000), "unbound");
    let here = value!({"key": "metadata.name", "operator": "In", "values": ["a"]});
    let affinity = value!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [{"matchFields": [(here)]}]}});
    unbound.set(&["spec"], value!({"affinity": {"nodeAffinity": (affinity)}}));
    let pods = [younger, pod("a", &hash), unbound.clone()];
    let world_of = |nodes: &[Value], pods: &[Value]| words(&world(set(rolling(0, 1)), nodes, pods));
    assert_eq!(world_of(&three_nodes()[..1], &pods), ["delete younger", "delete unbound"]);
    let lost = [pod("gone", &hash), unbound];
    assert_eq!(world_of(&[], &lost), ["delete unbound"], "what is bound goes with its node");
}

#[test]
fn unavailable_pods_are_replaced_first_and_count_as_unavailable() {
    let (hash, nodes) = (current_hash(), three_nodes());
    let after = |strategy: Value, pods: &[Value]| words(&world(set(strategy), &nodes, pods));
    let old = |name: &str| pod(name, "old");
    let new = |name: &str| pod(name, &hash);
    let one_broken = [old("a"), old("b"), broken(old("c"))];
    assert_eq!(after(rolling(0, 1), &one_broken), ["delete d-c-old"]);
    assert_eq!(after(rolling(0, 2), &one_broken), ["delete d-c-old", "delete d-a-old"]);
    let all_broken = [broken(old("a")), broken(old("b")), broken(old("c"))];
    assert_eq!(after(rolling(0, 1), &all_broken).len(), 3, "they are unavailable anyway");
    let starting = [broken(new("a")), old("b"), old("c")];
    assert!(after(rolling(0, 1), &starting).is_empty(), "the new one is not there yet");
    assert_eq!(after(rolling(0, 2), &starting), ["delete d-b-old"]);
    assert!(after(rolling(0, 3), &[new("a"), new("b"), new("c")]).is_empty());
}

#[test]
fn limits_may_be_shares() {
    let (nodes, pods) = (three_nodes(), ["a", "b", "c"].map(|name| pod(name, "old")));
    let deleted = |unavailable: &str| {
        let limits = value!({"maxSurge": 0, "maxUnavailable": (unavailable)});
        let strategy = value!({"type": "RollingUpdate", "rollingUpdate": (limits)});
        words(&world(set(strategy), &nodes, &pods)).len()
    };
    assert_eq!([deleted("1%"), deleted("34%"), deleted("100%")], [1, 2, 3], "rounded up");
}

#[test]
fn while_surging_old_pods_go_when_new_ones_work() {
    let (hash, nodes) = (current_hash(), three_nodes());
    let after = |surge: i64, pods: &[Value]| words(&world(set(rolling(surge, 0)), &nodes, pods));
    let old = |name: &str| pod(name, "old");
    let new = |name: &str| pod(name, &hash);
    let starting = [old("a"), broken(new("a")), old("b"), old("c")];
    assert!(after(1, &starting).is_empty(), "one is on its way");
    assert_eq!(after(2, &starting), ["create b"]);
    let one_broken = [old("a"), broken(new("a")), broken(old("b")), old("c")];
    assert_eq!(after(1, &one_broken), ["create b"], "there is nothing to lose");
    assert_eq!(after(1, &[broken(old("a")), broken(new("a")), new("b"), new("c")]), ["delete d-a-old"]);
}

#[test]
fn daemon_pods_tolerate_node_conditions() {
    let befallen = |key: &str, effect: &str| {
        let taint = value!({"key": (format!("node.kubernetes.io/{key}")), "effect": (effect)});
        value!({"metadata": {"name": (key), "labels": {"disk": "ssd"}}, "spec": {"taints": [(taint)]}})
    };
    let nodes = [
        befallen("not-ready", "NoExecute"),
        befallen("unreachable", "NoExecute"),
        befallen("disk-pressure", "NoSchedule"),
        befallen("memory-pressure", "NoSchedule"),
        befallen("pid-pressure", "NoSchedule"),
        befallen("unschedulable", "NoSchedule"),
        befallen("network-unavailable", "NoSchedule"),
    ];
    assert_eq!(words(&world(set(rolling(0, 1)), &nodes, &[])).len(), 6);
    let mut on_host = set(rolling(0, 1));
    on_host.set(&["spec", "template", "spec", "hostNetwork"], true);
    assert_eq!(words(&world(on_host, &nodes, &[])).len(), 7, "who needs no network waits for none");
}

#[test]
fn a_pod_says_where_it_belongs() {
    let mut set = set(rolling(0, 1));
    set.set(&["metadata", "annotations", "deprecated.daemonset.template.generation"], "4");
    let pod = template::pod(&set, "h", "a");
    assert_eq!(template::node_of(&Pod::from(cached(&pod))).as_deref(), Some("a"));
    assert_eq!(pod.str_at(&["metadata", "labels", "controller-revision-hash"]), Some("h"));
    assert_eq!(pod.str_at(&["metadata", "labels", "pod-template-generation"]), Some("4"));
    assert_eq!(pod.str_at(&["spec", "nodeName"]), None, "the scheduler binds it");
    let pod = Pod::from(cached(&pod));
    assert!(template::is_updated(&pod, &set, "another"), "by its generation");
    set.set(&["metadata", "annotations", "deprecated.daemonset.template.generation"], "5");
    assert!(!template::is_updated(&pod, &set, "another"));
}

#[test]
fn large_clusters_are_filled_in_bursts() {
    let nodes: Vec<_> = (0..300).map(|index| node(&format!("n{index}"), "ssd", None)).collect();
    assert_eq!(words(&world(set(rolling(0, 1)), &nodes, &[])).len(), BURST);
}

#[test]
fn a_set_that_goes_does_nothing() {
    let mut going = set(rolling(0, 1));
    going.set(&["metadata", "deletionTimestamp"], at_text(0));
    assert_eq!(plan(&world(going, &three_nodes(), &[])).actions().count(), 0);
}

#[test]
fn the_status_follows_and_collisions_are_counted() {
    let (key, nodes) = (Key::new("default", "d"), three_nodes());
    let mut slow = set(rolling(0, 1));
    slow.set(&["spec", "minReadySeconds"], 600);
    let world = world(slow, &nodes, &[pod("a", &current_hash()), pod("b", "old")]);
    let planned = plan(&world);
    let concluded = DaemonSets.conclude(&key, &world, &crate::testing::done(&planned), at(0));
    let [Action::Update { object, subresource: "status", .. }] = concluded.actions().collect::<Vec<_>>()[..]
    else {
        panic!("{concluded:?}")
    };
    let count = |name: &str| object.int_at(&["status", name]);
    assert_eq!(count("desiredNumberScheduled"), Some(3));
    assert_eq!((count("currentNumberScheduled"), count("numberReady")), (Some(2), Some(2)));
    assert_eq!((count("updatedNumberScheduled"), count("observedGeneration")), (Some(1), Some(1)));
    assert_eq!((count("numberAvailable"), count("numberUnavailable")), (None, Some(3)));
    assert_eq!(concluded.requeue_after, Some(Duration::from_secs(100)), "when they are available");
    let taken = corten_api::Status::already_exists("apps", "controllerrevisions", "d-x");
    let collided = DaemonSets.conclude(&key, &world, &crate::testing::failed(&planned, taken), at(0));
    let [Action::Update { object, .. }] = collided.actions().collect::<Vec<_>>()[..] else {
        panic!("{collided:?}")
    };
    assert_eq!(object.int_at(&["status", "collisionCount"]), Some(1));
}
