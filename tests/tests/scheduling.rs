//! The scheduler in a whole cluster, on a clock that the test moves: conditions and events that users see.

use std::time::Duration;

use corten_api::{Value, meta, value};
use corten_client::kinds;
use corten_testkit::Cluster;

const NAMESPACE: &str = "default";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn pod(name: &str, cpu: &str) -> Value {
    let container =
        value!({"name": "main", "image": "registry.example/app:1", "resources": {"requests": {"cpu": cpu}}});
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"app": "web"}},
        "spec": {"containers": [(container)], "terminationGracePeriodSeconds": 5},
    })
}

fn node_of(cluster: &Cluster, name: &str) -> String {
    let pod = cluster.get(&kinds::PODS, NAMESPACE, name).unwrap_or_default();
    pod.str_at(&["spec", "nodeName"]).unwrap_or_default().to_owned()
}

/// Reason and message of a pod's condition.
fn condition_of(cluster: &Cluster, name: &str, kind: &str) -> (String, String) {
    let pod = cluster.get(&kinds::PODS, NAMESPACE, name).unwrap_or_default();
    let conditions = pod.items_at(&["status", "conditions"]);
    let condition =
        conditions.iter().find(|c| c.str_at(&["type"]) == Some(kind)).cloned().unwrap_or_default();
    let text = |key: &str| condition.str_at(&[key]).unwrap_or_default().to_owned();
    (text("reason"), text("message"))
}

fn events(cluster: &Cluster, about: &str, reason: &str) -> Vec<String> {
    let all = cluster.list(&kinds::EVENTS, NAMESPACE);
    let ours = all.iter().filter(|event| {
        event.str_at(&["involvedObject", "name"]) == Some(about) && event.str_at(&["reason"]) == Some(reason)
    });
    ours.filter_map(|event| event.str_at(&["message"])).map(str::to_owned).collect()
}

#[test]
fn an_unschedulable_pod_reports_why_and_is_retried() {
    let cluster = Cluster::with_nodes(2);
    cluster.create(&kinds::PODS, &pod("huge", "64"));
    cluster.settle();
    let message = "0/2 nodes are available: 2 Insufficient cpu. no new claims to deallocate, preemption: \
                   0/2 nodes are available: 2 Preemption is not helpful for scheduling.";
    assert_eq!(
        condition_of(&cluster, "huge", "PodScheduled"),
        ("Unschedulable".to_owned(), message.to_owned())
    );
    assert_eq!(events(&cluster, "huge", "FailedScheduling"), [message]);
    cluster.create(&kinds::PODS, &pod("small", "1"));
    cluster.settle();
    let node = node_of(&cluster, "small");
    assert!(node.starts_with("simulated-"), "{node:?}");
    assert_eq!(
        events(&cluster, "small", "Scheduled"),
        [format!("Successfully assigned default/small to {node}")]
    );
}

#[test]
fn cordoned_nodes_get_no_pods_until_they_are_uncordoned() {
    let cluster = Cluster::with_nodes(1);
    cluster.patch(&kinds::NODES, "", "simulated-0", value!({"spec": {"unschedulable": true}}));
    cluster.create(&kinds::PODS, &pod("web", "1"));
    cluster.advance(seconds(30));
    assert_eq!(node_of(&cluster, "web"), "");
    cluster.patch(&kinds::NODES, "", "simulated-0", value!({"spec": {"unschedulable": null}}));
    let scheduled = |cluster: &Cluster| node_of(cluster, "web") == "simulated-0";
    assert!(cluster.until("a node", seconds(60), scheduled) <= seconds(10));
}

#[test]
fn pods_with_anti_affinity_are_spread() {
    let cluster = Cluster::with_nodes(2);
    let term =
        value!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"});
    let affinity = value!({"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [(term)]}});
    for name in ["one", "two", "three"] {
        let mut pod = pod(name, "1");
        pod.set(&["spec", "affinity"], affinity.clone());
        cluster.create(&kinds::PODS, &pod);
        cluster.settle();
    }
    assert_ne!(node_of(&cluster, "one"), node_of(&cluster, "two"));
    assert_eq!(node_of(&cluster, "three"), "");
    let message = condition_of(&cluster, "three", "PodScheduled").1;
    assert!(
        message.starts_with("0/2 nodes are available: 2 node(s) didn't match pod anti-affinity rules."),
        "{message}"
    );
    let room = node_of(&cluster, "one");
    cluster.delete(&kinds::PODS, NAMESPACE, "one");
    cluster.until("the place of the one that left", seconds(60), |cluster| node_of(cluster, "three") == room);
}

#[test]
fn pods_with_priority_preempt_others() {
    let cluster = Cluster::with_nodes(1);
    let class = value!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
        "metadata": {"name": "important"}, "value": 1000});
    cluster.create(&kinds::PRIORITY_CLASSES, &class);
    cluster.create(&kinds::PODS, &pod("lesser", "20"));
    cluster.settle();
    assert_eq!(node_of(&cluster, "lesser"), "simulated-0");
    let mut important = pod("important", "20");
    important.set(&["spec", "priorityClassName"], "important");
    let important = cluster.create(&kinds::PODS, &important);
    let scheduled = |cluster: &Cluster| node_of(cluster, "important") == "simulated-0";
    cluster.until("the place of the other", seconds(60), scheduled);
    assert!(cluster.get(&kinds::PODS, NAMESPACE, "lesser").is_none());
    let message = format!("Preempted by pod {} on node simulated-0", meta::uid(&important));
    assert_eq!(events(&cluster, "lesser", "Preempted"), [message]);
}

#[test]
fn gated_pods_are_not_tried() {
    let cluster = Cluster::with_nodes(1);
    let mut gated = pod("gated", "1");
    gated.set(&["spec", "schedulingGates"], value!([{"name": "example.com/wait"}]));
    cluster.create(&kinds::PODS, &gated);
    cluster.advance(seconds(60));
    assert_eq!(node_of(&cluster, "gated"), "");
    assert!(events(&cluster, "gated", "FailedScheduling").is_empty());
    cluster.patch(&kinds::PODS, NAMESPACE, "gated", value!({"spec": {"schedulingGates": null}}));
    cluster.until("a node", seconds(10), |cluster| node_of(cluster, "gated") == "simulated-0");
}
