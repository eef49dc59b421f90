//! Parameters: built-in and custom ones, by name and by selector, and those that do not exist.

use corten_e2e::eventually;
use corten_testkit::Server;
use serde_json::{Value, json};

use crate::{CONFIG_MAPS, config_map, create, install};

fn spec() -> Value {
    json!({
        "paramKind": {"apiVersion": "v1", "kind": "ConfigMap"},
        "matchConditions": [{"name": "not-params", "expression": "!object.metadata.name.startsWith('limit')"}],
        "validations": [{"expression": "object.metadata.name.size() <= int(params.data.most)",
            "messageExpression": "'at most ' + params.data.most + ' by ' + params.metadata.name"}],
    })
}

#[test]
fn parameters_by_name_and_selector() {
    let server = Server::start();
    let client = server.client();
    let reference =
        json!({"paramRef": {"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"}});
    install(client, "by-name", &spec(), &reference);
    let message = create(client, "a", &json!({})).expect_failure(422, "Invalid");
    assert!(
        message.ends_with("denied request: failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"),
        "{message}"
    );
    create(client, "limit", &json!({"most": "3"})).expect_failure(422, "Invalid");
    client
        .delete("/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/by-name")
        .expect(200);
    create(client, "limit", &json!({"most": "3"})).expect(201);
    let reference = json!({"paramRef": {"name": "limit", "parameterNotFoundAction": "Allow"}});
    install(client, "own-namespace", &spec(), &reference);
    create(client, "abc", &json!({})).expect(201);
    let message = create(client, "abcd", &json!({})).expect_failure(422, "Invalid");
    assert!(message.ends_with("at most 3 by limit"), "{message}");
    // Without parameters in the namespace of the request the policy does not apply.
    client.post("/api/v1/namespaces/kube-public/configmaps", &config_map("abcd", &json!({}))).expect(201);
    // A change counts at once.
    client.put(format!("{CONFIG_MAPS}/limit"), &config_map("limit", &json!({"most": "4"}))).expect(200);
    create(client, "abcd", &json!({})).expect(201);

    let mut labelled = config_map("limit-two", &json!({"most": "2"}));
    labelled["metadata"]["labels"] = json!({"limits": "yes"});
    client.post(CONFIG_MAPS, &labelled).expect(201);
    let reference = json!({"paramRef": {"selector": {"matchLabels": {"limits": "yes"}}, "parameterNotFoundAction": "Deny"}});
    install(client, "selected", &spec(), &reference);
    let message = create(client, "xyz", &json!({})).expect_failure(422, "Invalid");
    assert!(message.ends_with("at most 2 by limit-two"), "{message}");
}

#[test]
fn custom_resources_as_parameters() {
    let server = Server::start();
    let client = server.client();
    let mut wanted = spec();
    wanted["paramKind"] = json!({"apiVersion": "example.com/v1", "kind": "Limit"});
    wanted["validations"] = json!([{"expression": "object.metadata.name.size() <= params.spec.most"}]);
    let reference = json!({"paramRef": {"name": "strict", "parameterNotFoundAction": "Deny"}});
    install(client, "custom", &wanted, &reference);
    let message = create(client, "a", &json!({})).expect_failure(422, "Invalid");
    assert!(
        message.ends_with("ValidatingAdmissionPolicy 'custom' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"),
        "{message}"
    );
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "limits.example.com"},
        "spec": {"group": "example.com", "scope": "Cluster", "names": {"plural": "limits", "singular": "limit", "kind": "Limit"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object",
                "properties": {"spec": {"type": "object", "properties": {"most": {"type": "integer"}}}}}}}]},
    });
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).expect(201);
    let limit = json!({"apiVersion": "example.com/v1", "kind": "Limit", "metadata": {"name": "strict"}, "spec": {"most": 2}});
    eventually("limits are served", || client.post("/apis/example.com/v1/limits", &limit).status == 201);
    create(client, "ab", &json!({})).expect(201);
    create(client, "abc", &json!({})).expect_failure(422, "Invalid");
}
