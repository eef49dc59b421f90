//! The requests that webhooks get: selectors, match conditions, equivalent versions.

use corten_testkit::{Reply, Server, Webhook};
use serde_json::{Value, json};

use crate::{CONFIG_MAPS, MUTATING, VALIDATING, allow, config_map, configure, hook, patch};

#[test]
fn selectors_of_namespaces_and_objects_restrict_a_webhook() {
    let server = Server::start();
    let client = server.client();
    for (name, labels) in [("in", json!({"webhooks": "on"})), ("out", json!({}))] {
        let namespace =
            json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": labels}});
        client.post("/api/v1/namespaces", &namespace).expect(201);
    }
    let webhook = Webhook::start(|review| Reply::Json(allow(review)));
    let selectors = json!({
        "namespaceSelector": {"matchLabels": {"webhooks": "on"}},
        "objectSelector": {"matchExpressions": [{"key": "skip", "operator": "DoesNotExist"}]},
    });
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &selectors)]);
    let names = || -> Vec<String> {
        let requests = webhook.requests();
        requests.iter().filter_map(|review| review["request"]["name"].as_str().map(str::to_owned)).collect()
    };
    client.post("/api/v1/namespaces/in/configmaps", &config_map("yes")).expect(201);
    client.post("/api/v1/namespaces/out/configmaps", &config_map("no")).expect(201);
    let mut skipped = config_map("skipped");
    skipped["metadata"]["labels"] = json!({"skip": "1"});
    client.post("/api/v1/namespaces/in/configmaps", &skipped).expect(201);
    assert_eq!(names(), ["yes"]);
    // The old object counts, too: a label does not take an object out of a webhook's sight unseen.
    let labels = json!({"metadata": {"labels": {"skip": "1"}}});
    client.patch("/api/v1/namespaces/in/configmaps/yes", "merge", &labels).expect(200);
    assert_eq!(names(), ["yes", "yes"]);
}

#[test]
fn match_conditions_see_the_request_its_objects_and_the_users_permissions() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(allow(review)));
    let conditions = json!({"matchConditions": [
        {"name": "not-skipped", "expression": "!has(object.data.skip)"},
        {"name": "created", "expression": "request.operation == 'CREATE' && oldObject == null"},
        {"name": "trusted", "expression": "authorizer.group('').resource('secrets').namespace('default').check('get').allowed()"},
    ]});
    configure(client, VALIDATING, "v", &[hook("v.example.com", &webhook, &conditions)]);
    client.post(CONFIG_MAPS, &config_map("called")).expect(201);
    let mut skipped = config_map("skipped");
    skipped["data"]["skip"] = json!("1");
    client.post(CONFIG_MAPS, &skipped).expect(201);
    client.patch(format!("{CONFIG_MAPS}/called"), "merge", &json!({"data": {"b": "1"}})).expect(200);
    let names: Vec<Value> =
        webhook.requests().iter().map(|review| review["request"]["name"].clone()).collect();
    assert_eq!(names, [json!("called")]);
}

#[test]
fn a_match_condition_that_fails_follows_the_failure_policy() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(allow(review)));
    let failing = |policy: &str| json!({"failurePolicy": policy, "matchConditions": [{"name": "fails", "expression": "object.none.none == 1"}]});
    configure(client, VALIDATING, "ignored", &[hook("ignored.example.com", &webhook, &failing("Ignore"))]);
    client.post(CONFIG_MAPS, &config_map("a")).expect(201);
    configure(client, VALIDATING, "strict", &[hook("strict.example.com", &webhook, &failing("Fail"))]);
    let message = client.post(CONFIG_MAPS, &config_map("b")).expect_failure(403, "Forbidden");
    assert!(message.contains("no such key: none"), "{message}");
    assert_eq!(webhook.requests(), Vec::<Value>::new());
    let broken = json!({"matchConditions": [{"name": "broken", "expression": "object."}]});
    let configuration = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "broken"}, "webhooks": [hook("broken.example.com", &webhook, &broken)],
    });
    let message = client.post(VALIDATING, &configuration).expect_failure(422, "Invalid");
    assert!(message.contains("webhooks[0].matchConditions[0].expression"), "{message}");
}

#[test]
fn an_equivalent_version_is_converted_for_the_webhook_and_back() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| {
        // Only version 1 has this field.
        Reply::Json(patch(
            review,
            &json!([{"op": "replace", "path": "/spec/targetCPUUtilizationPercentage", "value": 33}]),
        ))
    });
    let rules = json!({"rules": [{"operations": ["CREATE"], "apiGroups": ["autoscaling"], "apiVersions": ["v1"], "resources": ["horizontalpodautoscalers"]}]});
    configure(client, MUTATING, "m", &[hook("m.example.com", &webhook, &rules)]);
    let autoscaler = json!({
        "apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"maxReplicas": 3, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}},
    });
    let created = client
        .post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", &autoscaler)
        .expect(201);
    assert_eq!(created["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 33);
    let request = webhook.requests()[0]["request"].clone();
    assert_eq!(
        (&request["kind"]["version"], &request["requestKind"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    assert_eq!(
        (&request["resource"]["version"], &request["requestResource"]["version"]),
        (&json!("v1"), &json!("v2"))
    );
    assert_eq!(request["object"]["apiVersion"], "autoscaling/v1");

    let exact =
        hook("exact.example.com", &webhook, &json!({"matchPolicy": "Exact", "rules": rules["rules"]}));
    client.delete(format!("{MUTATING}/m")).expect(200);
    configure(client, MUTATING, "exact", &[exact]);
    let mut other = autoscaler.clone();
    other["metadata"]["name"] = json!("other");
    client.post("/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers", &other).expect(201);
    assert_eq!(webhook.requests().len(), 1);
}
