//! Custom objects: pruning, defaults, validation, rules, subresources, apply, tables, selectors, formats.

use corten_testkit::{Client, Request, Server};
use serde_json::{Value, json};

use crate::{WIDGETS, any, definition, install, widget};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";

/// Widgets as an operator would define them.
fn rich() -> Value {
    let mut definition = definition(&json!({
        "spec": {
            "type": "object",
            "required": ["size"],
            "properties": {
                "size": {"type": "integer", "minimum": 0, "maximum": 10},
                "least": {"type": "integer", "default": 1},
                "color": {"type": "string", "enum": ["red", "blue"], "maxLength": 10, "default": "red"},
                "ports": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {
                        "type": "object", "required": ["name"],
                        "properties": {"name": {"type": "string"}, "port": {"type": "integer"}},
                    },
                },
                "template": {
                    "type": "object", "x-kubernetes-embedded-resource": true,
                    "x-kubernetes-preserve-unknown-fields": true,
                },
                "limit": {"x-kubernetes-int-or-string": true},
                "fixed": {
                    "type": "string",
                    "x-kubernetes-validations": [{"rule": "self == oldSelf", "message": "fixed is immutable"}],
                },
            },
            "x-kubernetes-validations": [{
                "rule": "self.least <= self.size", "messageExpression": "self.color + ' is too small'",
                "reason": "FieldValueForbidden", "fieldPath": ".size",
            }],
        },
        "status": {"type": "object", "properties": {"replicas": {"type": "integer"}, "selector": {"type": "string"}}},
    }));
    let version = &mut definition["spec"]["versions"][0];
    version["subresources"] = json!({
        "status": {},
        "scale": {
            "specReplicasPath": ".spec.size", "statusReplicasPath": ".status.replicas",
            "labelSelectorPath": ".status.selector",
        },
    });
    version["additionalPrinterColumns"] = json!([
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Ports", "type": "string", "jsonPath": ".spec.ports[*].name", "priority": 1},
    ]);
    version["selectableFields"] = json!([{"jsonPath": ".spec.color"}]);
    definition
}

fn started() -> Server {
    let server = Server::start();
    install(server.client(), &rich());
    server
}

fn create(client: &Client, name: &str, spec: &Value) -> Value {
    client.post(WIDGETS, &widget(name, spec)).expect(201)
}

#[test]
fn objects_are_pruned_and_defaulted() {
    let server = started();
    let client = server.client();
    let spec = json!({
        "size": 3, "unknown": 1, "ports": [{"name": "http", "port": 80, "extra": true}], "limit": "10%",
        "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "bogus": 1}, "any": {"thing": 1}},
    });
    let created = create(client, "w", &spec);
    assert_eq!(
        created["spec"],
        json!({
            "size": 3, "least": 1, "color": "red", "ports": [{"name": "http", "port": 80}], "limit": "10%",
            "template": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "any": {"thing": 1}},
        })
    );
    assert_eq!(created["metadata"]["generation"], 1);
    let strict = format!("{WIDGETS}?fieldValidation=Strict");
    let message = client.post(strict, &widget("x", &spec)).expect_failure(400, "BadRequest");
    for field in ["spec.unknown", "spec.ports[0].extra"] {
        assert!(message.contains(&format!("unknown field \"{field}\"")), "{message}");
    }
    let warned = client.post(format!("{WIDGETS}?fieldValidation=Warn"), &widget("y", &spec));
    assert!(warned.header("warning").contains("unknown field"), "{}", warned.header("warning"));
}

#[test]
fn invalid_objects_are_refused() {
    let server = started();
    let client = server.client();
    for (spec, expected) in [
        (json!({}), "spec.size: Required value"),
        (
            json!({"size": 11}),
            "spec.size: Invalid value: 11: spec.size in body should be less than or equal to 10",
        ),
        (
            json!({"size": "1"}),
            r#"spec.size: Invalid value: "string": spec.size in body must be of type integer: "string""#,
        ),
        (
            json!({"size": 1, "color": "green"}),
            r#"spec.color: Unsupported value: "green": supported values: "red", "blue""#,
        ),
        (json!({"size": 1, "least": 2}), "spec.size: Forbidden: red is too small"),
        (
            json!({"size": 1, "ports": [{"name": "a"}, {"name": "a"}]}),
            r#"spec.ports[1]: Duplicate value: {"name":"a"}"#,
        ),
        (
            json!({"size": 1, "template": {}}),
            "spec.template.apiVersion: Required value, spec.template.kind: Required value",
        ),
    ] {
        let message = client.post(WIDGETS, &widget("w", &spec)).expect_failure(422, "Invalid");
        assert!(message.contains(expected), "{expected}: {message}");
    }
    create(client, "w", &json!({"size": 1, "fixed": "a"}));
    let change = client.patch(format!("{WIDGETS}/w"), "merge", &json!({"spec": {"fixed": "b"}}));
    let message = change.expect_failure(422, "Invalid");
    assert!(message.ends_with(r#"spec.fixed: Invalid value: "b": fixed is immutable"#), "{message}");
}

/// Upstream reads `1.0` as a number that is no integer until it is stored.
#[test]
fn rules_and_scales_refuse_integers_with_a_fraction() {
    let server = started();
    let client = server.client();
    let post = |name: &str, spec: &str| {
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{spec}}}"#
        );
        client.send(&Request::new("POST", WIDGETS).body("application/json", body.into_bytes()))
    };
    let message = post("a", r#"{"size":1.0}"#).expect_failure(422, "Invalid");
    let expected =
        ".spec.size: Invalid value: 0: .spec.size accessor error: 1 is of the type float64, expected int64";
    assert!(message.contains(expected), "{message}");
    let message = post("a", r#"{"size":1,"least":1.0}"#).expect_failure(422, "Invalid");
    assert!(message.contains("invalid data, expected int, got float64 evaluating rule"), "{message}");
    let message = post("a", r#"{"size":1e400}"#).expect_failure(400, "BadRequest");
    assert!(message.ends_with("cannot unmarshal number 1e400 into Go value of type float64"), "{message}");
    // Where no rule reads it, the number is stored as an integer.
    let stored = post("a", r#"{"size":1,"ports":[{"name":"p","port":80.0}]}"#).expect(201);
    assert_eq!(stored["spec"]["ports"][0]["port"], json!(80));
    let change = client.patch(format!("{WIDGETS}/a"), "merge", &json!({"spec": {"least": 1.0}}));
    change.expect_failure(422, "Invalid");
}

#[test]
fn invalid_parts_that_do_not_change_are_tolerated() {
    let server = started();
    let client = server.client();
    create(client, "w", &json!({"size": 9}));
    let mut narrow = rich();
    narrow["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]
        ["maximum"] = 5.into();
    let path = format!("{}/widgets.example.com", crate::DEFINITIONS);
    client.patch(path, "merge", &json!({"spec": {"versions": narrow["spec"]["versions"]}})).expect(200);
    let one = format!("{WIDGETS}/w");
    client.patch(&one, "merge", &json!({"metadata": {"labels": {"a": "b"}}})).expect(200);
    client.patch(&one, "merge", &json!({"spec": {"color": "blue"}})).expect(200);
    client.patch(&one, "merge", &json!({"spec": {"size": 8}})).expect_failure(422, "Invalid");
}

#[test]
fn status_and_scale_are_endpoints_of_their_own() {
    let server = started();
    let client = server.client();
    let mut sent = widget("w", &json!({"size": 2}));
    sent["status"] = json!({"replicas": 9});
    let created = client.post(WIDGETS, &sent).expect(201);
    assert!(created["status"].is_null(), "{created}");
    let one = format!("{WIDGETS}/w");
    let status = json!({"status": {"replicas": 1, "selector": "a=b"}, "spec": {"size": 7}});
    let updated = client.patch(format!("{one}/status"), "merge", &status).expect(200);
    assert_eq!((&updated["spec"]["size"], &updated["metadata"]["generation"]), (&json!(2), &json!(1)));
    let scale = client.get(format!("{one}/scale")).expect(200);
    assert_eq!(scale["apiVersion"], "autoscaling/v1");
    assert_eq!(
        (&scale["spec"]["replicas"], &scale["status"]),
        (&json!(2), &json!({"replicas": 1, "selector": "a=b"}))
    );
    client.patch(format!("{one}/scale"), "merge", &json!({"spec": {"replicas": 4}})).expect(200);
    let scaled = client.get(&one).expect(200);
    assert_eq!((&scaled["spec"]["size"], &scaled["metadata"]["generation"]), (&json!(4), &json!(2)));
    client
        .patch(format!("{one}/scale"), "merge", &json!({"spec": {"replicas": 40}}))
        .expect_failure(422, "Invalid");
}

#[test]
fn managers_own_the_fields_they_apply() {
    let server = started();
    let client = server.client();
    let apply = |manager: &str, query: &str, spec: Value| {
        let path = format!("{WIDGETS}/w?fieldManager={manager}{query}");
        client.patch(path, "apply", &widget("w", &spec))
    };
    apply("one", "", json!({"size": 2, "ports": [{"name": "a", "port": 1}]})).expect(201);
    apply("two", "", json!({"ports": [{"name": "b", "port": 2}]})).expect(200);
    let message = apply("two", "", json!({"size": 3})).expect_failure(409, "Conflict");
    assert_eq!(message, r#"Apply failed with 1 conflict: conflict with "one": .spec.size"#);
    let forced =
        apply("two", "&force=true", json!({"size": 3, "ports": [{"name": "b", "port": 3}]})).expect(200);
    assert_eq!(forced["spec"]["size"], 3);
    assert_eq!(forced["spec"]["ports"], json!([{"name": "a", "port": 1}, {"name": "b", "port": 3}]));
    let dropped = apply("two", "", json!({"size": 3})).expect(200);
    assert_eq!(dropped["spec"]["ports"], json!([{"name": "a", "port": 1}]), "its own items go");
}

#[test]
fn tables_metadata_and_selectors() {
    let server = started();
    let client = server.client();
    create(client, "a", &json!({"size": 1, "ports": [{"name": "x"}, {"name": "y"}]}));
    create(client, "b", &json!({"size": 2, "color": "blue"}));
    let table = client.send(&Request::new("GET", WIDGETS).accept(TABLE)).expect(200);
    let names: Vec<&Value> = table["columnDefinitions"]
        .as_array()
        .map_or(Vec::new(), |all| all.iter().map(|c| &c["name"]).collect());
    assert_eq!(names, ["Name", "Size", "Ports"]);
    assert_eq!(table["rows"][0]["cells"], json!(["a", 1, "x"]));
    let partial = client.send(&Request::new("GET", format!("{WIDGETS}/a")).accept(PARTIAL)).expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadata");

    let blue = client.get(format!("{WIDGETS}?fieldSelector=spec.color%3Dblue")).expect(200);
    assert_eq!(blue["items"].as_array().map(Vec::len), Some(1));
    client.get(format!("{WIDGETS}?fieldSelector=spec.size%3D1")).expect_failure(400, "BadRequest");
    let mut watch = client.watch(format!("{WIDGETS}?watch=true&fieldSelector=spec.color%3Dblue"));
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "b");
    client.patch(format!("{WIDGETS}/a"), "merge", &json!({"spec": {"color": "blue"}})).expect(200);
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "a");
    client.patch(format!("{WIDGETS}/b"), "merge", &json!({"spec": {"color": "red"}})).expect(200);
    assert_eq!(watch.expect("DELETED")["metadata"]["name"], "b");
    client.delete(format!("{WIDGETS}?fieldSelector=spec.color%3Dblue")).expect(200);
    let left = client.get(WIDGETS).expect(200);
    assert_eq!(left["items"][0]["metadata"]["name"], "b");
    assert_eq!(left["items"].as_array().map(Vec::len), Some(1));
}

#[test]
fn unsupported_formats_are_refused() {
    let server = started();
    let client = server.client();
    create(client, "w", &json!({"size": 1}));
    let one = format!("{WIDGETS}/w");
    client.patch(&one, "strategic-merge", &json!({})).expect_failure(415, "UnsupportedMediaType");
    let protobuf = "application/vnd.kubernetes.protobuf";
    client.send(&Request::new("GET", &one).accept(protobuf)).expect_status(406);
    let body = Request::new("POST", WIDGETS).body(protobuf, b"k8s\0".to_vec());
    client.send(&body).expect_failure(400, "BadRequest");
    let yaml = "apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: from-yaml}\nspec: {size: 2}\n";
    let created = client.send(&Request::new("POST", WIDGETS).body("application/yaml", yaml)).expect(201);
    assert_eq!(created["spec"]["size"], 2);
    let operations = json!([{"op": "replace", "path": "/spec/size", "value": 3}]);
    assert_eq!(client.patch(&one, "json", &operations).expect(200)["spec"]["size"], 3);
}

#[test]
fn cluster_scoped_objects() {
    let server = Server::start();
    let client = server.client();
    let mut definition = definition(&json!({"spec": any()}));
    definition["spec"]["scope"] = "Cluster".into();
    install(client, &definition);
    let created = client.post("/apis/example.com/v1/widgets", &widget("w", &json!({}))).expect(201);
    assert!(created["metadata"]["namespace"].is_null(), "{created}");
    client.post(WIDGETS, &widget("w", &json!({}))).expect_status(404);
}
