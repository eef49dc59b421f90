//! The controllers on a clock that the test moves: what takes minutes or days in a cluster, in seconds, with every
//! time exact.

use std::time::Duration;

use corten_api::{Value, meta, value};
use corten_client::kinds;
use corten_testkit::Cluster;

const NAMESPACE: &str = "default";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    value!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "minReadySeconds": 30,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

fn is_rolled_out(cluster: &Cluster, name: &str, replicas: i64) -> bool {
    let Some(object) = cluster.get(&kinds::DEPLOYMENTS, NAMESPACE, name) else { return false };
    let status = |count: &str| object.int_at(&["status", count]).unwrap_or(0);
    status("observedGeneration") == object.int_at(&["metadata", "generation"]).unwrap_or(0)
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status(count) == replicas)
}

#[test]
fn a_rollout_takes_as_long_as_its_pods_have_to_be_ready() {
    let cluster = Cluster::with_nodes(2);
    cluster.create(&kinds::DEPLOYMENTS, &deployment("web", 3, "registry.example/web:1"));
    let took = cluster.until("three replicas", seconds(600), |cluster| is_rolled_out(cluster, "web", 3));
    assert_eq!(took, seconds(30), "all at once, then ready for as long as it asks");
    let newer = value!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "registry.example/web:2"},
    ]}}}});
    cluster.patch(&kinds::DEPLOYMENTS, NAMESPACE, "web", newer);
    let took = cluster.until("the new image", seconds(600), |cluster| is_rolled_out(cluster, "web", 3));
    assert_eq!(took, seconds(90), "one more than wanted at a time");
    cluster.advance(seconds(3600));
    assert!(is_rolled_out(&cluster, "web", 3));
    assert_eq!(cluster.list(&kinds::PODS, NAMESPACE).len(), 3);
}

#[test]
fn a_rollout_that_gets_nowhere_says_so_after_ten_minutes() {
    let cluster = Cluster::with_nodes(0);
    cluster.create(&kinds::DEPLOYMENTS, &deployment("web", 1, "registry.example/web:1"));
    let says_so = |cluster: &Cluster| {
        let object = cluster.get(&kinds::DEPLOYMENTS, NAMESPACE, "web").unwrap_or_default();
        let conditions = object.items_at(&["status", "conditions"]);
        conditions.iter().any(|c| c.str_at(&["reason"]) == Some("ProgressDeadlineExceeded"))
    };
    let took = cluster.until("the deadline", seconds(3600), says_so);
    assert!((600..=601).contains(&took.as_secs()), "{took:?}");
}

/// The nodes of pods that are not being deleted.
fn placed(cluster: &Cluster) -> Vec<String> {
    let pods = cluster.list(&kinds::PODS, NAMESPACE);
    let kept = pods.iter().filter(|pod| !meta::is_deleting(pod));
    kept.map(|pod| pod.str_at(&["spec", "nodeName"]).unwrap_or_default().to_owned()).collect()
}

fn is_unreachable(cluster: &Cluster, node: &str) -> bool {
    let node = cluster.get(&kinds::NODES, "", node).unwrap_or_default();
    let taints = node.items_at(&["spec", "taints"]);
    taints.iter().any(|taint| {
        taint.str_at(&["key"]) == Some("node.kubernetes.io/unreachable")
            && taint.str_at(&["effect"]) == Some("NoExecute")
    })
}

/// How long it takes until a dead node is known to be one, and until its pods are elsewhere.
fn node_death() -> (Duration, Duration) {
    let cluster = Cluster::with_nodes(2);
    cluster.create(&kinds::DEPLOYMENTS, &deployment("web", 4, "registry.example/web:1"));
    cluster.until("four replicas", seconds(600), |cluster| is_rolled_out(cluster, "web", 4));
    assert_eq!(placed(&cluster).iter().filter(|node| *node == "simulated-1").count(), 2);
    cluster.unplug("simulated-1");
    let known = cluster.until("a taint", seconds(600), |cluster| is_unreachable(cluster, "simulated-1"));
    let moved = cluster.until("new pods", seconds(600), |cluster| {
        let placed = placed(cluster);
        placed.len() == 4 && placed.iter().all(|node| node == "simulated-0")
    });
    (known, moved)
}

#[test]
fn pods_of_a_dead_node_go_elsewhere_after_five_minutes() {
    let (known, moved) = node_death();
    assert!((40..=60).contains(&known.as_secs()), "silent for as long as nodes may be: {known:?}");
    assert!((300..=310).contains(&moved.as_secs()), "tolerated for five minutes: {moved:?}");
    assert_eq!(node_death(), (known, moved), "it always goes the same way");
}

#[test]
fn when_every_node_is_silent_nobody_is_evicted() {
    let cluster = Cluster::with_nodes(3);
    cluster.create(&kinds::DEPLOYMENTS, &deployment("web", 3, "registry.example/web:1"));
    cluster.until("three replicas", seconds(600), |cluster| is_rolled_out(cluster, "web", 3));
    for node in 0..3 {
        cluster.unplug(&format!("simulated-{node}"));
    }
    cluster.advance(seconds(3600));
    assert_eq!(placed(&cluster).len(), 3, "it is more likely that we are cut off");
}

#[test]
fn a_finished_job_is_kept_as_long_as_it_asks_for() {
    let cluster = Cluster::with_nodes(1);
    let job = value!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "once", "namespace": NAMESPACE},
        "spec": {
            "ttlSecondsAfterFinished": 7200,
            "template": {"spec": {
                "restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/job:1"}],
            }},
        },
    });
    cluster.create(&kinds::JOBS, &job);
    let is_complete = |cluster: &Cluster| {
        let job = cluster.get(&kinds::JOBS, NAMESPACE, "once").unwrap_or_default();
        job.int_at(&["status", "succeeded"]) == Some(1) && job.at(&["status", "completionTime"]).is_some()
    };
    let ran = cluster.until("the job is done", seconds(60), is_complete);
    assert!(ran.as_secs() <= 3, "{ran:?}");
    let gone = |cluster: &Cluster| cluster.get(&kinds::JOBS, NAMESPACE, "once").is_none();
    let kept = cluster.until("the job is gone", seconds(10_000), gone);
    assert!((7199..=7201).contains(&kept.as_secs()), "{kept:?}");
    cluster.settle();
    assert!(cluster.list(&kinds::PODS, NAMESPACE).is_empty(), "its pods go with it");
}
