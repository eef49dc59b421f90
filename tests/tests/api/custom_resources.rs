//! Custom resources: what their definitions change in the responses to writes.

use corten_e2e::eventually;
use corten_testkit::{Client, Response, Server};
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const BOATS: &str = "/apis/harbour.example/v1/namespaces/default/boats";
const OLD_BOATS: &str = "/apis/harbour.example/v1old/namespaces/default/boats";

/// A kind with a stored version `v1` and a deprecated one that knows the same fields without defaults.
fn boats() -> Value {
    let version = |name: &str, storage: bool, flag: Value, status: Value| {
        json!({
            "name": name, "served": true, "storage": storage, "deprecated": !storage,
            "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {
                "spec": {"type": "object", "properties": {
                    "flag": flag,
                    "draught": {"type": "integer"},
                    "berth": {"x-kubernetes-int-or-string": true},
                    "cargo": {
                        "type": "object",
                        "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true},
                    },
                }},
                "status": status,
            }}},
        })
    };
    let moorings = json!({
        "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["rope"],
        "items": {"type": "object", "required": ["rope"], "properties": {"rope": {"type": "string"}}},
    });
    let status = json!({"type": "object", "properties": {"moorings": moorings}});
    let mut defaulted = status.clone();
    defaulted["default"] = json!({"moorings": [{"rope": "bow"}]});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.harbour.example"},
        "spec": {
            "group": "harbour.example", "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
            "versions": [
                version("v1", true, json!({"type": "string", "default": "white"}), defaulted),
                version("v1old", false, json!({"type": "string"}), status),
            ],
        },
    })
}

fn boat(version: &str, name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": format!("harbour.example/{version}"), "kind": "Boat",
        "metadata": {"name": name}, "spec": spec,
    })
}

fn is_established(client: &Client, name: &str) -> bool {
    let definition = client.get(format!("{DEFINITIONS}/{name}")).expect(200);
    let conditions = definition["status"]["conditions"].as_array().cloned().unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == "Established" && condition["status"] == "True")
}

fn with_boats() -> Server {
    let server = Server::start();
    server.client().post(DEFINITIONS, &boats()).expect(201);
    eventually("boats are served", || is_established(server.client(), "boats.harbour.example"));
    server
}

fn warnings(response: &Response) -> Vec<&str> {
    let named = response.headers.iter().filter(|(name, _)| name == "warning");
    named.map(|(_, value)| value.as_str()).collect()
}

#[test]
fn definitions_that_are_created_together_are_all_established() {
    let server = Server::start();
    let client = server.client();
    let names: Vec<String> = (0..30).map(|i| format!("boat{i}s")).collect();
    for plural in &names {
        let mut definition = boats();
        let singular = plural.trim_end_matches('s');
        definition["metadata"]["name"] = format!("{plural}.harbour.example").into();
        definition["spec"]["names"] = json!({
            "plural": plural, "singular": singular, "kind": singular, "listKind": format!("{singular}list"),
        });
        client.post(DEFINITIONS, &definition).expect(201);
    }
    for plural in &names {
        eventually(plural, || is_established(client, &format!("{plural}.harbour.example")));
    }
}

#[test]
fn a_new_object_has_the_defaults_of_the_stored_version() {
    let server = with_boats();
    let client = server.client();
    // A create drops the status; its default replaces it.
    let mut new = boat("v1", "a", &json!({}));
    new["status"] = json!({"moorings": [{"rope": "stern"}]});
    let created = client.post(BOATS, &new).expect(201);
    assert_eq!(created["status"], json!({"moorings": [{"rope": "bow"}]}));
    assert_eq!(client.get(format!("{BOATS}/a")).expect(200), created);
    // Another version sees the defaults of the stored one.
    let old = boat("v1old", "b", &json!({"draught": 3}));
    for response in [client.post(format!("{OLD_BOATS}?dryRun=All"), &old), client.post(OLD_BOATS, &old)] {
        let created = response.expect(201);
        assert_eq!(created["spec"], json!({"draught": 3, "flag": "white"}));
        assert_eq!(created["status"], json!({"moorings": [{"rope": "bow"}]}));
    }
}

#[test]
fn applied_configurations_are_typed_before_they_are_named_and_keep_their_nulls() {
    let server = with_boats();
    let client = server.client();
    let apply = |name: &str, spec: &Value| {
        client.patch(format!("{BOATS}/{name}?fieldManager=m"), "apply", &boat("v1", "a", spec))
    };
    let typed = apply("b", &json!({"draught": "deep"})).expect_failure(500, "");
    assert_eq!(
        typed,
        "failed to create typed patch object (/a; harbour.example/v1, Kind=Boat): .spec.draught: expected numeric (int or float), got string"
    );
    let named = apply("b", &json!({"draught": 1})).expect_failure(400, "BadRequest");
    assert_eq!(named, "the name of the object (a) does not match the name on the URL (b)");
    for spec in [json!({"draught": null}), json!({"berth": {"pier": 1}})] {
        apply("a", &spec).expect_failure(422, "Invalid");
    }
    let null = apply("a", &json!({"draught": null})).expect(422);
    assert_eq!(
        null["details"]["causes"][0]["message"],
        "Invalid value: \"null\": spec.draught in body must be of type integer: \"null\""
    );
    // A default replaces a null, and values without a type may be null.
    let applied = apply("a", &json!({"flag": null, "cargo": {"tea": null, "salt": 1}})).expect(201);
    assert_eq!(applied["spec"], json!({"flag": "white", "cargo": {"salt": 1}}));
}

#[test]
fn an_object_of_another_type_has_no_field_owners() {
    let server = with_boats();
    let mut new = boat("v1", "a", &json!({"draught": 2}));
    let owners = |new: &Value| {
        let created = server.client().post(format!("{BOATS}?dryRun=All&fieldManager=m"), new).expect(201);
        created["metadata"]["managedFields"].as_array().map_or(0, Vec::len)
    };
    assert_eq!(owners(&new), 1);
    // The status is dropped before it is validated, but not before its fields would be owned.
    for (status, expected) in [
        (json!({"moorings": "bow"}), 0),
        (json!({"moorings": [{}]}), 0),
        (json!({"moorings": [{"rope": "bow"}, {"rope": "bow"}]}), 1),
    ] {
        new["status"] = status;
        assert_eq!(owners(&new), expected, "{new}");
    }
}

#[test]
fn the_warning_of_a_deprecated_version_comes_first() {
    let server = with_boats();
    let mut old = boat("v1old", "a", &json!({}));
    old["spec"]["sail"] = 1.into();
    let response = server.client().post(OLD_BOATS, &old);
    response.expect(201);
    assert_eq!(
        warnings(&response),
        [
            "299 - \"harbour.example/v1old Boat is deprecated; use harbour.example/v1 Boat\"",
            "299 - \"unknown field \\\"spec.sail\\\"\"",
        ]
    );
}
