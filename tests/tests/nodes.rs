//! The node lifecycle: nodes become unreachable and return, are cordoned and tainted, and get their
//! pod CIDRs. On a clock that the test moves.

use std::time::Duration;

use corten_api::{Str, Value, value};
use corten_client::kinds;
use corten_controllers::{MaskSizes, NodeIpamOptions, Options};
use corten_testkit::{Cluster, ClusterOptions};

const NAMESPACE: &str = "default";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// Pods that tolerate an unreachable node for so many seconds, or for the default time.
fn deployment(replicas: i64, patience: Option<i64>) -> Value {
    let mut spec = value!({"containers": [{"name": "main", "image": "registry.example/web:1"}]});
    if let Some(patience) = patience {
        spec.set(
            &["tolerations"],
            value!([{
                "key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": patience,
            }]),
        );
    }
    value!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": (spec)},
        },
    })
}

fn node(cluster: &Cluster, name: &str) -> Value {
    cluster.get(&kinds::NODES, "", name).unwrap_or_default()
}

fn condition<'a>(object: &'a Value, kind: &str, field: &str) -> &'a str {
    let conditions = object.items_at(&["status", "conditions"]);
    let found = conditions.iter().find(|condition| condition.str_at(&["type"]) == Some(kind));
    found.and_then(|condition| condition.str_at(&[field])).unwrap_or_default()
}

fn ready(cluster: &Cluster, name: &str) -> String {
    condition(&node(cluster, name), "Ready", "status").to_owned()
}

/// A node's taints, as `kubectl taint` writes them.
fn taints(cluster: &Cluster, name: &str) -> Vec<String> {
    let node = node(cluster, name);
    let text = |taint: &Value, key: &str| taint.str_at(&[key]).unwrap_or_default().to_owned();
    let taints = node.items_at(&["spec", "taints"]).iter();
    taints.map(|taint| format!("{}:{}", text(taint, "key"), text(taint, "effect"))).collect()
}

/// The number of nodes with a NoExecute taint.
fn tainted(cluster: &Cluster) -> usize {
    let nodes = cluster.list(&kinds::NODES, "");
    let ends = |taint: &Value| taint.str_at(&["effect"]) == Some("NoExecute");
    nodes.iter().filter(|node| node.items_at(&["spec", "taints"]).iter().any(ends)).count()
}

fn pods_on(cluster: &Cluster, name: &str) -> Vec<Value> {
    let mut pods = cluster.list(&kinds::PODS, NAMESPACE);
    pods.retain(|pod| pod.str_at(&["spec", "nodeName"]) == Some(name));
    pods
}

fn is_going(pod: &Value) -> bool {
    pod.at(&["metadata", "deletionTimestamp"]).is_some()
}

/// The messages of all events with a reason.
fn events_with_reason(cluster: &Cluster, reason: &str) -> Vec<String> {
    let mut events = cluster.list(&kinds::EVENTS, NAMESPACE);
    events.retain(|event| event.str_at(&["reason"]) == Some(reason));
    events.iter().map(|event| event.str_at(&["message"]).unwrap_or_default().to_owned()).collect()
}

fn plug_in(cluster: &Cluster, name: &str) {
    let annotations = value!({"simulator.corten.dev/unplugged": null});
    cluster.patch(&kinds::NODES, "", name, value!({"metadata": {"annotations": (annotations)}}));
}

#[test]
fn a_cordon_is_a_taint() {
    let cluster = Cluster::with_nodes(1);
    cluster.until("the node is ready", seconds(60), |cluster| taints(cluster, "simulated-0").is_empty());
    cluster.patch(&kinds::NODES, "", "simulated-0", value!({"spec": {"unschedulable": true}}));
    cluster.settle();
    assert_eq!(taints(&cluster, "simulated-0"), ["node.kubernetes.io/unschedulable:NoSchedule"]);
    cluster.patch(&kinds::NODES, "", "simulated-0", value!({"spec": {"unschedulable": null}}));
    cluster.settle();
    assert!(taints(&cluster, "simulated-0").is_empty());
}

#[test]
fn an_unreachable_node_loses_its_pods_and_recovers() {
    let cluster = Cluster::with_nodes(3);
    cluster.create(&kinds::DEPLOYMENTS, &deployment(6, None));
    cluster.until("the pods run", seconds(60), |cluster| {
        (0..3).all(|node| pods_on(cluster, &format!("simulated-{node}")).len() == 2)
    });
    cluster.advance(seconds(60));
    cluster.unplug("simulated-0");
    let silent = |cluster: &Cluster| ready(cluster, "simulated-0") == "Unknown";
    let took = cluster.until("the node is unreachable", seconds(600), silent);
    assert!((40..=60).contains(&took.as_secs()), "{took:?}");
    assert_eq!(condition(&node(&cluster, "simulated-0"), "Ready", "reason"), "NodeStatusUnknown");
    assert_eq!(condition(&node(&cluster, "simulated-0"), "PIDPressure", "status"), "Unknown");
    cluster.until("it is tainted", seconds(1), |cluster| tainted(cluster) == 1);
    assert_eq!(
        taints(&cluster, "simulated-0"),
        [format!("{UNREACHABLE}:NoSchedule"), format!("{UNREACHABLE}:NoExecute")]
    );
    assert_eq!(events_with_reason(&cluster, "NodeNotReady").len(), 3, "of the node and of two pods");
    let lost = pods_on(&cluster, "simulated-0");
    assert!(lost.iter().all(|pod| condition(pod, "Ready", "status") == "False" && !is_going(pod)));

    let gone = |cluster: &Cluster| pods_on(cluster, "simulated-0").iter().all(is_going);
    let took = cluster.until("its pods are to go", seconds(600), gone);
    assert_eq!(took, seconds(300), "the patience that every pod has");
    cluster.settle();
    let lost = pods_on(&cluster, "simulated-0");
    assert_eq!(lost.len(), 2, "no kubelet terminates them");
    assert!(lost.iter().all(|pod| condition(pod, "DisruptionTarget", "reason") == "DeletionByTaintManager"));
    let elsewhere = pods_on(&cluster, "simulated-1").len() + pods_on(&cluster, "simulated-2").len();
    assert_eq!(elsewhere, 6, "others took their place");

    plug_in(&cluster, "simulated-0");
    cluster.until("it is back", seconds(60), |cluster| taints(cluster, "simulated-0").is_empty());
    assert_eq!(ready(&cluster, "simulated-0"), "True");
    cluster.advance(seconds(60));
    assert_eq!(pods_on(&cluster, "simulated-0").len(), 0, "it has ended what was to go");
}

#[test]
fn a_node_that_returns_in_time_keeps_its_pods() {
    let cluster = Cluster::with_nodes(2);
    cluster.create(&kinds::DEPLOYMENTS, &deployment(2, Some(100)));
    cluster.advance(seconds(60));
    let before = pods_on(&cluster, "simulated-0");
    cluster.unplug("simulated-0");
    cluster.until("it is tainted", seconds(100), |cluster| tainted(cluster) == 1);
    plug_in(&cluster, "simulated-0");
    cluster.advance(seconds(600));
    let names = |pods: &[Value]| -> Vec<Str> {
        pods.iter().filter_map(|pod| pod.str_at(&["metadata", "name"])).map(Str::new).collect()
    };
    let after = pods_on(&cluster, "simulated-0");
    assert_eq!(names(&after), names(&before));
    assert!(after.iter().all(|pod| condition(pod, "Ready", "status") == "True"));
    let cancelled = format!("Cancelling deletion of Pod {NAMESPACE}/{}", names(&before)[0]);
    assert_eq!(events_with_reason(&cluster, "TaintManagerEviction"), [cancelled]);
}

#[test]
fn nodes_are_tainted_one_after_another() {
    let cluster = Cluster::with_nodes(8);
    cluster.advance(seconds(30));
    (0..3).for_each(|node| cluster.unplug(&format!("simulated-{node}")));
    cluster.until("the first", seconds(100), |cluster| tainted(cluster) == 1);
    let second = cluster.until("the second", seconds(60), |cluster| tainted(cluster) == 2);
    let third = cluster.until("the third", seconds(60), |cluster| tainted(cluster) == 3);
    // A write conflict is retried shortly after.
    assert_eq!([second, third].map(|took| took.as_secs_f64().round()), [10.0, 10.0]);
}

#[test]
fn no_node_is_tainted_in_a_disrupted_zone() {
    let cluster = Cluster::with_nodes(4);
    cluster.advance(seconds(30));
    (0..3).for_each(|node| cluster.unplug(&format!("simulated-{node}")));
    cluster.advance(seconds(300));
    assert_eq!(ready(&cluster, "simulated-0"), "Unknown");
    assert_eq!(tainted(&cluster), 0, "most of a small zone");
    cluster.unplug("simulated-3");
    cluster.advance(seconds(300));
    assert_eq!(ready(&cluster, "simulated-3"), "Unknown");
    assert_eq!(tainted(&cluster), 0, "all of them");
}

#[test]
fn a_node_without_heartbeats_is_unknown_after_a_minute() {
    let cluster = Cluster::with_nodes(1);
    cluster
        .create(&kinds::NODES, &value!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": "mute"}}));
    let took = cluster.until("it is unknown", seconds(600), |cluster| ready(cluster, "mute") == "Unknown");
    assert!((60..=66).contains(&took.as_secs()), "{took:?}");
    let mute = node(&cluster, "mute");
    assert_eq!(condition(&mute, "Ready", "reason"), "NodeStatusNeverUpdated");
    assert_eq!(condition(&mute, "DiskPressure", "message"), "Kubelet never posted node status.");
    cluster.delete(&kinds::NODES, "", "mute");
    cluster.advance(seconds(10));
    assert_eq!(
        events_with_reason(&cluster, "RemovingNode"),
        ["Node mute event: Removing Node mute from Controller"]
    );
}

#[test]
fn the_pods_of_an_out_of_service_node_are_force_deleted() {
    let cluster = Cluster::with_nodes(2);
    cluster.create(&kinds::DEPLOYMENTS, &deployment(2, None));
    cluster.advance(seconds(60));
    cluster.unplug("simulated-0");
    cluster.until("it is unknown", seconds(100), |cluster| ready(cluster, "simulated-0") == "Unknown");
    let out = value!([{"key": "node.kubernetes.io/out-of-service", "value": "nodeshutdown", "effect": "NoExecute"}]);
    cluster.patch(&kinds::NODES, "", "simulated-0", value!({"spec": {"taints": (out)}}));
    cluster.until("its pod is gone", seconds(60), |cluster| pods_on(cluster, "simulated-0").is_empty());
}

#[test]
fn nodes_share_the_addresses_of_pods() {
    let node_ipam = NodeIpamOptions::new("10.96.0.0/22", MaskSizes::default(), "10.96.0.0/23").ok();
    let controllers = Options { node_ipam, ..Options::default() };
    let cluster =
        Cluster::start(ClusterOptions { controllers, simulated_nodes: 3, ..ClusterOptions::default() });
    cluster.advance(seconds(20));
    let part = |name: &str| node(&cluster, name).str_at(&["spec", "podCIDR"]).unwrap_or_default().to_owned();
    assert_eq!(
        (part("simulated-0"), part("simulated-1")),
        ("10.96.2.0/24".to_owned(), "10.96.3.0/24".to_owned())
    );
    assert_eq!(part("simulated-2"), "", "there are no more");
    assert_eq!(
        events_with_reason(&cluster, "CIDRNotAvailable"),
        ["Node simulated-2 status is now: CIDRNotAvailable"]
    );
    cluster.delete(&kinds::NODES, "", "simulated-0");
    cluster
        .until("what is free is given out again", seconds(2000), |_| part("simulated-2") == "10.96.2.0/24");
}

#[test]
fn large_clusters_may_keep_secrets_for_longer() {
    let cluster = Cluster::with_nodes(101);
    let ttl = |name: &str| {
        let path = ["metadata", "annotations", "node.alpha.kubernetes.io/ttl"];
        node(&cluster, name).str_at(&path).unwrap_or_default().to_owned()
    };
    cluster.advance(seconds(1));
    assert_eq!((ttl("simulated-0"), ttl("simulated-100")), ("15".to_owned(), "15".to_owned()));
    (0..12).for_each(|node| cluster.delete(&kinds::NODES, "", &format!("simulated-{node}")));
    cluster.advance(seconds(1));
    assert_eq!(ttl("simulated-100"), "0");
}

#[test]
fn a_namespace_is_deleted_once_its_pods_are() {
    let cluster = Cluster::with_nodes(2);
    cluster.create(
        &kinds::NAMESPACES,
        &value!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}}),
    );
    cluster.settle();
    let mut web = deployment(10, None);
    web.set(&["metadata", "namespace"], "team");
    cluster.create(&kinds::DEPLOYMENTS, &web);
    cluster.advance(seconds(10));
    assert_eq!(cluster.list(&kinds::PODS, "team").len(), 10);
    cluster.delete(&kinds::NAMESPACES, "", "team");
    let gone = |cluster: &Cluster| cluster.get(&kinds::NAMESPACES, "", "team").is_none();
    let took = cluster.until("it is gone", seconds(60), gone);
    assert!((5..=6).contains(&took.as_secs()), "late writes have five seconds to arrive: {took:?}");
}
