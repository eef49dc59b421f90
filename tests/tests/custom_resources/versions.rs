//! Several versions of a resource, converted by the server or by a webhook, which may be honest, dead, slow or hostile.

use std::sync::{Mutex, mpsc};
use std::time::{Duration, Instant};

use corten_e2e::eventually;
use corten_testkit::{Client, DEADLINE, Reply, Request, Server, Webhook};
use serde_json::{Value, json};

use crate::{DEFINITIONS, WIDGETS, any, condition, definition, install, version, widget};

const WIDGETS2: &str = "/apis/example.com/v2/namespaces/default/widgets";

/// Widgets with two versions and this conversion.
fn two_versions(conversion: &Value) -> Value {
    let mut definition = definition(&json!({"spec": any()}));
    definition["spec"]["versions"] =
        json!([version("v1", &json!({"spec": any()})), version("v2", &json!({"spec": any()}))]);
    definition["spec"]["conversion"] = conversion.clone();
    definition
}

fn with_webhook(webhook: &Webhook) -> Value {
    two_versions(&json!({
        "strategy": "Webhook",
        "webhook": {"clientConfig": webhook.client_config("/convert"), "conversionReviewVersions": ["v1"]},
    }))
}

/// An honest webhook: `spec.size` of v1 is `spec.extent` of v2.
fn convert(review: &Value) -> Value {
    let request = &review["request"];
    let to = request["desiredAPIVersion"].clone();
    let (from_key, to_key) = if to == "example.com/v2" { ("size", "extent") } else { ("extent", "size") };
    let convert = |object: &Value| {
        let mut object = object.clone();
        object["apiVersion"] = to.clone();
        if let Some(size) = object["spec"].as_object_mut().and_then(|spec| spec.remove(from_key)) {
            object["spec"][to_key] = size;
        }
        object
    };
    let objects: Vec<Value> =
        request["objects"].as_array().map_or(Vec::new(), |all| all.iter().map(convert).collect());
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview",
        "response": {"uid": request["uid"], "convertedObjects": objects, "result": {"status": "Success"}},
    })
}

#[test]
fn without_a_conversion_only_the_version_changes() {
    let server = Server::start();
    let client = server.client();
    install(client, &two_versions(&json!({"strategy": "None"})));
    client.post(WIDGETS2, &json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"a": 1}})).expect(201);
    let (one, two) =
        (client.get(format!("{WIDGETS}/w")).expect(200), client.get(format!("{WIDGETS2}/w")).expect(200));
    assert_eq!(
        (&one["apiVersion"], &two["apiVersion"]),
        (&json!("example.com/v1"), &json!("example.com/v2"))
    );
    assert_eq!(one["spec"], two["spec"]);
    assert_eq!(client.get(WIDGETS2).expect(200)["items"][0]["apiVersion"], "example.com/v2");
    let wrong = client.post(WIDGETS2, &widget("x", &json!({})));
    wrong.expect_failure(400, "BadRequest");
}

#[test]
fn a_webhook_converts_reads_writes_lists_and_watches() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(convert(review)));
    install(client, &with_webhook(&webhook));
    client.post(WIDGETS, &widget("w", &json!({"size": 1}))).expect(201);
    assert_eq!(webhook.requests(), Vec::<Value>::new(), "the stored version needs no conversion");
    let two = client.get(format!("{WIDGETS2}/w")).expect(200);
    assert_eq!((&two["apiVersion"], &two["spec"]), (&json!("example.com/v2"), &json!({"extent": 1})));
    let review = &webhook.requests()[0];
    assert_eq!(
        (&review["kind"], &review["request"]["desiredAPIVersion"]),
        (&json!("ConversionReview"), &json!("example.com/v2"))
    );

    let new = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "x"}, "spec": {"extent": 2}});
    assert_eq!(client.post(WIDGETS2, &new).expect(201)["spec"], json!({"extent": 2}));
    assert_eq!(client.get(format!("{WIDGETS}/x")).expect(200)["spec"], json!({"size": 2}));
    let patched = client.patch(format!("{WIDGETS2}/x"), "merge", &json!({"spec": {"extent": 3}})).expect(200);
    assert_eq!((&patched["spec"], &patched["metadata"]["generation"]), (&json!({"extent": 3}), &json!(2)));
    let list = client.get(WIDGETS2).expect(200);
    let extents: Vec<&Value> =
        list["items"].as_array().map_or(Vec::new(), |all| all.iter().map(|i| &i["spec"]["extent"]).collect());
    assert_eq!(extents, [1, 3]);
    let mut watch = client.watch(format!("{WIDGETS2}?watch=true"));
    for expected in [json!({"extent": 1}), json!({"extent": 3})] {
        assert_eq!(watch.expect("ADDED")["spec"], expected);
    }
    client.patch(format!("{WIDGETS}/x"), "merge", &json!({"spec": {"size": 5}})).expect(200);
    assert_eq!(watch.expect("MODIFIED")["spec"], json!({"extent": 5}));
    client.delete(format!("{WIDGETS2}/x")).expect(200);
    assert_eq!(watch.expect("DELETED")["spec"], json!({"extent": 5}));
}

#[test]
fn objects_are_applied_in_both_versions_of_a_webhook() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(convert(review)));
    install(client, &with_webhook(&webhook));
    let apply = |version: &str, manager: &str, spec: Value| {
        let body = json!({"apiVersion": format!("example.com/{version}"), "kind": "Widget", "metadata": {"name": "w"}, "spec": spec});
        client.patch(
            format!("/apis/example.com/{version}/namespaces/default/widgets/w?fieldManager={manager}"),
            "apply",
            &body,
        )
    };
    apply("v1", "one", json!({"size": 1, "a": 1})).expect(201);
    let applied = apply("v2", "two", json!({"b": 2})).expect(200);
    assert_eq!(applied["spec"], json!({"extent": 1, "a": 1, "b": 2}));
    let message = apply("v2", "two", json!({"extent": 4})).expect_failure(409, "Conflict");
    assert!(message.contains(r#"conflict with "one""#), "{message}");
    let message = apply("v2", "two", json!({"a": 4, "b": 2})).expect_failure(409, "Conflict");
    assert!(message.contains(r#"conflict with "one": .spec.a"#), "{message}");
    let dropped = apply("v1", "one", json!({"size": 1})).expect(200);
    assert_eq!(dropped["spec"], json!({"size": 1, "b": 2}));
}

/// A client of a server whose webhook replies like this, with one stored object.
fn with_reply(reply: impl Fn(&Value) -> Reply + Send + Sync + 'static, check: impl FnOnce(&Client)) {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(reply);
    install(client, &with_webhook(&webhook));
    client.post(WIDGETS, &widget("w", &json!({"size": 1}))).expect(201);
    check(client);
    // The stored version and all other resources are served as before.
    assert_eq!(client.get(format!("{WIDGETS}/w")).expect(200)["spec"], json!({"size": 1}));
    client.get("/readyz").expect_status(200);
}

#[test]
fn dishonest_webhooks_change_nothing_but_the_object() {
    let answer = |change: fn(&mut Value)| {
        move |review: &Value| {
            let mut answer = convert(review);
            change(&mut answer);
            Reply::Json(answer)
        }
    };
    for (reply, expected) in [
        (answer(|a| a["response"]["uid"] = "another".into()), "expected response.uid="),
        (answer(|a| a["response"]["convertedObjects"] = json!([])), "returned 0 objects, expected 1"),
        (answer(|a| a["response"]["result"] = json!({"status": "Failure", "message": "no"})), "failed: no"),
        (answer(|a| a["kind"] = "Secret".into()), "failed: expected webhook response of"),
        (
            answer(|a| a["response"]["convertedObjects"][0]["metadata"]["name"] = "x".into()),
            "must have the same name",
        ),
        (
            answer(|a| a["response"]["convertedObjects"][0]["metadata"]["uid"] = "x".into()),
            "must have the same UID",
        ),
        (
            answer(|a| a["response"]["convertedObjects"][0]["metadata"]["namespace"] = "kube-system".into()),
            "must have the same namespace",
        ),
        (answer(|a| a["response"]["convertedObjects"][0]["kind"] = "Secret".into()), "invalid kind"),
        (
            answer(|a| a["response"]["convertedObjects"][0]["apiVersion"] = "v1".into()),
            "invalid groupVersion",
        ),
        (
            answer(|a| a["response"]["convertedObjects"][0]["metadata"]["labels"] = json!({"a": 1})),
            "invalid metadata",
        ),
    ] {
        with_reply(reply, |client| {
            let message = client.get(format!("{WIDGETS2}/w")).expect_failure(500, "");
            assert!(message.starts_with("conversion webhook for example.com/v1, Kind=Widget "), "{message}");
            assert!(message.contains(expected), "{expected}: {message}");
        });
    }
    with_reply(
        answer(|a| {
            a["response"]["convertedObjects"][0]["metadata"] = json!({"name": "w", "namespace": "default", "uid": a["response"]["convertedObjects"][0]["metadata"]["uid"],
               "resourceVersion": "1", "ownerReferences": [{}], "finalizers": ["x/y"], "labels": {"l": "1"}})
        }),
        |client| {
            let shown = client.get(format!("{WIDGETS2}/w")).expect(200);
            let stored = client.get(format!("{WIDGETS}/w")).expect(200);
            assert_eq!(shown["metadata"]["resourceVersion"], stored["metadata"]["resourceVersion"]);
            assert!(
                shown["metadata"]["ownerReferences"].is_null() && shown["metadata"]["finalizers"].is_null()
            );
            assert_eq!(shown["metadata"]["labels"], json!({"l": "1"}));
        },
    );
}

#[test]
fn broken_webhooks_fail_only_their_requests() {
    for (reply, expected) in [
        (
            Reply::Status(500, "overloaded".to_owned()),
            "an error on the server (\"overloaded\") has prevented the request from succeeding",
        ),
        (Reply::Bytes(b"not json".to_vec()), "failed: "),
        (Reply::Bytes(vec![b'['; 1 << 20]), "failed: "),
        (Reply::Endless, "failed: "),
        (Reply::Close, "failed: "),
    ] {
        with_reply(
            move |_| reply.clone(),
            |client| {
                let message = client.get(format!("{WIDGETS2}/w")).expect_failure(500, "");
                assert!(message.contains(expected), "{expected}: {message}");
                client.get(WIDGETS2).expect_failure(500, "");
                let new =
                    json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "x"}});
                client.post(WIDGETS2, &new).expect_failure(500, "");
                client.get(format!("{WIDGETS}/x")).expect_failure(404, "NotFound");
            },
        );
    }
}

#[test]
fn a_silent_webhook_delays_no_other_request() {
    with_reply(
        |_| Reply::Silence,
        |client| {
            std::thread::scope(|scope| {
                let waiting = scope.spawn(|| client.get(format!("{WIDGETS2}/w")));
                let others = Instant::now();
                while others.elapsed() < Duration::from_secs(1) {
                    client.get(format!("{WIDGETS}/w")).expect(200);
                    client
                        .patch(format!("{WIDGETS}/w"), "merge", &json!({"metadata": {"labels": {"a": "b"}}}))
                        .expect(200);
                }
                assert!(!waiting.is_finished());
                let message = waiting.join().expect("a response").expect_failure(500, "");
                assert!(message.ends_with("context deadline exceeded"), "{message}");
            });
        },
    );
}

#[test]
fn a_webhook_with_another_certificate_is_not_trusted() {
    let server = Server::start();
    let client = server.client();
    let (webhook, other) = (Webhook::start(|r| Reply::Json(convert(r))), Webhook::start(|_| Reply::Close));
    let mut definition = with_webhook(&webhook);
    definition["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] =
        other.client_config("")["caBundle"].clone();
    install(client, &definition);
    client.post(WIDGETS, &widget("w", &json!({}))).expect(201);
    client.get(format!("{WIDGETS2}/w")).expect_failure(500, "");
    assert_eq!(webhook.requests(), Vec::<Value>::new());
}

#[test]
fn storage_migrates_by_rewriting_objects() {
    let server = Server::start();
    let client = server.client();
    let definition = two_versions(&json!({"strategy": "None"}));
    install(client, &definition);
    client.post(WIDGETS, &widget("w", &json!({"a": 1}))).expect(201);
    let mut versions = definition["spec"]["versions"].clone();
    versions[0]["storage"] = false.into();
    versions[1]["storage"] = true.into();
    let one = format!("{DEFINITIONS}/widgets.example.com");
    client.patch(&one, "merge", &json!({"spec": {"versions": versions}})).expect(200);
    assert_eq!(client.get(&one).expect(200)["status"]["storedVersions"], json!(["v1", "v2"]));
    let stored = client.get(format!("{WIDGETS2}/w")).expect(200);
    client.put(format!("{WIDGETS2}/w"), &stored).expect(200);
    // A version with stored objects cannot go; one without can.
    let only = json!({"spec": {"versions": [versions[1]]}});
    client.patch(&one, "merge", &only).expect_failure(422, "Invalid");
    client
        .patch(format!("{one}/status"), "merge", &json!({"status": {"storedVersions": ["v2"]}}))
        .expect(200);
    client.patch(&one, "merge", &only).expect(200);
    assert_eq!(client.get(format!("{WIDGETS2}/w")).expect(200)["spec"], json!({"a": 1}));
    client.get(WIDGETS).expect_status(404);
    assert_eq!(condition(client, "widgets.example.com", "Established").0, "True");
}

#[test]
fn deprecated_versions_warn() {
    let server = Server::start();
    let client = server.client();
    let mut definition = two_versions(&json!({"strategy": "None"}));
    definition["spec"]["versions"][0]["deprecated"] = true.into();
    install(client, &definition);
    let response = client.send(&Request::new("GET", WIDGETS));
    assert!(
        response.header("warning").contains("example.com/v1 Widget is deprecated; use example.com/v2 Widget"),
        "{}",
        response.header("warning")
    );
}

#[test]
fn selectors_see_the_version_that_is_asked_for() {
    let server = Server::start();
    let client = server.client();
    let webhook = Webhook::start(|review| Reply::Json(convert(review)));
    let mut definition = with_webhook(&webhook);
    let text = |field: &str| json!({"spec": {"type": "object", "properties": {field: {"type": "string"}}}});
    definition["spec"]["versions"] = json!([version("v1", &text("size")), version("v2", &text("extent"))]);
    definition["spec"]["versions"][1]["selectableFields"] = json!([{"jsonPath": ".spec.extent"}]);
    install(client, &definition);
    client.post(WIDGETS, &widget("hit", &json!({"size": "a"}))).expect(201);
    client.post(WIDGETS, &widget("miss", &json!({"size": "b"}))).expect(201);
    let names = |selector: &str| -> Vec<String> {
        let list = client.get(format!("{WIDGETS2}?fieldSelector={selector}")).expect(200);
        let items = list["items"].as_array().cloned().unwrap_or_default();
        items.iter().map(|item| item["metadata"]["name"].as_str().unwrap_or_default().to_owned()).collect()
    };
    assert_eq!(names("spec.extent%3Da"), ["hit"]);
    assert_eq!(names("spec.extent!%3Da"), ["miss"]);
    assert_eq!(names("spec.extent%3D"), [""; 0]);
    let mut watch = client.watch(format!("{WIDGETS2}?watch=true&fieldSelector=spec.extent%3Da"));
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "hit");
    client.patch(format!("{WIDGETS}/miss"), "merge", &json!({"spec": {"size": "a"}})).expect(200);
    assert_eq!(watch.expect("ADDED")["metadata"]["name"], "miss");
    let gone = client.patch(format!("{WIDGETS}/miss"), "merge", &json!({"spec": {"size": "b"}})).expect(200);
    let event = watch.expect("DELETED");
    assert_eq!((&event["metadata"]["name"], &event["spec"]["extent"]), (&json!("miss"), &json!("a")));
    assert_eq!(event["metadata"]["resourceVersion"], gone["metadata"]["resourceVersion"]);
    client.delete(format!("{WIDGETS2}?fieldSelector=spec.extent%3Da")).expect(200);
    assert_eq!(names(""), ["miss"]);
}

#[test]
fn labels_and_annotations_of_webhooks_are_validated() {
    for (change, expected) in [
        (json!({"labels": {"a": "not a label!"}}), "metadata.labels: Invalid value"),
        (json!({"annotations": {"a": "x".repeat(300_000)}}), "metadata.annotation: Too long"),
        (
            json!({"labels": {"a": 1}}),
            "metadata.labels[a] must be a string, but is int64 in converted object",
        ),
        (json!({"labels": []}), "invalid metadata.labels of type []interface {} in converted object"),
    ] {
        let reply = move |review: &Value| {
            let mut answer = convert(review);
            for (key, value) in change.as_object().into_iter().flatten() {
                answer["response"]["convertedObjects"][0]["metadata"][key] = value.clone();
            }
            Reply::Json(answer)
        };
        with_reply(reply, |client| {
            let message = client.get(format!("{WIDGETS2}/w")).expect_failure(500, "");
            assert!(
                message.contains(&format!("returned invalid metadata: {expected}")),
                "{expected}: {message}"
            );
        });
    }
}

#[test]
fn an_object_is_not_created_after_its_definition_was_deleted() {
    let server = Server::start();
    let client = server.client();
    let ((entered, has_entered), (release, released)) = (mpsc::channel(), mpsc::channel::<()>());
    let (entered, released) = (Mutex::new(entered), Mutex::new(released));
    let webhook = Webhook::start(move |review| {
        entered.lock().unwrap().send(()).unwrap();
        released.lock().unwrap().recv_timeout(DEADLINE).unwrap();
        Reply::Json(convert(review))
    });
    let definition = with_webhook(&webhook);
    install(client, &definition);
    std::thread::scope(|scope| {
        let creating = scope.spawn(|| {
            let new = json!({"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "late"}, "spec": {}});
            client.post(WIDGETS2, &new).expect_failure(404, "NotFound")
        });
        has_entered.recv_timeout(DEADLINE).unwrap();
        client.delete(format!("{DEFINITIONS}/widgets.example.com")).expect(200);
        eventually("the definition is gone", || {
            client.get(format!("{DEFINITIONS}/widgets.example.com")).status == 404
        });
        release.send(()).unwrap();
        creating.join().unwrap();
    });
    install(client, &definition);
    assert_eq!(client.get(WIDGETS).expect(200)["items"], json!([]));
}
