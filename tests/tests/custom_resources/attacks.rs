//! Definitions and objects that try to exhaust or stop the server: each gets a response, and other requests are served
//! meanwhile.

use std::sync::atomic::{AtomicBool, Ordering};

use corten_testkit::{Client, Request, Server};
use serde_json::{Value, json};

use crate::{DEFINITIONS, WIDGETS, any, definition, install, widget};

/// Sends a request while another client checks the server's health; returns the status code.
fn attack(client: &Client, request: &Request) -> u16 {
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let health = scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                client.get("/livez").expect_status(200);
            }
        });
        let status = client.try_send(request).map_or(0, |response| response.status);
        is_over.store(true, Ordering::Relaxed);
        health.join().expect("the server responds all along");
        client.get("/readyz").expect_status(200);
        status
    })
}

fn post(path: &str, body: &Value) -> Request {
    Request::new("POST", path).json(body)
}

/// A definition with this schema of `spec`.
fn with_spec(spec: &Value) -> Value {
    definition(&json!({"spec": spec}))
}

fn nested(depth: usize, leaf: Value) -> Value {
    (0..depth).fold(leaf, |inner, _| json!({"type": "object", "properties": {"a": inner}}))
}

#[test]
fn hostile_schemas_are_refused_or_compiled_in_time() {
    let server = Server::start();
    let client = server.client();
    let string = json!({"type": "string"});
    let properties: serde_json::Map<String, Value> =
        (0..20_000).map(|i| (format!("field{i}"), string.clone())).collect();
    let wide = json!({"type": "object", "properties": properties});
    let rules: Vec<Value> = (0..5_000).map(|i| json!({"rule": format!("self.a != 'x{i}'")})).collect();
    let many_rules = json!({"type": "object", "properties": {"a": {"type": "string", "maxLength": 5}}, "x-kubernetes-validations": rules});
    let long_rule = json!({"type": "object", "x-kubernetes-validations": [{"rule": format!("{}true", "!".repeat(50_000))}]});
    let deep_rule = json!({"type": "object", "x-kubernetes-validations": [{"rule": format!("{}1{} == 1", "(".repeat(20_000), ")".repeat(20_000))}]});
    let wide_rule = json!({"type": "object", "x-kubernetes-validations": [{"rule": format!("{}true", "true && ".repeat(50_000))}]});
    let nested_macros = (0..30).fold("true".to_owned(), |inner, i| format!("[1,2].all(x{i}, {inner})"));
    let explosive = json!({"type": "object", "x-kubernetes-validations": [{"rule": nested_macros}]});
    let pattern = json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "((((a{1,100}){1,100}){1,100}){1,100})"}}});
    let default = json!({"type": "object", "default": {}, "properties": {"a": {"type": "array", "items": {"type": "string"}, "default": vec!["x"; 50_000]}}});
    for (what, spec, accepted) in [
        ("a deep schema", nested(200, string.clone()), None),
        ("a schema of 20,000 fields", wide, None),
        ("5,000 rules", many_rules, None),
        ("a rule of 50,000 operators", long_rule, Some(201)),
        ("a rule of 20,000 parentheses", deep_rule, Some(422)),
        ("a rule of 50,000 conjunctions", wide_rule, Some(422)),
        ("30 nested macros", explosive, Some(422)),
        ("a pattern that repeats repetitions", pattern, None),
        ("a large default", default, None),
    ] {
        let status = attack(client, &post(DEFINITIONS, &with_spec(&spec)));
        assert!(matches!(status, 201 | 400 | 413 | 422), "{what}: {status}");
        assert!(accepted.is_none_or(|expected| expected == status), "{what}: {status}");
        if status == 201 {
            let status = attack(client, &post(WIDGETS, &widget("w", &json!({"a": "a".repeat(1_000)}))));
            assert!(matches!(status, 201 | 404 | 422), "{what}: {status}");
            client.delete(format!("{DEFINITIONS}/widgets.example.com")).expect(200);
            corten_e2e::eventually(what, || {
                client.get(format!("{DEFINITIONS}/widgets.example.com")).status == 404
            });
        }
    }
}

#[test]
fn rules_stop_at_their_budget() {
    let server = Server::start();
    let client = server.client();
    // Accepted, because the estimate believes the limits; the budget of one object is smaller than their product.
    install(
        client,
        &with_spec(&json!({
            "type": "object",
            "properties": {"list": {
                "type": "array", "maxItems": 100_000, "items": {"type": "integer"},
                "x-kubernetes-validations": [{"rule": "self.all(x, x >= 0)"}],
            }},
        })),
    );
    let items = |count: i64| json!({"list": (0..count).collect::<Vec<_>>()});
    assert_eq!(attack(client, &post(WIDGETS, &widget("small", &items(1_000)))), 201);
    assert_eq!(attack(client, &post(WIDGETS, &widget("large", &items(90_000)))), 201);
}

#[test]
fn defaults_cannot_multiply_an_object() {
    let server = Server::start();
    let client = server.client();
    let text = "x".repeat(100_000);
    install(
        client,
        &with_spec(&json!({
            "type": "object",
            "properties": {"list": {"type": "array", "items": {"type": "object", "properties": {
                "n": {"type": "integer"}, "filler": {"type": "string", "default": text},
            }}}},
        })),
    );
    let items: Vec<Value> = (0..20_000).map(|_| json!({})).collect();
    assert_eq!(attack(client, &post(WIDGETS, &widget("w", &json!({"list": items})))), 413);
}

#[test]
fn patterns_take_linear_time() {
    let server = Server::start();
    let client = server.client();
    install(
        client,
        &with_spec(&json!({
            "type": "object", "properties": {"a": {"type": "string", "pattern": "^(a+)+$"}},
        })),
    );
    let text = format!("{}!", "a".repeat(1_000_000));
    assert_eq!(attack(client, &post(WIDGETS, &widget("w", &json!({"a": text})))), 422);
}

#[test]
fn deep_objects_are_refused() {
    let server = Server::start();
    let client = server.client();
    install(client, &definition(&json!({"spec": any()})));
    let body = format!(
        r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w"}},"spec":{}{}}}"#,
        r#"{"a":"#.repeat(50_000),
        "1".to_owned() + &"}".repeat(50_000)
    );
    let request = Request::new("POST", WIDGETS).body("application/json", body);
    let status = attack(client, &request);
    assert!(matches!(status, 400 | 413), "{status}");
}

/// An object that is accepted together with its managedFields must not be skipped when the server starts again.
#[test]
fn the_deepest_objects_survive_a_restart() {
    let mut server = Server::start();
    install(server.client(), &definition(&json!({"spec": any()})));
    // The document has 256 levels.
    for depth in [250, 254] {
        let body = format!("{}1{}", r#"{"a":"#.repeat(depth), "}".repeat(depth));
        let name = format!("deep-{depth}");
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"{name}"}},"spec":{body}}}"#
        );
        let request = Request::new("POST", WIDGETS).body("application/json", body);
        server.client().send(&request).expect_status(201);
    }
    server.restart();
    for depth in [250, 254] {
        let path = format!("{WIDGETS}/deep-{depth}");
        server.client().send(&Request::new("GET", &path)).expect_status(200);
        server.client().send(&Request::new("DELETE", &path)).expect_status(200);
    }
}

#[test]
fn a_user_without_permission_learns_nothing() {
    let server = Server::start();
    let client = server.client();
    install(client, &definition(&json!({"spec": any()})));
    client.post(WIDGETS, &widget("w", &json!({}))).expect(201);
    for request in [
        Request::new("GET", WIDGETS),
        Request::new("GET", format!("{WIDGETS}/w")),
        Request::new("GET", format!("{WIDGETS}?watch=true")),
        post(WIDGETS, &widget("x", &json!({}))),
        Request::new("DELETE", format!("{WIDGETS}/w")),
        post(DEFINITIONS, &definition(&json!({"spec": any()}))),
    ] {
        client.send(&request.header("impersonate-user", "mallory")).expect_failure(403, "Forbidden");
    }
}

#[test]
fn a_definition_cannot_show_objects_of_other_resources() {
    let server = Server::start();
    let client = server.client();
    let mut of_definitions = definition(&json!({"spec": any()}));
    of_definitions["metadata"] = json!({
        "name": "customresourcedefinitions.apiextensions.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    });
    of_definitions["spec"]["group"] = "apiextensions.k8s.io".into();
    of_definitions["spec"]["scope"] = "Cluster".into();
    of_definitions["spec"]["names"] = json!({
        "plural": "customresourcedefinitions", "singular": "customresourcedefinition", "kind": "CustomResourceDefinition",
    });
    of_definitions["spec"]["versions"][0]["name"] = "v2".into();
    of_definitions["spec"]["versions"][0]["schema"] = json!({"openAPIV3Schema": any()});
    client.post(DEFINITIONS, &of_definitions).expect(201);
    let name = "customresourcedefinitions.apiextensions.k8s.io";
    corten_e2e::eventually("its names are accepted", || {
        crate::condition(client, name, "NamesAccepted").0 == "True"
    });
    // Definitions that no validation has seen could name any place in the store as that of their objects.
    let forged = json!({"apiVersion": "apiextensions.k8s.io/v2", "kind": "CustomResourceDefinition", "metadata": {"name": "x"}});
    client.post("/apis/apiextensions.k8s.io/v2/customresourcedefinitions", &forged).expect_status(404);
    client.get("/apis/apiextensions.k8s.io/v2/customresourcedefinitions").expect_status(404);
    client.get(DEFINITIONS).expect(200);

    // Nor does a status that names another resource's plural.
    install(client, &definition(&json!({"spec": any()})));
    let mut gadgets = definition(&json!({"spec": any()}));
    gadgets["metadata"]["name"] = "gadgets.example.com".into();
    gadgets["spec"]["names"] = json!({"plural": "gadgets", "singular": "gadget", "kind": "Gadget"});
    install(client, &gadgets);
    let secret =
        json!({"apiVersion": "example.com/v1", "kind": "Gadget", "metadata": {"name": "g"}, "spec": {}});
    client.post("/apis/example.com/v1/namespaces/default/gadgets", &secret).expect(201);
    let status = format!("{DEFINITIONS}/widgets.example.com/status");
    for i in 0..20 {
        let names = json!({"status": {"acceptedNames": {"plural": "gadgets", "singular": format!("g{i}")}}});
        client.patch(&status, "merge", &names).expect_status(200);
        let list = client.get(WIDGETS);
        let items = if list.status == 200 { list.json()["items"].clone() } else { json!([]) };
        assert_eq!(items, json!([]), "objects of gadgets are shown as widgets");
    }
}

#[test]
fn numbers_and_field_sets_in_any_place_are_stored_as_they_are_shown() {
    let server = Server::start();
    let client = server.client();
    install(client, &with_spec(&any()));
    let managed = r#"{"metadata":{"managedFields":[{"fieldsV1":{"f:a":{}}}]}}"#;
    let table = [
        (
            r#"{"a":1.0,"b":1e3,"c":-0.0,"d":1.5,"e":1e21}"#,
            json!({"a": 1, "b": 1000, "c": 0, "d": 1.5, "e": 1e21}),
            // As upstream, `1.0` is another number than the stored `1`.
            2,
        ),
        (r#"{"fieldsV1":{"a":{}}}"#, json!({"fieldsV1": {"a": {}}}), 1),
        (managed, serde_json::from_str(managed).expect("JSON"), 1),
    ];
    for (at, (spec, expected, generation)) in table.iter().enumerate() {
        let body = format!(
            r#"{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{{"name":"w{at}"}},"spec":{spec}}}"#
        );
        let request = Request::new("POST", WIDGETS).body("application/json", body.clone());
        let created = client.send(&request).expect(201);
        assert_eq!(&created["spec"], expected, "{spec}");
        assert_eq!(&client.get(format!("{WIDGETS}/w{at}")).expect(200)["spec"], expected, "{spec}");
        // The same again changes no value.
        let again = Request::new("PUT", format!("{WIDGETS}/w{at}")).body(
            "application/json",
            body.replacen(
                "\"metadata\":{",
                &format!("\"metadata\":{{\"resourceVersion\":{},", created["metadata"]["resourceVersion"]),
                1,
            ),
        );
        let again = client.send(&again).expect(200);
        assert_eq!(
            (&again["spec"], &again["metadata"]["generation"]),
            (expected, &json!(generation)),
            "{spec}"
        );
    }
    let body =
        r#"{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"x"},"spec":{"a":1e400}}"#;
    let refused = client.send(&Request::new("POST", WIDGETS).body("application/json", body));
    assert_eq!(refused.status, 400, "{}", refused.text());
    client.get("/readyz").expect_status(200);
}
