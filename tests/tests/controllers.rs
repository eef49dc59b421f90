//! The controllers on simulated nodes: workloads and namespaces in a whole cluster.

use corten_e2e::eventually;
use corten_testkit::{Client, Server};
use serde_json::{Value, json};

const MERGE: &str = "merge";

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

/// Creates in a namespace that may be so new that its default service account does not exist yet.
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
fn a_deployment_rolls_out_scales_and_rolls_back() {
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
fn a_deleted_namespace_deletes_its_content() {
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

/// Kills the server at any moment, and starts it again on the same directory.
fn killed_and_started(mut server: Server) -> Server {
    let directory = server.directory().clone();
    server.kill_9();
    Server::try_start(&directory, &["--simulated-nodes", "3"]).unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_new_deployment_survives_a_killed_server() {
    let server = cluster();
    create_deployment(server.client(), "default", &deployment("web", 20, "registry.example/web:1"));
    let server = killed_and_started(server);
    let client = server.client();
    let path = format!("{}/web", deployments("default"));
    eventually("twenty replicas", || is_rolled_out(client, &path, 20));
    assert_eq!(items(client, "/api/v1/namespaces/default/pods").len(), 20, "none missing, none too many");
}

#[test]
fn a_rollout_survives_a_killed_server() {
    let server = cluster();
    let client = server.client();
    create_deployment(client, "default", &deployment("web", 40, "registry.example/web:1"));
    let path = format!("{}/web", deployments("default"));
    eventually("forty replicas", || is_rolled_out(client, &path, 40));
    let containers = json!([{"name": "main", "image": "registry.example/web:2"}]);
    let newer = json!({"spec": {"template": {"spec": {"containers": containers}}}});
    client.patch(&path, MERGE, &newer).expect_status(200);
    let sets = "/apis/apps/v1/namespaces/default/replicasets";
    eventually("the new replica set", || items(client, sets).len() == 2);
    let server = killed_and_started(server);
    let client = server.client();
    let pods = "/api/v1/namespaces/default/pods";
    eventually("the rollout completes", || {
        is_rolled_out(client, &path, 40) && items(client, pods).len() == 40
    });
    let is_new = |pod: &Value| pod["spec"]["containers"][0]["image"] == "registry.example/web:2";
    assert!(items(client, pods).iter().all(is_new), "only new pods");
    let mut sizes: Vec<_> =
        items(client, sets).iter().map(|set| set["status"]["replicas"].as_i64().unwrap_or(0)).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [0, 40], "the old set stays, and there is one new");
}

#[test]
fn the_deletion_of_a_namespace_survives_a_killed_server() {
    let server = cluster();
    let client = server.client();
    let (namespace, maps) = ("/api/v1/namespaces/team", "/api/v1/namespaces/team/configmaps");
    let team = json!({"metadata": {"name": "team"}});
    client.post("/api/v1/namespaces", &team).expect_status(201);
    eventually("the default account", || {
        client.get(format!("{namespace}/serviceaccounts/default")).status == 200
    });
    create_deployment(client, "team", &deployment("app", 20, "registry.example/app:1"));
    eventually("the replicas", || is_rolled_out(client, &format!("{}/app", deployments("team")), 20));
    for index in 0..200 {
        client.post(maps, &json!({"metadata": {"name": format!("map-{index}")}})).expect_status(201);
    }
    client.delete(namespace).expect_status(200);
    eventually("the namespace is terminating", || {
        client.get(namespace).status == 404
            || items(client, &format!("{namespace}/pods"))
                .iter()
                .any(|pod| !pod["metadata"]["deletionTimestamp"].is_null())
            || items(client, &format!("{namespace}/pods")).len() < 20
    });
    let server = killed_and_started(server);
    let client = server.client();
    eventually("the namespace is gone", || client.get(namespace).status == 404);
    client.post("/api/v1/namespaces", &team).expect_status(201);
    for kind in ["pods", "configmaps"] {
        let left = items(client, &format!("{namespace}/{kind}"));
        assert!(left.iter().all(|object| name(object) == "kube-root-ca.crt"), "{kind} left: {}", left.len());
    }
    for kind in ["deployments", "replicasets"] {
        assert!(
            items(client, &format!("/apis/apps/v1/namespaces/team/{kind}")).is_empty(),
            "{kind} are left"
        );
    }
}

#[test]
fn a_job_survives_a_killed_server() {
    let server = cluster();
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
    let server = killed_and_started(server);
    let client = server.client();
    eventually("the job finishes", || !client.get(&path).expect(200)["status"]["completionTime"].is_null());
    let status = client.get(&path).expect(200)["status"].clone();
    assert_eq!((&status["succeeded"], &status["completedIndexes"]), (&json!(30), &json!("0-29")), "{status}");
    assert!(status["failed"].is_null(), "{status}");
    let pods = items(client, "/api/v1/namespaces/default/pods");
    assert_eq!(pods.len(), 30, "none missing, none too many");
    assert!(pods.iter().all(|pod| pod["metadata"]["finalizers"].is_null()), "all are counted");
}

const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// The number of ready endpoints of a service.
fn ready_endpoints(client: &Client, service: &str) -> usize {
    let slices = items(client, &format!("{SLICES}?labelSelector=kubernetes.io/service-name={service}"));
    let endpoints = slices.iter().filter_map(|slice| slice["endpoints"].as_array()).flatten();
    endpoints.filter(|endpoint| endpoint["conditions"]["ready"] == true).count()
}

/// The number of addresses in the Endpoints of a service.
fn addresses(client: &Client, service: &str) -> usize {
    let endpoints = client.get(format!("/api/v1/namespaces/default/endpoints/{service}"));
    let subsets = endpoints.expect(200)["subsets"].as_array().cloned().unwrap_or_default();
    subsets.iter().filter_map(|subset| subset["addresses"].as_array()).map(Vec::len).sum()
}

#[test]
fn endpoints_follow_pods() {
    let server = cluster();
    let client = server.client();
    create_deployment(client, "default", &deployment("web", 3, "registry.example/web:1"));
    let service = json!({
        "apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"},
        "spec": {"selector": {"app": "web"}, "ports": [{"port": 80}]},
    });
    client.post("/api/v1/namespaces/default/services", &service).expect_status(201);
    let has = |count| ready_endpoints(client, "web") == count && addresses(client, "web") == count;
    eventually("three endpoints", || has(3));
    let path = format!("{}/web", deployments("default"));
    client.patch(&path, MERGE, &json!({"spec": {"replicas": 120}})).expect_status(200);
    eventually("many endpoints", || has(120));
    client.patch(&path, MERGE, &json!({"spec": {"replicas": 0}})).expect_status(200);
    eventually("no endpoints", || has(0));
    client.delete("/api/v1/namespaces/default/services/web").expect_status(200);
    eventually("nothing of the service", || {
        items(client, &format!("{SLICES}?labelSelector=kubernetes.io/service-name=web")).is_empty()
            && client.get("/api/v1/namespaces/default/endpoints/web").status == 404
    });
}

#[test]
fn quotas_report_usage_and_release_it() {
    let server = cluster();
    let client = server.client();
    let quotas = "/api/v1/namespaces/default/resourcequotas";
    let quota = json!({
        "apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"},
        "spec": {"hard": {"pods": "2", "count/deployments.apps": "5"}},
    });
    client.post(quotas, &quota).expect_status(201);
    let used = |pods: &str, deployments: &str| {
        let used = &client.get(format!("{quotas}/q")).expect(200)["status"]["used"];
        used["pods"] == pods && used["count/deployments.apps"] == deployments
    };
    eventually("the first count", || used("0", "0"));
    create_deployment(client, "default", &deployment("web", 4, "registry.example/web:1"));
    eventually("all that fits", || used("2", "1"));
    assert!(items(client, "/api/v1/namespaces/default/pods").len() <= 2);
    client.patch(format!("{quotas}/q"), MERGE, &json!({"spec": {"hard": {"pods": "4"}}})).expect_status(200);
    eventually("the rest", || used("4", "1"));
    let path = format!("{}/web", deployments("default"));
    client.delete(format!("{path}?propagationPolicy=Background")).expect_status(200);
    eventually("what is free again", || used("0", "0"));
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
fn a_budget_limits_evictions() {
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

#[test]
fn revisions_of_other_clients_are_unchanged() {
    let server = cluster();
    let client = server.client();
    let (sets, revisions) = (
        "/apis/apps/v1/namespaces/default/daemonsets",
        "/apis/apps/v1/namespaces/default/controllerrevisions",
    );
    let set = |name: &str| {
        json!({
            "apiVersion": "apps/v1", "kind": "DaemonSet", "metadata": {"name": name},
            "spec": {
                "selector": {"matchLabels": {"app": name}},
                "template": {
                    "metadata": {"labels": {"app": name}},
                    "spec": {"containers": [{"name": "c", "image": "busybox"}]},
                },
            },
        })
    };
    let ready = |name: &str| client.get(format!("{sets}/{name}")).expect(200)["status"]["numberReady"] == 3;
    // A pod that runs was synced after everything that had happened before it was created.
    let run = |name: &str| {
        client.post(sets, &set(name)).expect(201);
        eventually("the set runs", || ready(name));
    };
    run("first");
    run("second");

    let of_first = format!("{revisions}?labelSelector=app%3Dfirst");
    let mut double = items(client, &of_first).remove(0);
    let metadata = double["metadata"].as_object_mut().expect("it is an object");
    ["uid", "resourceVersion", "creationTimestamp", "managedFields"]
        .iter()
        .for_each(|key| drop(metadata.remove(*key)));
    metadata["name"] = json!("double");
    double["revision"] = json!(2);
    client.post(revisions, &double).expect(201);
    run("third");
    let owned = items(client, &of_first);
    assert_eq!(owned.len(), 2, "{owned:?}");
}
