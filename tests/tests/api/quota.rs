//! Quotas: exact under concurrency, with upstream's messages.
//!
//! There is no quota controller: tests write the usage to the quota's status, as it would.

use std::sync::atomic::{AtomicUsize, Ordering};

use corten_e2e::pod;
use corten_testkit::{Client, Server};
use serde_json::{Value, json};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";

/// Creates a quota without usage.
fn create(client: &Client, name: &str, spec: &Value) {
    let quota = json!({"metadata": {"name": name}, "spec": spec});
    let mut quota = client.post(QUOTAS, &quota).expect(201);
    let hard = spec["hard"].as_object().expect("a quota has limits");
    let used: Value =
        hard.keys().map(|name| (name.clone(), json!("0"))).collect::<serde_json::Map<_, _>>().into();
    quota["status"] = json!({"hard": hard, "used": used});
    client.put(format!("{QUOTAS}/{name}/status"), &quota).expect(200);
}

fn used(client: &Client, name: &str) -> Value {
    client.get(format!("{QUOTAS}/{name}")).expect(200)["status"]["used"].clone()
}

fn asking(name: &str, requests: &Value) -> Value {
    let mut pod = pod(name);
    pod["spec"]["containers"][0]["resources"] = json!({"requests": requests});
    pod
}

#[test]
fn sixty_four_creators_never_exceed_a_quota() {
    const CREATORS: usize = 64;
    const EACH: usize = 5;
    const ROOM: usize = 100;
    let server = Server::start();
    let client = server.client();
    let hard = json!({"pods": ROOM.to_string(), "requests.cpu": "1000", "count/pods": "1000"});
    create(client, "q", &json!({"hard": hard}));
    create(client, "r", &json!({"hard": {"requests.cpu": "1000"}}));
    let created = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for creator in 0..CREATORS {
            let created = &created;
            scope.spawn(move || {
                for i in 0..EACH {
                    let answer = client.post(PODS, &asking(&format!("p-{creator}-{i}"), &json!({"cpu": "500m"})));
                    match answer.status {
                        201 => drop(created.fetch_add(1, Ordering::Relaxed)),
                        _ => {
                            let message = answer.expect_failure(403, "Forbidden");
                            let refused = "is forbidden: exceeded quota: q, requested: pods=1, used: pods=100, limited: pods=100";
                            assert!(message.ends_with(refused), "{message}");
                        }
                    }
                }
            });
        }
    });
    assert_eq!(created.into_inner(), ROOM);
    let stored = client.get(PODS).expect(200)["items"].as_array().unwrap().len();
    assert_eq!(stored, ROOM);
    assert_eq!(used(client, "q"), json!({"pods": "100", "requests.cpu": "50", "count/pods": "100"}));
    assert_eq!(used(client, "r"), json!({"requests.cpu": "50"}));
    let managers = &client.get(format!("{QUOTAS}/q")).expect(200)["metadata"]["managedFields"];
    let charged = managers.as_array().unwrap().iter().any(|entry| {
        entry["manager"] == "kube-apiserver"
            && entry["subresource"] == "status"
            && entry["fieldsV1"]["f:status"]["f:used"]["f:pods"].is_object()
    });
    assert!(charged, "{managers}");
}

#[test]
fn quotas_say_what_is_missing() {
    let server = Server::start();
    let client = server.client();
    create(client, "compute", &json!({"hard": {"requests.cpu": "1", "limits.memory": "1Gi"}}));
    let message = client.post(PODS, &pod("p")).expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "pods \"p\" is forbidden: failed quota: compute: must specify limits.memory for: main; requests.cpu for: main"
    );
    let mut quota = client.get(format!("{QUOTAS}/compute")).expect(200);
    quota["status"] = json!({"hard": {"pods": "1"}, "used": {}});
    client.put(format!("{QUOTAS}/compute/status"), &quota).expect(200);
    let message = client.post(PODS, &pod("p")).expect_failure(403, "Forbidden");
    assert_eq!(message, "pods \"p\" is forbidden: status unknown for quota: compute, resources: pods");
}

#[test]
fn scopes_select_the_counted_objects() {
    let server = Server::start();
    let client = server.client();
    create(client, "besteffort", &json!({"hard": {"pods": "1"}, "scopes": ["BestEffort"]}));
    client.post(PODS, &pod("a")).expect(201);
    client.post(PODS, &asking("b", &json!({"cpu": "1"}))).expect(201);
    client.post(PODS, &pod("c")).expect_failure(403, "Forbidden");
    assert_eq!(used(client, "besteffort"), json!({"pods": "1"}));
}

#[test]
fn everything_can_be_counted() {
    let server = Server::start();
    let client = server.client();
    let hard = json!({
        "configmaps": "1", "count/deployments.apps": "0", "services.nodeports": "1",
        "requests.storage": "1Gi", "fast.storageclass.storage.k8s.io/requests.storage": "512Mi",
    });
    create(client, "q", &json!({"hard": hard}));
    let maps = "/api/v1/namespaces/default/configmaps";
    let map = |name: &str| json!({"metadata": {"name": name}});
    client.post(format!("{maps}?dryRun=All"), &map("a")).expect(201);
    client.post(maps, &map("a")).expect(201);
    let message = client.post(maps, &map("b")).expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "configmaps \"b\" is forbidden: exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"
    );
    let service = |kind: &str| json!({"metadata": {"name": "s"}, "spec": {"type": kind, "ports": [{"port": 80}, {"name": "b", "port": 81}]}});
    let mut named = service("ClusterIP");
    named["spec"]["ports"][0]["name"] = "a".into();
    let services = "/api/v1/namespaces/default/services";
    client.post(services, &named).expect(201);
    let to_node_ports = json!({"spec": {"type": "NodePort"}});
    let message =
        client.patch(format!("{services}/s"), "merge", &to_node_ports).expect_failure(403, "Forbidden");
    assert!(message.contains("requested: services.nodeports=2, used: services.nodeports=0"), "{message}");
    let claim = json!({"metadata": {"name": "c"}, "spec": {
        "storageClassName": "fast", "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
    }});
    let message = client
        .post("/api/v1/namespaces/default/persistentvolumeclaims", &claim)
        .expect_failure(403, "Forbidden");
    assert_eq!(
        message,
        "persistentvolumeclaims \"c\" is forbidden: exceeded quota: q, requested: fast.storageclass.storage.k8s.io/requests.storage=1Gi, used: fast.storageclass.storage.k8s.io/requests.storage=0, limited: fast.storageclass.storage.k8s.io/requests.storage=512Mi"
    );
}
