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

#[test]
fn a_job_survives_the_death_of_the_server() {
    let mut server = cluster();
    let job = json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "sum"},
        "spec": {
            "completions": 30, "parallelism": 10, "completionMode": "Indexed",
            "template": {"spec": {
                "restartPolicy": "Never",
                "containers": [{"name": "main", "image": "registry.example/sum:1"}],
            }},
        },
    });
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let client = server.client();
    client.post(jobs, &job).expect_status(201);
    let path = format!("{jobs}/sum");
    eventually("some are done", || client.get(&path).expect(200)["status"]["succeeded"].as_i64() > Some(3));
    let directory = server.directory().clone();
    server.kill_9();
    let server = Server::try_start(&directory, &["--simulated-nodes", "3"]).unwrap_or_else(|e| panic!("{e}"));
    let client = server.client();
    eventually("the end of the job", || !client.get(&path).expect(200)["status"]["completionTime"].is_null());
    let status = client.get(&path).expect(200)["status"].clone();
    assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(30), &json!("0-29")), "{status}");
    assert!(status["failed"].is_null(), "{status}");
    let pods = items(client, "/api/v1/namespaces/default/pods");
    assert_eq!(pods.len(), 30, "none missing, none too many");
    assert!(pods.iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "all are counted");
}
