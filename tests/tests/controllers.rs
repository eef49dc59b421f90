//! The controllers on simulated nodes: what people do with workloads and namespaces, on a whole cluster.

use std::time::{Duration, Instant};

use corten_testkit::{Client, Server};
use serde_json::{Value, json};

const DEADLINE: Duration = Duration::from_secs(60);
const MERGE: &str = "merge";

/// Looks again until something is as it should be.
#[track_caller]
fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < DEADLINE, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn cluster() -> Server {
    Server::start_with(&["--simulated-nodes", "3"])
}

fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

fn deployments(namespace: &str) -> String {
    format!("/apis/apps/v1/namespaces/{namespace}/deployments")
}

/// Creates in a namespace that may be so new that its default account is not there yet.
fn create_deployment(client: &Client, namespace: &str, object: &Value) {
    client.post(deployments(namespace), object).expect_status(201);
}

fn is_rolled_out(client: &Client, path: &str, replicas: i64) -> bool {
    let object = client.get(path).expect(200);
    let status = &object["status"];
    status["observedGeneration"] == object["metadata"]["generation"]
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status[*count] == replicas)
}

fn items(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).expect(200)["items"].as_array().cloned().unwrap_or_default()
}

#[test]
fn a_deployment_rolls_out_scales_and_goes_back() {
    let server = cluster();
    let client = server.client();
    create_deployment(client, "default", &deployment("web", 3, "registry.example/web:1"));
    let path = format!("{}/web", deployments("default"));
    eventually("three replicas", || is_rolled_out(client, &path, 3));
    client.patch(&path, MERGE, &json!({"spec": {"replicas": 5}})).expect_status(200);
    eventually("five replicas", || is_rolled_out(client, &path, 5));
    let containers = json!([{"name": "main", "image": "registry.example/web:2"}]);
    let newer = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    client.patch(&path, MERGE, &newer).expect_status(200);
    eventually("the new image", || is_rolled_out(client, &path, 5));
    let pods = "/api/v1/namespaces/default/pods";
    eventually("only new pods", || {
        let pods = items(client, pods);
        pods.len() == 5
            && pods.iter().all(|pod| pod["spec"]["containers"][0]["image"] == "registry.example/web:2")
    });
    let sets = items(client, "/apis/apps/v1/namespaces/default/replicasets");
    assert_eq!(sets.len(), 2, "the old set stays for going back");
    client.delete(format!("{path}?propagationPolicy=Background")).expect_status(200);
    eventually("nothing is left", || {
        items(client, pods).is_empty()
            && items(client, "/apis/apps/v1/namespaces/default/replicasets").is_empty()
    });
}

#[test]
fn a_namespace_takes_everything_with_it() {
    let server = cluster();
    let client = server.client();
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "team"}})).expect_status(201);
    eventually("the default account and the root certificates", || {
        client.get("/api/v1/namespaces/team/serviceaccounts/default").status == 200
            && client.get("/api/v1/namespaces/team/configmaps/kube-root-ca.crt").status == 200
    });
    create_deployment(client, "team", &deployment("app", 2, "registry.example/app:1"));
    let path = format!("{}/app", deployments("team"));
    eventually("two replicas", || is_rolled_out(client, &path, 2));
    client.delete("/api/v1/namespaces/team").expect_status(200);
    eventually("the namespace is gone", || client.get("/api/v1/namespaces/team").status == 404);
    assert!(items(client, "/api/v1/pods").iter().all(|pod| pod["metadata"]["namespace"] != "team"));
}

#[test]
fn orphans_stay() {
    let server = cluster();
    let client = server.client();
    create_deployment(client, "default", &deployment("kept", 1, "registry.example/kept:1"));
    let path = format!("{}/kept", deployments("default"));
    eventually("one replica", || is_rolled_out(client, &path, 1));
    client.delete(format!("{path}?propagationPolicy=Orphan")).expect_status(200);
    eventually("the deployment is gone", || client.get(&path).status == 404);
    let sets = items(client, "/apis/apps/v1/namespaces/default/replicasets");
    assert_eq!(sets.len(), 1);
    assert!(sets[0]["metadata"]["ownerReferences"].is_null(), "{}", sets[0]["metadata"]);
}

#[test]
fn a_rollout_survives_the_death_of_the_server() {
    let mut server = cluster();
    create_deployment(server.client(), "default", &deployment("web", 20, "registry.example/web:1"));
    let directory = server.directory().clone();
    server.kill_9();
    let server = Server::try_start(&directory, &["--simulated-nodes", "3"]).unwrap_or_else(|e| panic!("{e}"));
    let client = server.client();
    let path = format!("{}/web", deployments("default"));
    eventually("twenty replicas", || is_rolled_out(client, &path, 20));
    assert_eq!(items(client, "/api/v1/namespaces/default/pods").len(), 20, "none missing, none too many");
}

fn stateful_set(name: &str, replicas: i64) -> Value {
    let mut set = deployment(name, replicas, "registry.example/db:1");
    set["kind"] = json!("StatefulSet");
    set["spec"]["serviceName"] = json!(name);
    set["spec"]["persistentVolumeClaimRetentionPolicy"] =
        json!({"whenDeleted": "Delete", "whenScaled": "Retain"});
    set["spec"]["volumeClaimTemplates"] = json!([{
        "metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
    }]);
    set
}

fn name(object: &Value) -> &str {
    object["metadata"]["name"].as_str().unwrap_or_default()
}

#[test]
fn a_stateful_set_keeps_names_and_claims() {
    let server = cluster();
    let client = server.client();
    let sets = "/apis/apps/v1/namespaces/default/statefulsets";
    client.post(sets, &stateful_set("db", 3)).expect_status(201);
    let path = format!("{sets}/db");
    eventually("three replicas", || is_rolled_out(client, &path, 3));
    let pods = items(client, "/api/v1/namespaces/default/pods");
    assert_eq!(pods.iter().map(name).collect::<Vec<_>>(), ["db-0", "db-1", "db-2"]);
    assert_eq!(pods[1]["metadata"]["labels"]["apps.kubernetes.io/pod-index"], "1");
    assert_eq!(pods[1]["spec"]["volumes"][0]["persistentVolumeClaim"]["claimName"], "data-db-1");
    let containers = json!([{"name": "main", "image": "registry.example/db:2"}]);
    let newer = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    client.patch(&path, MERGE, &newer).expect_status(200);
    eventually("the new image", || {
        let set = client.get(&path).expect(200);
        is_rolled_out(client, &path, 3) && set["status"]["currentRevision"] == set["status"]["updateRevision"]
    });
    client.patch(&path, MERGE, &json!({"spec": {"replicas": 1}})).expect_status(200);
    eventually("one replica", || items(client, "/api/v1/namespaces/default/pods").len() == 1);
    let claims = items(client, "/api/v1/namespaces/default/persistentvolumeclaims");
    assert_eq!(claims.iter().map(name).collect::<Vec<_>>(), ["data-db-0", "data-db-1", "data-db-2"]);
    eventually("the claims belong to the set", || {
        let claim = client.get("/api/v1/namespaces/default/persistentvolumeclaims/data-db-0").expect(200);
        claim["metadata"]["ownerReferences"][0]["kind"] == "StatefulSet"
    });
}

#[test]
fn a_budget_says_what_may_be_evicted() {
    let server = cluster();
    let client = server.client();
    create_deployment(client, "default", &deployment("web", 4, "registry.example/web:1"));
    let budgets = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
    let spec = json!({"maxUnavailable": "25%", "selector": {"matchLabels": {"app": "web"}}});
    client.post(budgets, &json!({"metadata": {"name": "web"}, "spec": spec})).expect_status(201);
    let allowed = |number: i64| {
        let status = &client.get(format!("{budgets}/web")).expect(200)["status"];
        status["disruptionsAllowed"] == number && status["expectedPods"] == 4
    };
    eventually("one may go", || allowed(1));
    let pods = items(client, "/api/v1/namespaces/default/pods");
    let eviction =
        json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name(&pods[0])}});
    let path = format!("/api/v1/namespaces/default/pods/{}/eviction", name(&pods[0]));
    client.post(path, &eviction).expect_status(201);
    eventually("it is replaced", || {
        let left = items(client, "/api/v1/namespaces/default/pods");
        left.iter().all(|pod| name(pod) != name(&pods[0])) && allowed(1)
    });
}

#[test]
fn an_autoscaler_keeps_to_its_bounds() {
    let server = cluster();
    let client = server.client();
    create_deployment(client, "default", &deployment("web", 1, "registry.example/web:1"));
    let autoscalers = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers";
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spec = json!({"minReplicas": 3, "maxReplicas": 5, "scaleTargetRef": target});
    client.post(autoscalers, &json!({"metadata": {"name": "web"}, "spec": spec})).expect_status(201);
    eventually("three replicas", || is_rolled_out(client, &format!("{}/web", deployments("default")), 3));
    eventually("the autoscaler says so", || {
        let status = &client.get(format!("{autoscalers}/web")).expect(200)["status"];
        status["desiredReplicas"] == 3 && status["conditions"][0]["reason"] == "SucceededRescale"
    });
}
