//! Mutating webhooks: their patches, their order, and reinvocation.

use std::sync::atomic::{AtomicUsize, Ordering};

use corten_testkit::{Reply, Server, Webhook};
use serde_json::{Value, json};

use crate::{CONFIG_MAPS, MUTATING, allow, config_map, configure, hook, patch};

/// Operations that append a word to the config map's `order`.
fn append(review: &Value, word: &str) -> Value {
    let order = review["request"]["object"]["data"]["order"].as_str().unwrap_or_default();
    json!([{"op": "add", "path": "/data/order", "value": format!("{order}{word}")}])
}

#[test]
fn webhooks_run_in_order_of_their_configurations_and_each_sees_the_changes_before_it() {
    let server = Server::start();
    let client = server.client();
    let word =
        |word: &'static str| Webhook::start(move |review| Reply::Json(patch(review, &append(review, word))));
    let (a, b, c) = (word("a"), word("b"), word("c"));
    configure(client, MUTATING, "z", &[hook("c.example.com", &c, &json!({}))]);
    configure(
        client,
        MUTATING,
        "y",
        &[hook("b.example.com", &b, &json!({})), hook("a.example.com", &a, &json!({}))],
    );
    let created = client.post(CONFIG_MAPS, &config_map("c")).expect(201);
    assert_eq!(created["data"]["order"], "bac");
    assert_eq!(client.get(format!("{CONFIG_MAPS}/c")).expect(200)["data"]["order"], "bac");
}

#[test]
fn patched_objects_are_defaulted_pruned_and_validated_again() {
    let server = Server::start();
    let client = server.client();
    let pods = "/api/v1/namespaces/default/pods";
    let webhook = Webhook::start(|review| {
        let sidecar =
            json!({"name": "sidecar", "image": "proxy", "ports": [{"containerPort": 80}], "unknown": 1});
        let name = review["request"]["object"]["metadata"]["name"].as_str().unwrap_or_default();
        let port = if name == "bad" { json!(-1) } else { json!(80) };
        let operations = json!([
            {"op": "add", "path": "/spec/containers/-", "value": sidecar},
            {"op": "replace", "path": "/spec/containers/1/ports/0/containerPort", "value": port},
        ]);
        Reply::Json(patch(review, &operations))
    });
    let rules = json!({"rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"]}]});
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &rules)]);
    let pod = |name: &str| json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let created = client.post(pods, &pod("p")).expect(201);
    let sidecar = &created["spec"]["containers"][1];
    assert_eq!(
        (&sidecar["imagePullPolicy"], &sidecar["ports"][0]["protocol"], &sidecar["unknown"]),
        (&json!("Always"), &json!("TCP"), &Value::Null)
    );
    client.post(pods, &pod("bad")).expect_failure(422, "Invalid");
}

#[test]
fn a_webhook_is_reinvoked_if_needed_and_once() {
    let server = Server::start();
    let client = server.client();
    let counting =
        |word: &'static str| Webhook::start(move |review| Reply::Json(patch(review, &append(review, word))));
    let (first, second, never) = (counting("1"), counting("2"), counting("3"));
    let if_needed = json!({"reinvocationPolicy": "IfNeeded"});
    configure(
        client,
        MUTATING,
        "m",
        &[
            hook("first.example.com", &first, &if_needed),
            hook("never.example.com", &never, &json!({})),
            hook("second.example.com", &second, &if_needed),
        ],
    );
    let created = client.post(CONFIG_MAPS, &config_map("c")).expect(201);
    assert_eq!(created["data"]["order"], "13212", "each asked again once, the other never");
    assert_eq!((first.requests().len(), never.requests().len(), second.requests().len()), (2, 1, 2));
}

#[test]
fn a_webhook_is_not_reinvoked_after_its_own_change() {
    let server = Server::start();
    let client = server.client();
    let only = Webhook::start(|review| Reply::Json(patch(review, &append(review, "x"))));
    configure(
        client,
        MUTATING,
        "m",
        &[hook("m.example.com", &only, &json!({"reinvocationPolicy": "IfNeeded"}))],
    );
    let created = client.post(CONFIG_MAPS, &config_map("c")).expect(201);
    assert_eq!((&created["data"]["order"], only.requests().len()), (&json!("x"), 1));
}

#[test]
fn a_patch_cannot_change_identity_and_duplicate_owners_are_dropped() {
    let server = Server::start();
    let client = server.client();
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u"});
    let cases = [
        json!([{"op": "replace", "path": "/kind", "value": "Secret"}]),
        json!([{"op": "replace", "path": "/apiVersion", "value": "v2"}]),
        json!([{"op": "replace", "path": "/metadata/namespace", "value": "kube-system"}]),
        json!([{"op": "remove", "path": "/none"}]),
        json!([{"op": "replace", "path": "", "value": "text"}]),
        json!([{"op": "add", "path": "/metadata/ownerReferences", "value": [owner, owner]}]),
    ];
    let expected = [500, 500, 400, 500, 500, 201];
    let next = AtomicUsize::new(0);
    let operations = cases.to_vec();
    let webhook = Webhook::start(move |review| {
        Reply::Json(patch(review, &operations[next.fetch_add(1, Ordering::Relaxed)]))
    });
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &json!({}))]);
    for (case, code) in cases.iter().zip(expected) {
        let answer = client.post(CONFIG_MAPS, &config_map("c"));
        assert_eq!(answer.status, code, "{case}: {}", answer.text());
    }
    let stored = client.get(format!("{CONFIG_MAPS}/c")).expect(200);
    assert_eq!(stored["metadata"]["ownerReferences"].as_array().map(Vec::len), Some(1));
    assert_eq!(client.get("/api/v1/namespaces/kube-system/configmaps/c").status, 404);
}

#[test]
fn invalid_field_owners_from_a_webhook_are_replaced() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| {
        let broken =
            json!([{"manager": "m", "operation": "Nonsense", "apiVersion": "v1", "fieldsType": "FieldsV1"}]);
        Reply::Json(patch(
            review,
            &json!([{"op": "add", "path": "/metadata/managedFields", "value": broken}]),
        ))
    });
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &json!({}))]);
    let answer = client.post(format!("{CONFIG_MAPS}?fieldManager=me"), &config_map("c"));
    assert_eq!(answer.expect(201)["metadata"]["managedFields"][0]["manager"], "me");
    assert!(answer.header("warning").contains("managedFields was in an invalid state after admission"));
}

#[test]
fn deletions_reach_mutating_webhooks_which_can_only_refuse_them() {
    let server = Server::start();
    let client = server.client();
    client.post(CONFIG_MAPS, &config_map("c")).expect(201);
    let asked = AtomicUsize::new(0);
    let webhook = Webhook::start(move |review| match asked.fetch_add(1, Ordering::Relaxed) {
        0 => Reply::Json(patch(review, &json!([{"op": "add", "path": "/data", "value": {}}]))),
        _ => Reply::Json(allow(review)),
    });
    let rules = json!({"rules": [{"operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]});
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &rules)]);
    let message = client.delete(format!("{CONFIG_MAPS}/c")).expect_failure(500, "InternalError");
    assert!(
        message.contains("attempted to modify the object, which is not supported for this operation"),
        "{message}"
    );
    client.delete(format!("{CONFIG_MAPS}/c")).expect(200);
}

#[test]
fn a_status_update_keeps_the_specification_whatever_a_webhook_patches() {
    let server = Server::start();
    let client = server.client();
    let namespaces = "/api/v1/namespaces";
    let webhook = Webhook::start(|review| {
        Reply::Json(patch(
            review,
            &json!([{"op": "add", "path": "/metadata/labels/by-webhook", "value": "yes"}]),
        ))
    });
    let rules = json!({"rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["namespaces"], "scope": "Cluster"}]});
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &rules)]);
    let namespace =
        json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n", "labels": {"a": "b"}}});
    let created = client.post(namespaces, &namespace).expect(201);
    assert_eq!(created["metadata"]["labels"]["by-webhook"], "yes");
    assert_eq!(webhook.requests()[0]["request"]["namespace"], "n", "a namespace is in itself");
}

#[test]
fn changed_options_of_a_session_are_those_that_count() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| {
        Reply::Json(patch(review, &json!([{"op": "add", "path": "/container", "value": "other"}])))
    });
    let rules = json!({"rules": [
        {"operations": ["CONNECT"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/exec"]},
    ]});
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &rules)]);
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"},
        "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "x"}]}});
    client.post(
        "/api/v1/namespaces/default/serviceaccounts",
        &json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}),
    );
    client.post("/api/v1/namespaces/default/pods", &pod).expect(201);
    let message = client
        .get("/api/v1/namespaces/default/pods/p/exec?command=ls&container=c&stdout=true")
        .expect_failure(400, "BadRequest");
    assert_eq!(message, "container other is not valid for pod p");
    let options = webhook.requests()[0]["request"]["object"].clone();
    assert_eq!((&options["container"], &options["command"]), (&json!("c"), &json!(["ls"])));
}

#[test]
fn a_new_object_gets_no_version_from_a_webhook() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| {
        Reply::Json(patch(
            review,
            &json!([{"op": "add", "path": "/metadata/resourceVersion", "value": "12"}]),
        ))
    });
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &json!({}))]);
    let message = client.post(CONFIG_MAPS, &config_map("c")).expect_failure(500, "");
    assert_eq!(message, "resourceVersion should not be set on objects to be created");
    client.get(format!("{CONFIG_MAPS}/c")).expect_failure(404, "NotFound");
}
