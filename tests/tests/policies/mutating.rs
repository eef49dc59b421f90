//! Mutating policies: configurations, JSON patches, order, reinvocation, failures.

use corten_testkit::Server;
use serde_json::{Value, json};

use crate::{CONFIG_MAPS, GROUP, config_map, create, install, install_mutating, validations};

fn apply(expression: &str) -> Value {
    json!({"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": expression}})
}

fn patch(expression: &str) -> Value {
    json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}})
}

#[test]
fn objects_are_changed_before_they_are_validated() {
    let server = Server::start();
    let client = server.client();
    let mutations = [
        apply(
            "Object{metadata: Object.metadata{labels: {'owner': request.userInfo.username.replace(':', '.')}}}",
        ),
        patch(
            "[JSONPatch{op: 'add', path: '/metadata/annotations', value: {'size': string(object.metadata.labels.size())}}]",
        ),
    ];
    install_mutating(client, "labels", &json!({"mutations": mutations}), &json!({}));
    install(client, "labelled", &validations("object.metadata.labels.owner == 'system.admin'"), &json!({}));
    let created = create(client, "a", &json!({"k": "v"})).expect(201);
    assert_eq!(created["metadata"]["annotations"], json!({"size": "1"}));
    assert_eq!(created["data"], json!({"k": "v"}));
    // Every way to write is mutated.
    let patched = client
        .patch(format!("{CONFIG_MAPS}/a"), "merge", &json!({"metadata": {"labels": {"owner": null}}}))
        .expect(200);
    assert!(patched["metadata"]["labels"]["owner"].is_string(), "{patched}");
}

#[test]
fn lists_merge_by_their_keys() {
    let server = Server::start();
    let client = server.client();
    let spec = json!({
        "matchConstraints": {"resourceRules": [
            {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["pods"]},
        ]},
        "matchConditions": [{"name": "once", "expression": "!object.spec.?initContainers.orValue([]).exists(c, c.name == 'sidecar')"}],
        "mutations": [apply("Object{spec: Object.spec{initContainers: [Object.spec.initContainers{name: 'sidecar', image: 'mesh', restartPolicy: 'Always'}], \
            containers: object.spec.containers.map(c, Object.spec.containers{name: c.name, env: [Object.spec.containers.env{name: 'ADDED', value: '1'}]})}}")],
        "reinvocationPolicy": "IfNeeded",
    });
    install_mutating(client, "sidecars", &spec, &json!({}));
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": {"containers": [
        {"name": "main", "image": "app", "env": [{"name": "OWN", "value": "0"}]}]}});
    let created = client.post("/api/v1/namespaces/default/pods", &pod).expect(201);
    assert_eq!(created["spec"]["initContainers"][0]["name"], "sidecar");
    assert_eq!(created["spec"]["initContainers"][0]["imagePullPolicy"], "Always", "defaults are set again");
    let env = &created["spec"]["containers"][0]["env"];
    assert_eq!(env, &json!([{"name": "OWN", "value": "0"}, {"name": "ADDED", "value": "1"}]));
    assert_eq!(created["spec"]["containers"][0]["image"], "app");
}

#[test]
fn earlier_policies_are_reinvoked_if_they_ask_for_it() {
    let server = Server::start();
    let client = server.client();
    let count = |key: &str| {
        format!("Object{{data: {{'{key}': string(int(object.?data['{key}'].orValue('0')) + 1)}}}}")
    };
    let spec =
        |key: &str, policy: &str| json!({"mutations": [apply(&count(key))], "reinvocationPolicy": policy});
    install_mutating(client, "a", &spec("a", "IfNeeded"), &json!({}));
    install_mutating(client, "b", &spec("b", "Never"), &json!({}));
    install_mutating(client, "c", &spec("c", "Never"), &json!({}));
    let created = create(client, "x", &json!({})).expect(201);
    assert_eq!(created["data"], json!({"a": "2", "b": "1", "c": "1"}));
}

#[test]
fn failures_deny_or_are_ignored() {
    let server = Server::start();
    let client = server.client();
    let wrong = |policy: &str| json!({"failurePolicy": policy, "mutations": [apply("Object{metadata: Object.wrong{}}")]});
    install_mutating(client, "ignored", &wrong("Ignore"), &json!({}));
    create(client, "a", &json!({})).expect(201);
    install_mutating(client, "fails", &wrong("Fail"), &json!({}));
    let message = create(client, "b", &json!({})).expect_failure(403, "Invalid");
    assert_eq!(
        message,
        "policy 'fails' with binding 'fails' denied request: type mismatch: unexpected type name \"Object.wrong\", expected \"Object.metadata\", which matches field name path from root Object type"
    );
    client.delete(format!("{GROUP}/mutatingadmissionpolicybindings/fails")).expect(200);
    create(client, "b", &json!({})).expect(201);
}

#[test]
fn a_mutation_that_makes_an_object_invalid_is_refused() {
    let server = Server::start();
    let client = server.client();
    install_mutating(
        client,
        "bad",
        &json!({"mutations": [patch("[JSONPatch{op: 'add', path: '/metadata/labels', value: {'a': 'not valid!'}}]")]}),
        &json!({}),
    );
    create(client, "a", &json!({})).expect_failure(422, "Invalid");
    client.delete(format!("{GROUP}/mutatingadmissionpolicies/bad")).expect(200);
    // The kind of an object cannot be changed.
    install_mutating(
        client,
        "kind",
        &json!({"mutations": [patch("[JSONPatch{op: 'replace', path: '/kind', value: 'Secret'}]")]}),
        &json!({}),
    );
    assert!(client.post(CONFIG_MAPS, &config_map("b", &json!({}))).json()["code"].as_i64() >= Some(400));
}
