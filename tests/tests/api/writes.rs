//! Writes: dry runs, preconditions, field validation, finalizers, generated names, subresources, reviews.

use corten_e2e::pod;
use corten_testkit::{Request, Server};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "1"}})
}

fn deployment(name: &str) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": 2,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": "registry.example/image:1"}]},
            },
        },
    })
}

#[test]
fn dry_runs_change_nothing() {
    let server = Server::start();
    let client = server.client();
    let dry = client.post(format!("{MAPS}?dryRun=All"), &map("m")).expect(201);
    assert!(dry["metadata"]["uid"].is_string());
    client.get(format!("{MAPS}/m")).expect_failure(404, "NotFound");
    let real = client.post(MAPS, &map("m")).expect(201);
    let path = format!("{MAPS}/m");
    let patched =
        client.patch(format!("{path}?dryRun=All"), "merge", &json!({"data": {"a": "2"}})).expect(200);
    assert_eq!(patched["data"]["a"], "2");
    let mut update = real.clone();
    update["data"]["a"] = "3".into();
    client.put(format!("{path}?dryRun=All"), &update).expect(200);
    client.delete(format!("{path}?dryRun=All")).expect(200);
    client.delete(format!("{MAPS}?dryRun=All")).expect(200);
    // Upstream ignores the query of a delete with a body, and removes the object.
    let with_body = |query: &str| Request::new("DELETE", format!("{path}?{query}")).json(&json!({}));
    client.send(&with_body("dryRun=All")).expect(200);
    client.send(&with_body("dryRun=Some")).expect_failure(422, "Invalid");
    client.send(&Request::new("DELETE", &path).json(&json!({"dryRun": ["All"]}))).expect(200);
    assert_eq!(client.get(&path).expect(200), real);
    client.post(format!("{MAPS}?dryRun=Some"), &map("n")).expect_failure(422, "Invalid");
}

#[test]
fn cascading_deletes_that_wait_are_accepted() {
    let server = Server::start();
    let client = server.client();
    let mut held = map("m");
    held["metadata"]["finalizers"] = json!(["example.com/held"]);
    client.post(MAPS, &held).expect(201);
    let path = format!("{MAPS}/m");
    client.delete(format!("{path}?orphanDependents=false&dryRun=All")).expect(202);
    client.delete(&path).expect(200);
    client.delete(format!("{path}?orphanDependents=false")).expect(202);
    client.patch(&path, "merge", &json!({"metadata": {"finalizers": null}})).expect(200);
    client.post(MAPS, &map("m")).expect(201);
    client.delete(format!("{path}?orphanDependents=false")).expect(200);
}

#[test]
fn deletes_keep_to_their_preconditions() {
    let server = Server::start();
    let client = server.client();
    let created = client.post(MAPS, &map("m")).expect(201);
    let path = format!("{MAPS}/m");
    let delete = |preconditions: &Value| {
        let options = json!({"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": preconditions});
        client.send(&Request::new("DELETE", &path).json(&options))
    };
    delete(&json!({"uid": "another"})).expect_failure(409, "Conflict");
    delete(&json!({"resourceVersion": "1"})).expect_failure(409, "Conflict");
    client.delete(format!("{path}?uid=another")).expect_failure(409, "Conflict");
    client.delete(format!("{path}?resourceVersion=1")).expect_failure(409, "Conflict");
    let status = delete(&json!({"uid": created["metadata"]["uid"]})).expect(200);
    assert_eq!(status["status"], "Success");
    assert_eq!(status["details"]["uid"], created["metadata"]["uid"]);
}

#[test]
fn unknown_fields_are_ignored_warned_of_or_refused() {
    let server = Server::start();
    let client = server.client();
    let mut object = deployment("d");
    object["spec"]["colour"] = "red".into();
    let send = |how: &str| client.post(format!("{DEPLOYMENTS}?dryRun=All&fieldValidation={how}"), &object);
    let ignored = send("Ignore");
    assert!(ignored.expect(201)["spec"]["colour"].is_null());
    assert_eq!(ignored.header("warning"), "");
    let warned = send("Warn");
    warned.expect(201);
    assert_eq!(warned.header("warning"), r#"299 - "unknown field \"spec.colour\"""#);
    let message = send("Strict").expect_failure(400, "BadRequest");
    assert!(message.contains(r#"strict decoding error: unknown field "spec.colour""#), "{message}");
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m"},"data":{"a":"1","a":"2"}}"#;
    let request =
        Request::new("POST", format!("{MAPS}?fieldValidation=Strict")).body("application/json", twice);
    let message = client.send(&request).expect_failure(400, "BadRequest");
    assert!(message.contains(r#"duplicate field "data.a""#), "{message}");
    send("Sometimes").expect_failure(422, "Invalid");
}

#[test]
fn values_of_one_field_are_joined() {
    let server = Server::start();
    let client = server.client();
    let twice = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"m","labels":{"a":"1"}},"data":{"a":"1"},
        "metadata":{"labels":{"b":"2"}},"data":{"b":"2"},"bogus":{"a":1,"a":2},"bogus":3}"#;
    let response = client.send(&Request::new("POST", MAPS).body("application/json", twice));
    let created = response.expect(201);
    assert_eq!(created["metadata"]["name"], "m");
    assert_eq!(created["metadata"]["labels"], json!({"a": "1", "b": "2"}));
    assert_eq!(created["data"], json!({"a": "1", "b": "2"}));
    // Duplicates of unknown fields and in them are not noticed.
    let strict =
        Request::new("POST", format!("{MAPS}?fieldValidation=Strict")).body("application/json", twice);
    let message = client.send(&strict).expect_failure(400, "BadRequest");
    let findings = r#"duplicate field "metadata", duplicate field "data", unknown field "bogus""#;
    assert!(message.ends_with(findings), "{message}");
}

#[test]
fn self_links_are_never_stored() {
    let server = Server::start();
    let client = server.client();
    let mut object = client.post(MAPS, &map("linked")).expect(201);
    object["metadata"]["selfLink"] = "/linked".into();
    let path = format!("{MAPS}/linked");
    // As upstream, which removes it with the encoding for the store.
    let unwritten = client.put(format!("{path}?dryRun=All"), &object).expect(200);
    assert_eq!(unwritten["metadata"]["selfLink"], "/linked");
    assert!(client.put(&path, &object).expect(200)["metadata"]["selfLink"].is_null());
    assert!(client.get(&path).expect(200)["metadata"]["selfLink"].is_null());
}

#[test]
fn finalizers_delay_deletion() {
    let server = Server::start();
    let client = server.client();
    let mut object = map("held");
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    client.post(MAPS, &object).expect(201);
    let path = format!("{MAPS}/held");
    let deleting = client.delete(&path).expect(200);
    assert!(deleting["metadata"]["deletionTimestamp"].is_string(), "{deleting}");
    let message = client
        .patch(&path, "merge", &json!({"metadata": {"finalizers": ["example.com/hold", "example.com/more"]}}))
        .expect_failure(422, "Invalid");
    assert!(message.contains("no new finalizers can be added if the object is being deleted"), "{message}");
    client.patch(&path, "merge", &json!({"metadata": {"finalizers": []}})).expect(200);
    client.get(&path).expect_failure(404, "NotFound");
}

#[test]
fn pods_on_nodes_are_deleted_with_grace() {
    let server = Server::start();
    let client = server.client();
    let mut object = pod("bound");
    object["spec"]["nodeName"] = "node".into();
    client.post(PODS, &object).expect(201);
    let path = format!("{PODS}/bound");
    let deleting = client.delete(&path).expect(200);
    assert_eq!(deleting["metadata"]["deletionGracePeriodSeconds"], 30, "{deleting}");
    assert!(client.get(&path).expect(200)["metadata"]["deletionTimestamp"].is_string());
    let marked = client.get(&path).expect(200)["metadata"]["resourceVersion"].take();
    let mut watch =
        client.watch(format!("{PODS}?watch=true&resourceVersion={}", marked.as_str().unwrap_or_default()));
    client.delete(format!("{path}?gracePeriodSeconds=0")).expect(200);
    client.get(&path).expect_failure(404, "NotFound");
    let last = watch.expect("MODIFIED");
    assert_eq!(last["metadata"]["deletionGracePeriodSeconds"], 0, "{last}");
    let removed = watch.expect("DELETED");
    assert_ne!(last["metadata"]["resourceVersion"], removed["metadata"]["resourceVersion"]);
}

#[test]
fn names_are_generated() {
    let server = Server::start();
    let mut object = map("");
    object["metadata"] = json!({"generateName": "made-"});
    let mut names = std::collections::BTreeSet::new();
    for _ in 0..20 {
        let created = server.client().post(MAPS, &object).expect(201);
        let name = created["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        assert!(name.starts_with("made-") && name.len() == 10, "{name}");
        names.insert(name);
    }
    assert_eq!(names.len(), 20);
}

#[test]
fn names_and_labels_are_validated() {
    let server = Server::start();
    let client = server.client();
    for name in ["Upper", "under_score", "-dash", "a/b", &"a".repeat(254)] {
        let message = client.post(MAPS, &map(name)).expect_failure(422, "Invalid");
        assert!(message.contains("metadata.name"), "{message}");
    }
    let mut object = map("m");
    object["metadata"]["labels"] = json!({"a b": "c"});
    client.post(MAPS, &object).expect_failure(422, "Invalid");
    client.post(MAPS, &json!({"apiVersion": "v1", "kind": "ConfigMap"})).expect_failure(422, "Invalid");
    let mut elsewhere = map("m");
    elsewhere["metadata"]["namespace"] = "other".into();
    let message = client.post(MAPS, &elsewhere).expect_failure(400, "BadRequest");
    assert!(message.contains("the namespace of the provided object does not match"), "{message}");
    let message =
        client.post("/api/v1/namespaces/nowhere/configmaps", &map("m")).expect_failure(404, "NotFound");
    assert_eq!(message, "namespaces \"nowhere\" not found");
    let message = client.post(PODS, &map("m")).expect_failure(400, "BadRequest");
    assert!(message.contains("ConfigMap in version \"v1\" cannot be handled as a Pod"), "{message}");
}

#[test]
fn generation_counts_changes_of_the_spec() {
    let server = Server::start();
    let client = server.client();
    let path = format!("{DEPLOYMENTS}/d");
    assert_eq!(client.post(DEPLOYMENTS, &deployment("d")).expect(201)["metadata"]["generation"], 1);
    let patch = |body: &Value| client.patch(&path, "merge", body).expect(200);
    assert_eq!(patch(&json!({"metadata": {"labels": {"a": "b"}}}))["metadata"]["generation"], 1);
    assert_eq!(patch(&json!({"status": {"replicas": 7}}))["status"]["replicas"], Value::Null);
    assert_eq!(patch(&json!({"spec": {"paused": true}}))["metadata"]["generation"], 2);
    let status = json!({"spec": {"paused": false}, "status": {"observedGeneration": 2}});
    let written = client.patch(format!("{path}/status"), "merge", &status).expect(200);
    assert_eq!(written["status"]["observedGeneration"], 2);
    assert_eq!(written["spec"]["paused"], true);
    assert_eq!(written["metadata"]["generation"], 2);
}

#[test]
fn scale_is_a_view_of_replicas() {
    let server = Server::start();
    let client = server.client();
    client.post(DEPLOYMENTS, &deployment("d")).expect(201);
    let path = format!("{DEPLOYMENTS}/d");
    let mut scale = client.get(format!("{path}/scale")).expect(200);
    assert_eq!(scale["kind"], "Scale");
    assert_eq!(scale["spec"]["replicas"], 2);
    assert_eq!(scale["status"]["selector"], "app=d");
    scale["spec"]["replicas"] = 5.into();
    client.put(format!("{path}/scale"), &scale).expect(200);
    assert_eq!(client.get(&path).expect(200)["spec"]["replicas"], 5);
    // A scale of another object, or of an earlier one of the same name, changes nothing.
    for (metadata, code, reason) in [
        (json!({"uid": "another"}), 409, "Conflict"),
        (json!({"resourceVersion": "x"}), 500, ""),
        (json!({"resourceVersion": "1"}), 409, "Conflict"),
        (json!({"namespace": "another"}), 400, "BadRequest"),
        (json!({"name": "another"}), 400, "BadRequest"),
    ] {
        let change = json!({"metadata": metadata, "spec": {"replicas": 7}});
        client.patch(format!("{path}/scale"), "merge", &change).expect_failure(code, reason);
        let mut whole = scale.clone();
        for (key, value) in metadata.as_object().unwrap() {
            whole["metadata"][key] = value.clone();
        }
        whole["spec"]["replicas"] = 7.into();
        client.put(format!("{path}/scale"), &whole).expect_failure(code, reason);
    }
    assert_eq!(client.get(&path).expect(200)["spec"]["replicas"], 5);
}

#[test]
fn applied_fields_have_owners() {
    let server = Server::start();
    let client = server.client();
    let path = format!("{MAPS}/shared");
    let apply = |manager: &str, data: &Value, force: bool| {
        let object =
            json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}, "data": data});
        client.patch(format!("{path}?fieldManager={manager}&force={force}"), "apply", &object)
    };
    apply("one", &json!({"a": "1", "b": "1"}), false).expect(201);
    apply("two", &json!({"c": "2"}), false).expect(200);
    let message = apply("two", &json!({"a": "2", "c": "2"}), false).expect_failure(409, "Conflict");
    assert_eq!(message, "Apply failed with 1 conflict: conflict with \"one\": .data.a");
    let forced = apply("two", &json!({"a": "2", "c": "2"}), true).expect(200);
    assert_eq!(forced["data"], json!({"a": "2", "b": "1", "c": "2"}));
    let released = apply("one", &json!({}), false).expect(200);
    assert_eq!(released["data"], json!({"a": "2", "c": "2"}), "one gave up b and had lost a");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "shared"}});
    client.patch(&path, "apply", &object).expect_failure(422, "Invalid");
}

#[test]
fn strategic_merges_follow_merge_keys() {
    let server = Server::start();
    let client = server.client();
    client.post(DEPLOYMENTS, &deployment("d")).expect(201);
    let path = format!("{DEPLOYMENTS}/d");
    let patch = json!({"spec": {"template": {"spec": {"containers": [
        {"name": "side", "image": "registry.example/side:1"},
        {"name": "main", "env": [{"name": "A", "value": "1"}]},
    ]}}}});
    let patched = client.patch(&path, "strategic-merge", &patch).expect(200);
    let containers = &patched["spec"]["template"]["spec"]["containers"];
    let names: Vec<&str> = containers.as_array().unwrap().iter().filter_map(|c| c["name"].as_str()).collect();
    assert_eq!(names.len(), 2, "{containers}");
    let main = containers.as_array().unwrap().iter().find(|c| c["name"] == "main").unwrap();
    assert_eq!(main["image"], "registry.example/image:1");
    assert_eq!(main["env"][0]["value"], "1");
    let gone =
        json!({"spec": {"template": {"spec": {"containers": [{"name": "side", "$patch": "delete"}]}}}});
    let patched = client.patch(&path, "strategic-merge", &gone).expect(200);
    assert_eq!(patched["spec"]["template"]["spec"]["containers"].as_array().map(Vec::len), Some(1));
}

#[test]
fn versions_of_one_resource_are_one_object() {
    let server = Server::start();
    let client = server.client();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"});
    let v1 = json!({
        "apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
        "spec": {"scaleTargetRef": target, "maxReplicas": 3, "targetCPUUtilizationPercentage": 70},
    });
    let path =
        |version: &str| format!("/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers");
    let created = client.post(path("v1"), &v1).expect(201);
    let v2 = client.get(format!("{}/h", path("v2"))).expect(200);
    assert_eq!(v2["apiVersion"], "autoscaling/v2");
    assert_eq!(v2["metadata"]["uid"], created["metadata"]["uid"]);
    assert_eq!(v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
}

#[test]
fn absent_fields_get_their_defaults() {
    let server = Server::start();
    let client = server.client();
    let created = client.post(DEPLOYMENTS, &deployment("d")).expect(201);
    let spec = &created["spec"];
    assert_eq!(
        spec["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
    );
    assert_eq!(spec["revisionHistoryLimit"], 10);
    let template = &spec["template"]["spec"];
    assert_eq!(template["restartPolicy"], "Always");
    assert_eq!(template["containers"][0]["imagePullPolicy"], "IfNotPresent");
    assert_eq!(template["containers"][0]["terminationMessagePath"], "/dev/termination-log");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"word": "open"},
    });
    let created = client.post("/api/v1/namespaces/default/secrets", &secret).expect(201);
    assert_eq!(created["type"], "Opaque");
    assert_eq!(created["data"], json!({"word": "b3Blbg=="}));
    assert!(created["stringData"].is_null());
}

#[test]
fn reviews_answer() {
    let server = Server::start();
    let client = server.client();
    let who = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"});
    let answer = client.post("/apis/authentication.k8s.io/v1/selfsubjectreviews", &who).expect(201);
    let groups = answer["status"]["userInfo"]["groups"].as_array().cloned().unwrap_or_default();
    assert!(groups.contains(&json!("system:masters")), "{answer}");
    let may = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}},
    });
    let answer = client.post("/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", &may).expect(201);
    assert_eq!(answer["status"]["allowed"], true);
}
