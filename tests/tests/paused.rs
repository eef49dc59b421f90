//! The controllers on a clock that the test moves: what takes minutes or days in a cluster, in seconds, with every
//! time exact.

use std::time::Duration;

use corten_api::{Value, value};
use corten_client::{DeleteOptions, Key, Kind, Patch, kinds};
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

#[test]
fn a_volume_is_taken_from_a_dead_node_after_six_minutes() {
    let cluster = Cluster::with_nodes(1);
    let managed = value!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    cluster.patch(&kinds::NODES, "", "simulated-0", value!({"metadata": {"annotations": managed}}));
    let object = |kind: &Kind, name: &str, spec: Value| {
        let mut object = kind.new_object(NAMESPACE, name);
        object.set(&["spec"], spec);
        cluster.create(kind, &object);
    };
    let volume = value!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"],
        "csi": {"driver": "disk.example.com", "volumeHandle": "h"},
    });
    let claim = value!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}});
    let pod = value!({
        "nodeName": "simulated-0", "containers": [{"name": "main", "image": "registry.example/app:1"}],
        "volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    });
    object(&kinds::PERSISTENT_VOLUMES, "disk", volume);
    object(&kinds::PERSISTENT_VOLUME_CLAIMS, "data", claim);
    object(&kinds::PODS, "app", pod);
    let attachments = |cluster: &Cluster| cluster.list(&kinds::VOLUME_ATTACHMENTS, "").len();
    cluster.until("it is to be attached", seconds(10), |cluster| attachments(cluster) == 1);
    let mounted =
        Patch::Merge(value!({"status": {"volumesInUse": ["kubernetes.io/csi/disk.example.com^h"]}}));
    let node = Key::new("", "simulated-0");
    cluster.ask(cluster.client().patch(&kinds::NODES, &node, &mounted, "status")).unwrap();
    cluster.unplug("simulated-0");
    let at_once = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
    cluster.ask(cluster.client().delete(&kinds::PODS, &Key::new(NAMESPACE, "app"), &at_once)).unwrap();
    let took = cluster.until("it is detached", seconds(3600), |cluster| attachments(cluster) == 0);
    assert_eq!(took, seconds(360));
}
