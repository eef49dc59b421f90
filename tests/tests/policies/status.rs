//! Type checks in the status of policies.

use corten_e2e::eventually;
use corten_testkit::Server;
use serde_json::json;

use crate::{GROUP, policy, rule};

#[test]
fn type_checks_are_written_into_the_status() {
    let server = Server::start_with(&["--disable=agent,scheduler,proxy,dns"]);
    let client = server.client();
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule("apps", "deployments")]},
        "validations": [{"expression": "object.spec.replicas > '1'"}, {"expression": "object.spec.replicas > 1"}],
    });
    client.post(format!("{GROUP}/validatingadmissionpolicies"), &policy("typed", &spec)).expect(201);
    let path = format!("{GROUP}/validatingadmissionpolicies/typed");
    eventually("it is checked", || client.get(path.clone()).json()["status"]["observedGeneration"] == 1);
    let status = client.get(path).expect(200)["status"].clone();
    let expected = "apps/v1, Kind=Deployment: ERROR: <input>:1:22: found no matching overload for '_>_' applied to '(int, string)'\n | object.spec.replicas > '1'\n | .....................^\n";
    assert_eq!(
        status["typeChecking"]["expressionWarnings"],
        json!([{"fieldRef": "spec.validations[0].expression", "warning": expected}])
    );
}

#[test]
fn custom_resources_are_type_checked() {
    let server = Server::start_with(&["--disable=agent,scheduler,proxy,dns"]);
    let client = server.client();
    let properties = json!({"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": "widgets", "singular": "widget", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": properties}}}],
        },
    });
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition).expect(201);
    let widgets = "/apis/example.com/v1/namespaces/default/widgets";
    eventually("widgets are served", || client.get(widgets).status == 200);
    let spec = json!({
        "matchConstraints": {"resourceRules": [rule("example.com", "widgets")]},
        "validations": [
            {"expression": "object.spec.size > 1 && object.metadata.labels.size() > 0"},
            {"expression": "object.spec.other > 1"},
        ],
    });
    client.post(format!("{GROUP}/validatingadmissionpolicies"), &policy("custom", &spec)).expect(201);
    let path = format!("{GROUP}/validatingadmissionpolicies/custom");
    eventually("it is checked", || client.get(path.clone()).json()["status"]["observedGeneration"] == 1);
    let warnings = client.get(path).expect(200)["status"]["typeChecking"]["expressionWarnings"].clone();
    let expected = "example.com/v1, Kind=Widget: ERROR: <input>:1:12: undefined field 'other'\n | object.spec.other > 1\n | ...........^\n";
    assert_eq!(warnings, json!([{"fieldRef": "spec.validations[1].expression", "warning": expected}]));
}
