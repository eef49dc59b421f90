//! Volumes and claims on simulated nodes: bound, provisioned, protected, attached, released.

use std::time::Duration;

use corten_api::value;
use corten_client::{DeleteOptions, Key, Kind, Patch, kinds};
use corten_e2e::eventually;
use corten_testkit::{Client, Cluster, Server};
use serde_json::{Value, json};

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";
const VOLUMES: &str = "/api/v1/persistentvolumes";
const PODS: &str = "/api/v1/namespaces/default/pods";
const ATTACHMENTS: &str = "/apis/storage.k8s.io/v1/volumeattachments";

fn cluster() -> Server {
    Server::start_with(&["--simulated-nodes", "2"])
}

fn volume(client: &Client, name: &str, size: &str, source: &Value) {
    let mut spec = json!({
        "capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], "storageClassName": "shelf",
    });
    for (key, value) in source.as_object().into_iter().flatten() {
        spec[key] = value.clone();
    }
    client.post(VOLUMES, &json!({"metadata": {"name": name}, "spec": spec})).expect_status(201);
}

fn claim(client: &Client, name: &str, class: &str) {
    let spec = json!({
        "accessModes": ["ReadWriteOnce"], "storageClassName": class, "resources": {"requests": {"storage": "1Gi"}},
    });
    client.post(CLAIMS, &json!({"metadata": {"name": name}, "spec": spec})).expect_status(201);
}

fn pod(client: &Client, name: &str, node: &str, volume: &Value) {
    let spec = json!({
        "nodeName": node, "terminationGracePeriodSeconds": 0, "volumes": [volume],
        "containers": [{"name": "main", "image": "registry.example/app:1"}],
    });
    client.post(PODS, &json!({"metadata": {"name": name}, "spec": spec})).expect_status(201);
}

fn uses(claim: &str) -> Value {
    json!({"name": "data", "persistentVolumeClaim": {"claimName": claim}})
}

fn phase(client: &Client, collection: &str, name: &str) -> Value {
    client.get(format!("{collection}/{name}")).expect(200)["status"]["phase"].clone()
}

fn is_gone(client: &Client, collection: &str, name: &str) -> bool {
    client.get(format!("{collection}/{name}")).status == 404
}

fn list(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).expect(200)["items"].as_array().cloned().unwrap_or_default()
}

fn reasons(client: &Client, about: &str) -> Vec<Value> {
    let events = list(client, "/api/v1/namespaces/default/events").into_iter();
    events
        .filter(|event| event["involvedObject"]["name"] == about)
        .map(|event| event["reason"].clone())
        .collect()
}

#[test]
fn a_claim_is_bound_to_the_smallest_volume_and_releases_it() {
    let server = cluster();
    let client = server.client();
    for (name, size) in [("large", "10Gi"), ("small", "512Mi"), ("right", "2Gi")] {
        volume(client, name, size, &json!({"hostPath": {"path": format!("/srv/{name}")}}));
        eventually("the volume is known", || phase(client, VOLUMES, name) == "Available");
    }
    claim(client, "data", "shelf");
    eventually("the claim is bound", || phase(client, CLAIMS, "data") == "Bound");
    let bound = client.get(format!("{CLAIMS}/data")).expect(200);
    assert_eq!(bound["spec"]["volumeName"], "right");
    assert_eq!(bound["status"]["capacity"]["storage"], "2Gi");
    assert_eq!(phase(client, VOLUMES, "right"), "Bound");
    assert_eq!(phase(client, VOLUMES, "large"), "Available");
    claim(client, "more", "nowhere");
    eventually("the class is unknown", || reasons(client, "more").contains(&json!("ProvisioningFailed")));
    client.delete(format!("{CLAIMS}/data")).expect_status(200);
    eventually("the claim is gone", || is_gone(client, CLAIMS, "data"));
    eventually("the volume is released", || phase(client, VOLUMES, "right") == "Released");
}

#[test]
fn a_local_volume_is_provisioned_on_its_pods_node_and_deleted_with_its_claim() {
    let server = cluster();
    let client = server.client();
    let class = client.get("/apis/storage.k8s.io/v1/storageclasses/local-path").expect(200);
    let default = &class["metadata"]["annotations"]["storageclass.kubernetes.io/is-default-class"];
    assert_eq!((default, &class["volumeBindingMode"]), (&json!("true"), &json!("WaitForFirstConsumer")));
    let template =
        json!({"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    pod(
        client,
        "app",
        "simulated-1",
        &json!({"name": "data", "ephemeral": {"volumeClaimTemplate": template}}),
    );
    eventually("the claim is there and waits", || {
        client.get(format!("{CLAIMS}/app-data")).status == 200
            && reasons(client, "app-data").contains(&json!("WaitForFirstConsumer"))
    });
    let chosen = json!({"metadata": {"annotations": {"volume.kubernetes.io/selected-node": "simulated-1"}}});
    client.patch(format!("{CLAIMS}/app-data"), "merge", &chosen).expect_status(200);
    eventually("the claim is bound", || phase(client, CLAIMS, "app-data") == "Bound");
    let volumes = list(client, VOLUMES);
    let terms = &volumes[0]["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"];
    assert_eq!(terms[0]["matchExpressions"][0]["values"], json!(["simulated-1"]));
    client.delete(format!("{CLAIMS}/app-data")).expect_status(200);
    let held = client.get(format!("{CLAIMS}/app-data")).expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "a claim that is used stays: {held}");
    client.delete(format!("{PODS}/app")).expect_status(200);
    eventually("the claim is gone", || is_gone(client, CLAIMS, "app-data"));
    eventually("the volume is gone", || list(client, VOLUMES).is_empty());
}

#[test]
fn the_default_class_is_made_once() {
    let mut server = cluster();
    let path = "/apis/storage.k8s.io/v1/storageclasses/local-path";
    server.client().delete(path).expect_status(200);
    let directory = server.directory().clone();
    server.kill_9();
    let mut again = Server::try_start(&directory, &[]).unwrap_or_else(|e| panic!("{e}"));
    assert_eq!(again.client().get(path).status, 404, "who deleted it does not want it");
    again.kill_9();
    let without = Server::start_with(&["--disable", "local-storage"]);
    assert_eq!(without.client().get(path).status, 404);
}

#[test]
fn a_volume_follows_its_pod_from_node_to_node() {
    let server = cluster();
    let client = server.client();
    let managed = json!({"metadata": {"annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"}}});
    for node in ["simulated-0", "simulated-1"] {
        let path = format!("/api/v1/nodes/{node}");
        eventually("the node is there", || client.get(&path).status == 200);
        client.patch(&path, "merge", &managed).expect_status(200);
    }
    volume(client, "disk", "1Gi", &json!({"csi": {"driver": "disk.example.com", "volumeHandle": "h"}}));
    claim(client, "disk", "shelf");
    pod(client, "first", "simulated-0", &uses("disk"));
    let attached_to = || -> Vec<Value> {
        list(client, ATTACHMENTS).iter().map(|attachment| attachment["spec"]["nodeName"].clone()).collect()
    };
    eventually("it is to be attached", || attached_to() == ["simulated-0"]);
    let name = list(client, ATTACHMENTS)[0]["metadata"]["name"].as_str().unwrap().to_owned();
    let status = json!({"status": {"attached": true}});
    client.patch(format!("{ATTACHMENTS}/{name}/status"), "merge", &status).expect_status(200);
    let node = "/api/v1/nodes/simulated-0";
    eventually("the node is told", || {
        client.get(node).expect(200)["status"]["volumesAttached"][0]["name"]
            == "kubernetes.io/csi/disk.example.com^h"
    });
    let mounted = json!({"status": {"volumesInUse": ["kubernetes.io/csi/disk.example.com^h"]}});
    client.patch(format!("{node}/status"), "merge", &mounted).expect_status(200);
    pod(client, "second", "simulated-1", &uses("disk"));
    eventually("the second pod reports that it waits for the volume", || {
        reasons(client, "second").contains(&json!("FailedAttachVolume"))
    });
    client.delete(format!("{PODS}/first")).expect_status(200);
    eventually("the first pod is gone", || is_gone(client, PODS, "first"));
    assert_eq!(attached_to(), ["simulated-0"], "it is still mounted");
    let unmounted = json!({"status": {"volumesInUse": []}});
    client.patch(format!("{node}/status"), "merge", &unmounted).expect_status(200);
    eventually("it is to be attached to the other node", || attached_to() == ["simulated-1"]);
    assert!(client.get(node).expect(200)["status"]["volumesAttached"][0].is_null());
}

#[test]
fn a_volume_is_detached_from_a_dead_node_after_six_minutes() {
    let cluster = Cluster::with_nodes(1);
    let managed = value!({"volumes.kubernetes.io/controller-managed-attach-detach": "true"});
    cluster.patch(&kinds::NODES, "", "simulated-0", value!({"metadata": {"annotations": managed}}));
    let object = |kind: &Kind, name: &str, spec: corten_api::Value| {
        let mut object = kind.new_object("default", name);
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
    cluster.until("it is to be attached", Duration::from_secs(10), |cluster| attachments(cluster) == 1);
    let mounted =
        Patch::Merge(value!({"status": {"volumesInUse": ["kubernetes.io/csi/disk.example.com^h"]}}));
    let node = Key::new("", "simulated-0");
    cluster.ask(cluster.client().patch(&kinds::NODES, &node, &mounted, "status")).unwrap();
    cluster.unplug("simulated-0");
    let at_once = DeleteOptions { grace_seconds: Some(0), ..DeleteOptions::default() };
    cluster.ask(cluster.client().delete(&kinds::PODS, &Key::new("default", "app"), &at_once)).unwrap();
    let took =
        cluster.until("it is detached", Duration::from_secs(3600), |cluster| attachments(cluster) == 0);
    assert_eq!(took, Duration::from_secs(360));
}
