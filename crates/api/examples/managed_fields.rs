//! Measures the cost of field management per write: `cargo run --release -p corten-api --example managed_fields`.

use std::hint::black_box;
use std::time::Instant;

use corten_api::conform::{Extent, conform};
use corten_api::managed::{Context, Filter, Set, apply, update};
use corten_api::schema::{self, StructRef};
use corten_api::{Value, json, value};

const BATCHES: u32 = 100;
const ROUNDS: u32 = 500;

fn main() {
    let schema = schema::lookup("core/v1", "Pod").expect("a built-in type");
    let (main, status) = (
        Filter::Exclude(Set::of_fields(&[&["status"]])),
        Filter::Exclude(Set::of_fields(&[
            &["spec"],
            &["metadata", "deletionTimestamp"],
            &["metadata", "ownerReferences"],
        ])),
    );
    let request = |manager, subresource, filter| Context {
        schema: &schema,
        api_version: "v1",
        manager,
        subresource,
        now: "2026-01-01T00:00:00Z",
        filter: Some(filter),
        versions: None,
    };
    let controller = request("kube-controller-manager", "", &main);
    let kubelet = request("kubelet", "status", &status);
    let labeller = request("kubectl-label", "", &main);

    let created = pod(&schema, 1);
    println!("created pod: {} bytes", size(&created));
    measure("create", &created, |mut new| {
        update(&controller, None, &mut new);
        new
    });

    let mut live = pod(&schema, 3);
    update(&controller, None, &mut live);
    let mut running = live.clone();
    set_status(&mut running, "False", &schema);
    update(&kubelet, Some(&live), &mut running);
    println!("running pod: {} bytes", size(&running));

    let mut labelled = running.clone();
    labelled.set(&["metadata", "labels", "tier"], "front");
    measure("update of a label, new manager", &labelled, |mut new| {
        update(&labeller, Some(&running), &mut new);
        new
    });

    let mut ready = running.clone();
    set_status(&mut ready, "True", &schema);
    measure("status patch, fields owned already", &ready, |mut new| {
        update(&kubelet, Some(&running), &mut new);
        new
    });

    let mut first_status = live.clone();
    set_status(&mut first_status, "True", &schema);
    measure("status patch, fields new", &first_status, |mut new| {
        update(&kubelet, Some(&live), &mut new);
        new
    });

    measure("update that changes nothing", &running, |mut new| {
        update(&labeller, Some(&running), &mut new);
        new
    });

    let mut applied = value!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "web-0"}});
    applied.set(&["metadata", "labels", "tier"], "front");
    let applier = request("applier", "", &main);
    measure("apply of a label", &applied, |applied| {
        apply(&applier, Some(&running), &applied, false).expect("apply")
    });
}

fn size(value: &Value) -> usize {
    json::write_to_string(value).len()
}

/// Prints nanoseconds per operation in the quietest batch, without the cost of cloning its input.
fn measure(what: &str, input: &Value, operation: impl Fn(Value) -> Value) {
    let time = |operation: &dyn Fn(Value) -> Value| {
        let batch = |_| {
            let start = Instant::now();
            for _ in 0..ROUNDS {
                black_box(operation(black_box(input.clone())));
            }
            start.elapsed() / ROUNDS
        };
        (0..BATCHES).map(batch).min().unwrap_or_default()
    };
    let cloning = time(&|input| input);
    let total = time(&operation);
    println!("{what}: {} ns", total.saturating_sub(cloning).as_nanos());
}

fn pod(schema: &StructRef, containers: usize) -> Value {
    let container = |i: usize| {
        let name = format!("c{i}");
        value!({
            "name": name,
            "image": "registry.example.com/team/web:v1.2.3",
            "imagePullPolicy": "IfNotPresent",
            "args": ["--listen=:8080", "--log-level=info"],
            "env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"},
                {"name": "C", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "ports": [{"containerPort": 8080, "name": "http", "protocol": "TCP"}],
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1", "memory": "1Gi"}},
            "livenessProbe": {"httpGet": {"path": "/healthz", "port": 8080, "scheme": "HTTP"}, "periodSeconds": 10,
                "failureThreshold": 3, "successThreshold": 1, "timeoutSeconds": 1},
            "terminationMessagePath": "/dev/termination-log",
            "terminationMessagePolicy": "File",
            "volumeMounts": [{"name": "data", "mountPath": "/data"}]
        })
    };
    let containers: Vec<Value> = (0..containers).map(container).collect();
    let mut pod = value!({
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "web-0", "namespace": "default", "uid": "0e5ec4bb-4c1d-4f0b-9c5e-000000000001",
            "labels": {"app": "web", "pod-template-hash": "5d4f8c7b9"},
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "controller": true,
                "blockOwnerDeletion": true, "uid": "0e5ec4bb-4c1d-4f0b-9c5e-000000000002"}]
        },
        "spec": {
            "containers": containers, "dnsPolicy": "ClusterFirst", "enableServiceLinks": true,
            "restartPolicy": "Always", "schedulerName": "default-scheduler", "securityContext": {},
            "terminationGracePeriodSeconds": 30,
            "volumes": [{"name": "data", "emptyDir": {}}]
        }
    });
    conform(&mut pod, schema, Extent::Whole, &mut Vec::new()).expect("a pod");
    pod
}

fn set_status(pod: &mut Value, ready: &str, schema: &StructRef) {
    let condition =
        |kind: &str| value!({"type": kind, "status": ready, "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let conditions: Vec<Value> =
        ["PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady", "PodScheduled"]
            .map(condition)
            .to_vec();
    let containers = pod.items_at(&["spec", "containers"]).len();
    let container = |i: usize| {
        let name = format!("c{i}");
        let started = ready == "True";
        value!({"name": name, "image": "registry.example.com/team/web:v1.2.3", "imageID": "sha256:0123456789abcdef",
            "containerID": "containerd://0123456789abcdef", "ready": started, "started": started, "restartCount": 0,
            "state": {"running": {"startedAt": "2026-01-01T00:00:00Z"}}})
    };
    let containers: Vec<Value> = (0..containers).map(container).collect();
    let status = value!({"phase": "Running", "hostIP": "10.0.0.1", "podIP": "10.1.0.1",
        "podIPs": [{"ip": "10.1.0.1"}], "startTime": "2026-01-01T00:00:00Z", "qosClass": "Guaranteed",
        "conditions": conditions, "containerStatuses": containers});
    pod.set(&["status"], status);
    conform(pod, schema, Extent::Whole, &mut Vec::new()).expect("a pod");
}
