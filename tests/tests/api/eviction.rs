//! Evictions and bindings: disruption budgets, and their effects on pods.

use corten_e2e::pod;
use corten_testkit::{Client, Server};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const BUDGETS: &str = "/apis/policy/v1/namespaces/default/poddisruptionbudgets";
const REFUSED: &str = "Cannot evict pod as it would violate the pod's disruption budget.";

/// A pod on a node, running, ready or not.
fn run(client: &Client, name: &str, ready: bool) {
    let mut pod = pod(name);
    pod["metadata"]["labels"] = json!({"app": "a"});
    client.post(PODS, &pod).expect(201);
    bind(client, name, "n1").expect(201);
    let status = json!({"status": {"phase": "Running", "conditions": [
        {"type": "Ready", "status": if ready { "True" } else { "False" }},
    ]}});
    client.patch(format!("{PODS}/{name}/status"), "strategic-merge", &status).expect(200);
}

fn bind(client: &Client, name: &str, node: &str) -> corten_testkit::Response {
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node},
    });
    client.post(format!("{PODS}/{name}/binding"), &binding)
}

fn evict(client: &Client, name: &str) -> corten_testkit::Response {
    evict_with(client, name, "", &json!({}))
}

fn evict_with(client: &Client, name: &str, query: &str, options: &Value) -> corten_testkit::Response {
    let eviction = json!({
        "apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}, "deleteOptions": options,
    });
    client.post(format!("{PODS}/{name}/eviction{query}"), &eviction)
}

/// A budget with a status, as its controller would write it.
fn budget(client: &Client, name: &str, spec: &Value, status: &Value) {
    let mut object = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": name},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "a"}}},
    });
    for (key, value) in spec.as_object().into_iter().flatten() {
        object["spec"][key] = value.clone();
    }
    client.post(BUDGETS, &object).expect(201);
    set_status(client, name, status);
}

fn set_status(client: &Client, name: &str, status: &Value) {
    client.patch(format!("{BUDGETS}/{name}/status"), "merge", &json!({"status": status})).expect(200);
}

fn healthy(allowed: i64, desired: i64, current: i64) -> Value {
    json!({
        "observedGeneration": 1, "disruptionsAllowed": allowed, "desiredHealthy": desired,
        "currentHealthy": current, "expectedPods": current,
    })
}

#[test]
fn an_evicted_pod_reports_the_reason() {
    let server = Server::start();
    let client = server.client();
    run(client, "p", true);
    let answer = evict(client, "p").expect(201);
    assert_eq!(
        (&answer["kind"], &answer["status"], &answer["code"]),
        (&json!("Status"), &json!("Success"), &json!(201))
    );
    let pod = client.get(format!("{PODS}/p")).expect(200);
    assert!(pod["metadata"]["deletionTimestamp"].is_string(), "{pod}");
    let conditions = pod["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let target = conditions.iter().find(|condition| condition["type"] == "DisruptionTarget").unwrap();
    assert_eq!(
        (&target["status"], &target["reason"], &target["message"]),
        (&json!("True"), &json!("EvictionByEvictionAPI"), &json!("Eviction API: evicting"),)
    );
}

#[test]
fn budgets_are_kept() {
    let server = Server::start();
    let client = server.client();
    for name in ["a", "b", "c"] {
        run(client, name, true);
    }
    budget(client, "budget", &json!({}), &healthy(1, 2, 3));
    evict_with(client, "a", "?dryRun=All", &json!({})).expect(201);
    assert_eq!(client.get(format!("{BUDGETS}/budget")).expect(200)["status"]["disruptionsAllowed"], 1);
    evict(client, "a").expect(201);
    let taken = client.get(format!("{BUDGETS}/budget")).expect(200);
    assert_eq!(taken["status"]["disruptionsAllowed"], 0);
    assert!(taken["status"]["disruptedPods"]["a"].is_string(), "{taken}");
    let condition = &taken["status"]["conditions"][0];
    assert_eq!(
        (&condition["type"], &condition["status"], &condition["reason"]),
        (&json!("DisruptionAllowed"), &json!("False"), &json!("InsufficientPods"),)
    );
    let writer = &taken["metadata"]["managedFields"]
        .as_array()
        .unwrap()
        .iter()
        .find(|e| e["manager"] == "kube-apiserver");
    assert_eq!(writer.map(|entry| &entry["subresource"]), Some(&json!("status")));

    let refused = evict(client, "b");
    assert_eq!(refused.expect_failure(429, "TooManyRequests"), REFUSED);
    assert_eq!(refused.header("retry-after"), "");
    let cause = &refused.json()["details"]["causes"][0];
    assert_eq!(cause["reason"], "DisruptionBudget");
    assert_eq!(cause["message"], "The disruption budget budget does not allow evicting pods currently");

    // A budget that its controller has not observed since it changed allows nothing.
    client.patch(format!("{BUDGETS}/budget"), "merge", &json!({"spec": {"minAvailable": 0}})).expect(200);
    let refused = evict(client, "b");
    assert_eq!(refused.expect_failure(429, "TooManyRequests"), REFUSED);
    assert_eq!(refused.header("retry-after"), "10");

    budget(client, "another", &json!({}), &healthy(5, 0, 3));
    let message = evict(client, "b").expect_failure(500, "");
    assert_eq!(
        message,
        "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."
    );
}

#[test]
fn unready_pods_may_be_evicted() {
    let server = Server::start();
    let client = server.client();
    for name in ["a", "b", "c"] {
        run(client, name, false);
    }
    budget(client, "budget", &json!({}), &healthy(0, 2, 1));
    evict(client, "a").expect_failure(429, "TooManyRequests");
    set_status(client, "budget", &healthy(0, 2, 2));
    evict(client, "a").expect(201);
    assert_eq!(client.get(format!("{BUDGETS}/budget")).expect(200)["status"]["disruptionsAllowed"], 0);
    set_status(client, "budget", &healthy(0, 2, 1));
    client
        .patch(
            format!("{BUDGETS}/budget"),
            "merge",
            &json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}),
        )
        .expect(200);
    evict(client, "b").expect(201);
    // A pod that has not started needs no budget.
    let mut pending = pod("pending");
    pending["metadata"]["labels"] = json!({"app": "a"});
    client.post(PODS, &pending).expect(201);
    evict(client, "pending").expect(201);
    client.get(format!("{PODS}/pending")).expect_failure(404, "NotFound");
}

#[test]
fn evictions_keep_to_their_preconditions() {
    let server = Server::start();
    let client = server.client();
    run(client, "p", true);
    let message = evict_with(client, "p", "", &json!({"preconditions": {"uid": "another"}}))
        .expect_failure(409, "Conflict");
    assert!(
        message
            .starts_with("Operation cannot be fulfilled on Pod \"p\": the UID in the precondition (another)"),
        "{message}"
    );
    evict_with(client, "p", "", &json!({"preconditions": {"resourceVersion": "1"}}))
        .expect_failure(409, "Conflict");
    let message = evict_with(client, "p", "?dryRun=All", &json!({"dryRun": ["Foo"]})).expect_failure(500, "");
    assert_eq!(message, "Non-matching dry-run options in request and content: [All] and [Foo]");
    let other = json!({"apiVersion": "policy/v1beta1", "kind": "Eviction", "metadata": {"name": "q"}});
    let message = client.post(format!("{PODS}/p/eviction"), &other).expect_failure(400, "BadRequest");
    assert_eq!(message, "name in URL does not match name in Eviction object");
    let pod = client.get(format!("{PODS}/p")).expect(200);
    assert!(pod["metadata"]["deletionTimestamp"].is_null(), "{pod}");
    let revision = json!({"preconditions": {"resourceVersion": pod["metadata"]["resourceVersion"]}});
    evict_with(client, "p", "", &revision).expect(201);
    evict(client, "missing").expect_failure(404, "NotFound");
}

#[test]
fn many_at_once_take_no_more_than_the_budget_allows() {
    const EVICTORS: usize = 32;
    const ALLOWED: usize = 7;
    let server = Server::start();
    for i in 0..EVICTORS {
        run(server.client(), &format!("p{i}"), true);
    }
    let allowed = i64::try_from(ALLOWED).unwrap();
    budget(server.client(), "budget", &json!({}), &healthy(allowed, 25, 32));
    let codes: Vec<u16> = std::thread::scope(|scope| {
        let evictors: Vec<_> = (0..EVICTORS)
            .map(|i| {
                let credentials = server.credentials();
                scope.spawn(move || {
                    let client = Client::new(credentials).unwrap();
                    evict(&client, &format!("p{i}")).status
                })
            })
            .collect();
        evictors.into_iter().map(|evictor| evictor.join().unwrap()).collect()
    });
    assert_eq!(codes.iter().filter(|code| **code == 201).count(), ALLOWED, "{codes:?}");
    assert!(codes.iter().all(|code| matches!(code, 201 | 429)), "{codes:?}");
    let list = server.client().get(PODS).expect(200);
    let going = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|pod| pod["metadata"]["deletionTimestamp"].is_string());
    assert_eq!(going.count(), ALLOWED);
    let budget = server.client().get(format!("{BUDGETS}/budget")).expect(200);
    assert_eq!(budget["status"]["disruptionsAllowed"], 0);
}

#[test]
fn a_binding_adds_labels_and_is_immutable() {
    let server = Server::start();
    let client = server.client();
    client.post(PODS, &pod("p")).expect(201);
    let binding = json!({
        "apiVersion": "v1", "kind": "Binding",
        "metadata": {"name": "p", "labels": {"zone": "z"}, "annotations": {"k": "v"}},
        "target": {"kind": "Node", "name": "n1"},
    });
    let path = format!("{PODS}/p/binding");
    let mut wrong = binding.clone();
    wrong["target"] = json!({"kind": "Pod", "name": ""});
    let message = client.post(&path, &wrong).expect_failure(500, "");
    assert_eq!(
        message,
        "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]"
    );
    let mut another = binding.clone();
    another["metadata"]["uid"] = "another".into();
    let message = client.post(&path, &another).expect_failure(409, "Conflict");
    assert!(message.contains("Precondition failed: UID in precondition: another"), "{message}");
    client.post(format!("{path}?dryRun=All"), &binding).expect(201);
    assert!(client.get(format!("{PODS}/p")).expect(200)["spec"]["nodeName"].is_null());
    client.post(&path, &binding).expect(201);
    let pod = client.get(format!("{PODS}/p")).expect(200);
    assert_eq!((&pod["spec"]["nodeName"], &pod["metadata"]["labels"]["zone"]), (&json!("n1"), &json!("z")));
    assert_eq!(pod["metadata"]["annotations"]["k"], "v");
    let message = client.post(&path, &binding).expect_failure(409, "Conflict");
    assert_eq!(
        message,
        "Operation cannot be fulfilled on pods/binding \"p\": pod p is already assigned to node \"n1\""
    );
}
