//! The life of a definition: acceptance, conflicts, discovery, OpenAPI, deletion, restarts.

use corten_e2e::eventually;
use corten_testkit::{Request, Server};
use serde_json::{Value, json};

use crate::{DEFINITIONS, WIDGETS, any, condition, definition, install, widget};

const ONE: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com";

#[test]
fn a_definition_is_served_until_it_is_deleted() {
    let server = Server::start();
    let client = server.client();
    client.get(WIDGETS).expect_status(404);
    install(client, &definition(&json!({"spec": any()})));
    let list = client.get(WIDGETS).expect(200);
    assert_eq!((list["kind"].as_str(), list["items"].as_array()), (Some("WidgetList"), Some(&Vec::new())));

    let group = client.get("/apis/example.com").expect(200);
    assert_eq!(group["preferredVersion"]["groupVersion"], "example.com/v1");
    let resources = client.get("/apis/example.com/v1").expect(200);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["wd"]));
    eventually("its APIService is created", || {
        let service = client.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com");
        service.status == 200 && service.expect(200)["spec"]["groupPriorityMinimum"] == 1000
    });
    let openapi = client.get("/openapi/v3/apis/example.com/v1").expect(200);
    assert!(openapi["components"]["schemas"]["com.example.v1.Widget"].is_object(), "{openapi}");

    client.post(WIDGETS, &widget("w", &json!({}))).expect(201);
    client.delete(ONE).expect(200);
    eventually("the definition is removed", || client.get(ONE).status == 404);
    client.get(WIDGETS).expect_status(404);
    client.get("/apis/example.com").expect_status(404);
    client.get("/openapi/v3/apis/example.com/v1").expect_status(404);
    eventually("its APIService is removed", || {
        client.get("/apis/apiregistration.k8s.io/v1/apiservices/v1.example.com").status == 404
    });
    install(client, &definition(&json!({"spec": any()})));
    assert_eq!(client.get(WIDGETS).expect(200)["items"], json!([]), "its objects were removed");
}

#[test]
fn finalizers_of_objects_hold_a_deleted_definition() {
    let server = Server::start();
    let client = server.client();
    install(client, &definition(&json!({"spec": any()})));
    let mut held = widget("held", &json!({}));
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    client.post(WIDGETS, &held).expect(201);
    client.post(WIDGETS, &widget("free", &json!({}))).expect(201);
    client.delete(ONE).expect(200);
    eventually("free objects are removed", || client.get(format!("{WIDGETS}/free")).status == 404);
    let (status, _) = condition(client, "widgets.example.com", "Terminating");
    assert_eq!(status, "True");
    let message = client.post(WIDGETS, &widget("late", &json!({}))).expect_failure(403, "Forbidden");
    assert!(
        message.ends_with("create not allowed while custom resource definition is terminating"),
        "{message}"
    );
    client.patch(format!("{WIDGETS}/held"), "merge", &json!({"metadata": {"finalizers": null}})).expect(200);
    eventually("the definition is removed", || client.get(ONE).status == 404);
}

#[test]
fn a_name_belongs_to_the_first_definition() {
    let server = Server::start();
    let client = server.client();
    install(client, &definition(&json!({"spec": any()})));
    let mut second = definition(&json!({"spec": any()}));
    second["metadata"]["name"] = "gadgets.example.com".into();
    second["spec"]["names"] =
        json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget", "shortNames": ["wd"]});
    client.post(DEFINITIONS, &second).expect(201);
    eventually("the conflict is reported", || {
        condition(client, "gadgets.example.com", "NamesAccepted")
            == ("False".into(), "ShortNamesConflict".into())
    });
    client.get("/apis/example.com/v1/namespaces/default/gadgets").expect_status(404);
    client.delete(ONE).expect(200);
    eventually("the name is free", || condition(client, "gadgets.example.com", "Established").0 == "True");
    client.get("/apis/example.com/v1/namespaces/default/gadgets").expect(200);
}

#[test]
fn a_changed_schema_holds_at_once() {
    let server = Server::start();
    let client = server.client();
    let mut current =
        definition(&json!({"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}));
    install(client, &current);
    let before = client.get("/openapi/v3").expect(200)["paths"]["apis/example.com/v1"].clone();
    client.post(WIDGETS, &widget("w", &json!({"size": 1}))).expect(201);
    for size in [json!({"type": "integer", "maximum": 5}), json!({"type": "integer", "maximum": 3})] {
        current["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"] =
            size.clone();
        client.patch(ONE, "merge", &json!({"spec": {"versions": current["spec"]["versions"]}})).expect(200);
        let limit = size["maximum"].as_i64().unwrap_or_default();
        let path = format!("{WIDGETS}/w");
        client.patch(&path, "merge", &json!({"spec": {"size": limit + 1}})).expect_failure(422, "Invalid");
        client.patch(&path, "merge", &json!({"spec": {"size": limit}})).expect(200);
    }
    let after = client.get("/openapi/v3").expect(200)["paths"]["apis/example.com/v1"].clone();
    assert_ne!(before, after, "the document has a new hash");
}

#[test]
fn watches_end_when_the_definition_changes_or_goes() {
    let server = Server::start();
    let client = server.client();
    install(client, &definition(&json!({"spec": any()})));
    client.post(WIDGETS, &widget("w", &json!({}))).expect(201);
    let mut watch = client.watch(format!("{WIDGETS}?watch=true"));
    watch.expect("ADDED");
    client.delete(ONE).expect(200);
    let mut last = String::new();
    while let Ok(event) = watch.try_next() {
        last = event["type"].as_str().unwrap_or_default().to_owned();
    }
    assert_eq!(last, "DELETED", "watchers see the removal of the objects");
}

#[test]
fn definitions_and_objects_survive_a_kill() {
    let mut server = Server::start();
    install(server.client(), &definition(&json!({"spec": any()})));
    let created = server.client().post(WIDGETS, &widget("w", &json!({"a": [1.5, {"b": null}]}))).expect(201);
    server.kill_9();
    server.restart();
    assert_eq!(server.client().get(format!("{WIDGETS}/w")).expect(200), created);
    server.client().delete(ONE).expect(200);
    eventually("the definition is removed", || server.client().get(ONE).status == 404);
}

#[test]
fn invalid_definitions_are_refused_with_upstreams_messages() {
    let server = Server::start();
    let client = server.client();
    let schema = |schema: Value| {
        let mut definition = definition(&json!({}));
        definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = schema;
        definition
    };
    let named = |name: &str| {
        let mut definition = definition(&json!({"spec": any()}));
        definition["metadata"]["name"] = name.into();
        definition
    };
    for (definition, expected) in [
        (named("gadgets.example.com"), r#"must be spec.names.plural+"."+spec.group"#),
        (schema(json!({"type": "string"})), r#"Invalid value: "string": must be object at the root"#),
        (
            schema(json!({"type": "object", "properties": {"a": {}}})),
            "properties[a].type: Required value: must not be empty for specified object fields",
        ),
        (
            schema(json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "("}}})),
            "must be a valid regular expression",
        ),
        (
            schema(json!({"type": "object", "properties": {"a": {"type": "integer", "default": "one"}}})),
            r#"properties[a].default: Invalid value: "string":  in body must be of type integer: "string""#,
        ),
        (
            schema(json!({"type": "object", "x-kubernetes-validations": [{"rule": "self.nothing > 1"}]})),
            "undefined field 'nothing'",
        ),
        (
            schema(
                json!({"type": "object", "properties": {"a": {"type": "array", "items": {"type": "string"},
                "x-kubernetes-validations": [{"rule": "self.all(x, self.all(y, x == y))"}]}}}),
            ),
            "estimated rule cost exceeds budget by factor of",
        ),
    ] {
        let message = client.post(DEFINITIONS, &definition).expect_failure(422, "Invalid");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    client.get(ONE).expect_status(404);
}

#[test]
fn aggregated_discovery_lists_custom_resources() {
    let server = Server::start();
    let client = server.client();
    install(client, &definition(&json!({"spec": any()})));
    const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let groups = client.send(&Request::new("GET", "/apis").accept(AGGREGATED)).expect(200);
    let group = groups["items"]
        .as_array()
        .and_then(|all| all.iter().find(|g| g["metadata"]["name"] == "example.com"));
    let resource = &group.expect("the group")["versions"][0]["resources"][0];
    assert_eq!(resource["responseKind"], json!({"group": "example.com", "version": "v1", "kind": "Widget"}));
    assert_eq!(resource["categories"], json!(["all"]));
}
