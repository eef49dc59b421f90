//! All resources of discovery, from create to delete.

use corten_e2e::{Sample, Served, eventually, sample, served, settled};
use corten_testkit::{Client, Request, Response, Server, Watch};
use serde_json::{Value, json};

const NAMESPACE: &str = "default";
const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
const PARTIAL: &str = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io";
const PARTIAL_LIST: &str = "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io";

#[test]
fn stable_kinds_are_created_and_deleted() {
    let server = Server::start();
    let kinds = objects(&served(server.client()));
    assert!(kinds.len() > 50, "only {} kinds are served", kinds.len());
    assert!(kinds.iter().all(|kind| !kind.version.contains("alpha") && !kind.version.contains("beta")));
    for kind in &kinds {
        live_and_die(server.client(), kind, "stable");
    }
}

#[test]
fn unstable_kinds_are_created_and_deleted_when_enabled() {
    let server = Server::start_with(&["--runtime-config", "api/all=true"]);
    let kinds = objects(&served(server.client()));
    let unstable: Vec<&Served> =
        kinds.iter().filter(|kind| kind.version.contains("alpha") || kind.version.contains("beta")).collect();
    assert!(!unstable.is_empty());
    for kind in unstable {
        live_and_die(server.client(), kind, "unstable");
    }
}

#[test]
fn collections_are_deleted_by_selector() {
    let server = Server::start();
    let client = server.client();
    for kind in objects(&served(client)).iter().filter(|kind| kind.has("deletecollection")) {
        let collection = kind.collection(NAMESPACE);
        let doomed = manifest(kind, "doomed");
        client.post(&collection, &doomed.object).expect(201);
        client
            .delete(format!("{collection}?labelSelector=sample%3Ddoomed&propagationPolicy=Background"))
            .expect(200);
        let path = format!("{collection}/{}", doomed.name);
        release(client, kind, &path);
        client.get(&path).expect_failure(404, "NotFound");
    }
}

/// Kinds whose objects are stored: those that can be created and read.
fn objects(served: &[Served]) -> Vec<Served> {
    served.iter().filter(|kind| kind.has("create") && kind.has("get")).cloned().collect()
}

#[track_caller]
fn manifest(kind: &Served, base: &str) -> Sample {
    sample(kind, base).unwrap_or_else(|| panic!("{} {} has no manifest", kind.api_version(), kind.kind))
}

fn live_and_die(client: &Client, kind: &Served, base: &str) {
    let sample = manifest(kind, base);
    let collection = kind.collection(NAMESPACE);
    let path = format!("{collection}/{}", sample.name);
    let mut watch =
        client.watch(format!("{collection}?watch=true&fieldSelector=metadata.name%3D{}", sample.name));

    let created = client.post(&collection, &sample.object).expect(201);
    check_created(kind, &sample, &created);
    client.post(&collection, &sample.object).expect_failure(409, "AlreadyExists");
    let created = settled(client, kind, &path, created);
    assert_eq!(client.get(&path).expect(200), created);
    check_reads(client, kind, &sample);
    check_writes(client, kind, &path, created);
    if let Some(status) = &sample.status
        && kind.subresource_has("status", "patch")
    {
        let patched = client.patch(format!("{path}/status"), "merge", &json!({"status": status})).expect(200);
        assert_includes(&patched["status"], status, &path);
        assert_includes(&client.get(&path).expect(200)["status"], status, &path);
    }
    client.delete(format!("{path}?propagationPolicy=Background")).expect(200);
    release(client, kind, &path);
    client.get(&path).expect_failure(404, "NotFound");
    client.delete(&path).expect_failure(404, "NotFound");
    check_events(&mut watch, &path);
}

fn check_created(kind: &Served, sample: &Sample, created: &Value) {
    let metadata = &created["metadata"];
    assert_eq!(created["kind"], kind.kind.as_str());
    assert_eq!(created["apiVersion"], kind.api_version());
    assert_eq!(metadata["name"], sample.name.as_str());
    assert_eq!(metadata["namespace"].as_str(), kind.namespaced.then_some(NAMESPACE), "{created}");
    for field in ["uid", "resourceVersion", "creationTimestamp"] {
        assert!(metadata[field].as_str().is_some_and(|value| !value.is_empty()), "no {field}: {created}");
    }
    assert_eq!(metadata["managedFields"][0]["operation"], "Update", "{created}");
}

fn check_reads(client: &Client, kind: &Served, sample: &Sample) {
    let collection = kind.collection(NAMESPACE);
    let path = format!("{collection}/{}", sample.name);
    let label = sample.object["metadata"]["labels"]["sample"].as_str().unwrap_or_default();
    let selected = format!("{collection}?labelSelector=sample%3D{label}");

    let list = client.get(&selected).expect(200);
    assert_eq!(list["kind"], format!("{}List", kind.kind), "{path}");
    assert_eq!(list["items"].as_array().map(Vec::len), Some(1), "{path}: {list}");
    assert_eq!(list["items"][0]["metadata"]["name"], sample.name.as_str());

    for (asked, rows) in [(&path, 1), (&selected, 1)] {
        let table = client.send(&Request::new("GET", asked).accept(TABLE)).expect(200);
        assert_eq!(table["kind"], "Table", "{path}");
        assert_eq!(table["rows"].as_array().map(Vec::len), Some(rows), "{path}: {table}");
        let columns = table["columnDefinitions"].as_array().map(Vec::len);
        assert!(columns.is_some_and(|count| count > 1), "{path}: {table}");
        // Upstream's rows of IPAddresses have an age without a column.
        let cells = columns.map(|count| count + usize::from(kind.kind == "IPAddress"));
        assert_eq!(table["rows"][0]["cells"].as_array().map(Vec::len), cells, "{path}: {table}");
        assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata", "{path}: {table}");
    }
    let partial = client.send(&Request::new("GET", &path).accept(PARTIAL)).expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadata", "{path}");
    assert_eq!(partial["apiVersion"], "meta.k8s.io/v1", "{path}");
    assert_eq!(partial["metadata"]["name"], sample.name.as_str());
    assert_eq!(partial.as_object().map(serde_json::Map::len), Some(3), "{path}: {partial}");
    let partial = client.send(&Request::new("GET", &selected).accept(PARTIAL_LIST)).expect(200);
    assert_eq!(partial["kind"], "PartialObjectMetadataList", "{path}");
    assert_eq!(partial["items"][0]["metadata"]["name"], sample.name.as_str());
}

fn check_writes(client: &Client, kind: &Served, path: &str, created: Value) {
    let stale = created.clone();
    let mut update = created;
    update["metadata"]["labels"]["updated"] = "yes".into();
    let updated = client.put(path, &update).expect(200);
    assert_eq!(updated["metadata"]["labels"]["updated"], "yes");
    assert_ne!(updated["metadata"]["resourceVersion"], stale["metadata"]["resourceVersion"]);
    assert_eq!(updated["metadata"]["uid"], stale["metadata"]["uid"]);

    let mut conflicting = stale;
    conflicting["metadata"]["labels"]["updated"] = "no".into();
    let message = client.put(path, &conflicting).expect_failure(409, "Conflict");
    let expected =
        "the object has been modified; please apply your changes to the latest version and try again";
    assert!(message.ends_with(expected), "{path}: {message}");

    let metadata = |name: &str| json!({"metadata": {"annotations": {(name): "yes"}}});
    let annotated = |response: Response, name: &str| {
        assert_eq!(response.expect(200)["metadata"]["annotations"][name], "yes", "{path}");
    };
    annotated(client.patch(path, "merge", &metadata("merged")), "merged");
    annotated(client.patch(path, "strategic-merge", &metadata("strategic")), "strategic");
    let operation = json!([{"op": "add", "path": "/metadata/annotations/json", "value": "yes"}]);
    annotated(client.patch(path, "json", &operation), "json");

    let name = updated["metadata"]["name"].clone();
    let applied = json!({
        "apiVersion": kind.api_version(), "kind": kind.kind,
        "metadata": {"name": name, "annotations": {"applied": "yes"}},
    });
    let applied = client.patch(format!("{path}?fieldManager=tester"), "apply", &applied).expect(200);
    assert_eq!(applied["metadata"]["annotations"]["applied"], "yes", "{path}");
    let managers = applied["metadata"]["managedFields"].as_array().cloned().unwrap_or_default();
    assert!(
        managers.iter().any(|m| m["manager"] == "tester" && m["operation"] == "Apply"),
        "{path}: {applied}"
    );
}

/// Removes the finalizers of a deleted object, because no controller would. The API server itself removes that of
/// definitions.
fn release(client: &Client, kind: &Served, path: &str) {
    if kind.kind == "CustomResourceDefinition" {
        return eventually("the definition is removed", || client.get(path).status == 404);
    }
    let response = client.get(path);
    if response.status == 404 {
        return;
    }
    let mut held = response.expect(200);
    assert!(held["metadata"]["deletionTimestamp"].is_string(), "{path} was deleted: {held}");
    if kind.kind == "Namespace" {
        held["spec"]["finalizers"] = json!([]);
        client.put(format!("{path}/finalize"), &held).expect(200);
    } else {
        client.patch(path, "merge", &json!({"metadata": {"finalizers": null}})).expect(200);
    }
}

/// Every change, in order.
fn check_events(watch: &mut Watch, path: &str) {
    let first = watch.expect("ADDED");
    let uid = &first["metadata"]["uid"];
    let mut last = revision(&first);
    loop {
        let event = watch.event();
        let object = &event["object"];
        assert_eq!(object["metadata"]["uid"], *uid, "{path}: {event}");
        assert!(revision(object) > last, "{path}: {event}");
        last = revision(object);
        match event["type"].as_str() {
            Some("MODIFIED") => {}
            Some("DELETED") => return,
            _ => panic!("{path}: {event}"),
        }
    }
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|rv| rv.parse().ok()).unwrap_or(0)
}

/// Checks that `whole` contains everything of `part`.
#[track_caller]
fn assert_includes(whole: &Value, part: &Value, path: &str) {
    match part {
        Value::Object(fields) => {
            for (name, value) in fields {
                assert_includes(&whole[name], value, &format!("{path}.{name}"));
            }
        }
        Value::Array(items) => {
            assert_eq!(whole.as_array().map(Vec::len), Some(items.len()), "{path}: {whole}");
            for (index, item) in items.iter().enumerate() {
                assert_includes(&whole[index], item, &format!("{path}[{index}]"));
            }
        }
        // A field that is zero may be left out.
        Value::Number(number) if number.as_i64() == Some(0) => {}
        _ => assert_eq!(whole, part, "{path}"),
    }
}
