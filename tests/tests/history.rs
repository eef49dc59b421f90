//! Past versions of objects: who may read them, how they are shown, and how they come back.

use std::process::{Command, Output, Stdio};

use corten_e2e::{eventually, widgets};
use corten_testkit::{Client, Request, Response, Server, corten_binary};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
const BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";

fn run(server: &Server, arguments: &[&str]) -> Output {
    let mut command = Command::new(corten_binary());
    command.args(arguments).arg("--kubeconfig").arg(server.kubeconfig()).stdin(Stdio::null());
    command.output().expect("the command starts")
}

#[track_caller]
fn succeed(server: &Server, arguments: &[&str]) -> String {
    let output = run(server, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[track_caller]
fn refuse(server: &Server, arguments: &[&str], why: &str) {
    let output = run(server, arguments);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && errors.contains(why), "{arguments:?}: {errors}");
}

fn map(name: &str, value: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"key": value}})
}

fn patch(client: &Client, manager: &str, value: &str) -> String {
    let path = format!("{MAPS}/m?fieldManager={manager}");
    let patched = client.patch(path, "merge", &json!({"data": {"key": value}})).expect(200);
    patched["metadata"]["resourceVersion"].as_str().expect("a revision").to_owned()
}

fn value(client: &Client) -> String {
    client.get(format!("{MAPS}/m")).expect(200)["data"]["key"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn every_change_of_an_object_is_listed_and_can_be_undone() {
    let mut server = Server::start_with(&["--history", "1h"]);
    let client = server.client();
    client.post(format!("{MAPS}?fieldManager=maker"), &map("m", "one")).expect(201);
    let second = patch(client, "changer", "two");
    patch(client, "another", "three");
    client.delete(format!("{MAPS}/m")).expect(200);
    refuse(&server, &["history", "configmap/none"], "not found");
    refuse(&server, &["history", "configmaps"], "give KIND/NAME");
    refuse(&server, &["history", "unheard/of"], "no kind unheard");

    // A restart loses nothing.
    server.restart();
    let client = server.client();
    let shown = succeed(&server, &["history", "cm/m"]);
    let headings: Vec<&str> = shown.lines().filter(|line| !line.starts_with(' ')).collect();
    let [deleted, third, changed, created] = headings[..] else { panic!("{shown}") };
    assert!(
        deleted.contains(" deleted ")
            && created.contains(" created ")
            && created.ends_with("by maker (Update)")
    );
    assert!(changed.starts_with(&second) && changed.ends_with("by changer (Update)"), "{changed}");
    assert!(third.contains(" ago (") && third.ends_with("by another (Update)"), "{third}");
    assert!(shown.contains("    -  key: one\n    +  key: two\n"), "{shown}");
    assert!(!shown.contains("managedFields") && !shown.contains('\x1b'), "{shown}");
    let last = succeed(&server, &["history", "ConfigMap/m", "--limit", "1", "--no-diff"]);
    assert!(
        last.starts_with(headings[0].split(' ').next().unwrap_or("?")) && last.contains("older changes"),
        "{last}"
    );

    let past = succeed(&server, &["show", "configmaps/m", "--at", &second]);
    assert!(past.contains("  key: two\n") && past.contains("kind: ConfigMap\n"), "{past}");
    refuse(&server, &["show", "cm/m", "--at", "1 second ago from nowhere"], "is no time");
    refuse(&server, &["show", "cm/m", "--at", "30 days ago"], "history begins at");

    // First a dry run, then ordinary writes.
    let plan = succeed(&server, &["undo", "cm/m", "--to", &second]);
    assert!(plan.contains("create ConfigMap/m") && plan.contains("dry run: nothing was written"), "{plan}");
    client.get(format!("{MAPS}/m")).expect_failure(404, "NotFound");
    succeed(&server, &["undo", "cm/m", "--to", &second, "--yes"]);
    assert_eq!(value(client), "two");
    patch(client, "changer", "four");
    let plan = succeed(&server, &["undo", "cm/m", "--to", &second, "--yes"]);
    assert!(plan.contains("    -  key: four\n    +  key: two\n"), "{plan}");
    assert_eq!(value(client), "two");
    assert!(succeed(&server, &["undo", "cm/m", "--to", &second, "--yes"]).contains("nothing to undo"));
    let written = client.get(format!("{MAPS}/m")).expect(200);
    assert!(written["metadata"]["managedFields"].to_string().contains("corten-undo"), "{written}");
}

/// A request of a user who has no rights but those of roles.
fn as_user(server: &Server, user: &str, path: &str) -> Response {
    let request = Request::new("GET", path).header("Impersonate-User", user);
    let request = if user.starts_with("system:node:") {
        request.header("Impersonate-Group", "system:nodes")
    } else {
        request
    };
    server.client().send(&request)
}

#[test]
fn the_past_is_for_those_who_may_read_the_present() {
    let server = Server::start_with(&["--history", "1h"]);
    let client = server.client();
    for name in ["allowed", "other"] {
        let secret = json!({"metadata": {"name": name}, "stringData": {"key": "old"}});
        client.post(SECRETS, &secret).expect(201);
        let new = json!({"stringData": {"key": "new"}});
        client.patch(format!("{SECRETS}/{name}"), "merge", &new).expect(200);
    }
    let role = json!({
        "metadata": {"name": "one"},
        "rules": [{"apiGroups": [""], "resources": ["secrets"], "resourceNames": ["allowed"], "verbs": ["get", "list"]}],
    });
    client.post(ROLES, &role).expect(201);
    let binding = json!({
        "metadata": {"name": "one"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "one"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    client.post(BINDINGS, &binding).expect(201);
    let versions = "history.corten.io/versions=true";
    let at = format!("history.corten.io/at={}", jiff::Timestamp::now().to_string().replace('+', "%2B"));

    let history = as_user(&server, "alice", &format!("{SECRETS}/allowed?{versions}")).expect(200);
    assert_eq!(history["kind"], "ObjectHistory");
    assert_eq!(history["versions"].as_array().map(Vec::len), Some(2), "{history}");
    assert_eq!(history["versions"][1]["object"]["data"]["key"], "b2xk");
    for path in
        [format!("{SECRETS}/other?{versions}"), format!("{SECRETS}/other?{at}"), format!("{SECRETS}?{at}")]
    {
        as_user(&server, "alice", &path).expect_failure(403, "Forbidden");
        as_user(&server, "bob", &path).expect_failure(403, "Forbidden");
    }
    // A list that is authorized for one name shows that one.
    let one = format!("{SECRETS}?{at}&fieldSelector=metadata.name%3Dallowed");
    let listed = as_user(&server, "alice", &one).expect(200);
    assert_eq!(listed["items"].as_array().map(Vec::len), Some(1), "{listed}");
    assert_eq!(listed["items"][0]["metadata"]["name"], "allowed");

    // The administrator may read them, in a group of nodes may not.
    client.get(format!("{SECRETS}/other?{versions}")).expect(200);
    let node = Request::new("GET", format!("{SECRETS}/other?{versions}"))
        .header("Impersonate-User", "admin")
        .header("Impersonate-Group", "system:masters")
        .header("Impersonate-Group", "system:nodes");
    client.send(&node).expect_failure(403, "Forbidden");
    for bad in ["history.corten.io/at=soon", "history.corten.io/versions=true&history.corten.io/before=x"] {
        client.get(format!("{SECRETS}/other?{bad}")).expect_failure(400, "BadRequest");
    }
}

#[test]
fn a_server_without_history_says_so() {
    let server = Server::start();
    server.client().post(MAPS, &map("m", "1")).expect(201);
    refuse(&server, &["history", "cm/m"], "--history 24h");
    refuse(&server, &["show", "cm/m", "--at", "1m"], "--history 24h");
}

#[test]
fn a_deleted_namespace_comes_back() {
    let server = Server::start_with(&["--history", "1h", "--disable=agent,dns,scheduler"]);
    let client = server.client();
    let namespace = json!({"metadata": {"name": "shop", "labels": {"team": "a"}}});
    client.post("/api/v1/namespaces", &namespace).expect(201);
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &widgets()).expect(201);
    let widgets = "/apis/example.com/v1/namespaces/shop/widgets";
    let widget =
        json!({"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}, "size": 7});
    eventually("the custom resource is served", || client.post(widgets, &widget).status == 201);
    client.post("/api/v1/namespaces/shop/configmaps", &map("m", "1")).expect(201);
    let deployments = "/apis/apps/v1/namespaces/shop/deployments";
    let labels = json!({"app": "web"});
    let deployment = json!({
        "metadata": {"name": "web"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]},
        }},
    });
    client.post(deployments, &deployment).expect(201);
    let replica_sets = "/apis/apps/v1/namespaces/shop/replicasets";
    let count = |path: &str| client.get(path).json()["items"].as_array().map_or(0, Vec::len);
    eventually("the deployment has pods", || count("/api/v1/namespaces/shop/pods") == 2);
    let before = client.get("/api/v1/namespaces/shop/configmaps/m").expect(200);
    let revision =
        client.get(deployments).expect(200)["metadata"]["resourceVersion"].as_str().unwrap_or("").to_owned();
    client.delete("/api/v1/namespaces/shop").expect(200);
    eventually("the namespace is gone", || client.get("/api/v1/namespaces/shop").status == 404);

    let plan = succeed(&server, &["undo", "namespace/shop", "--to", &revision]);
    for line in ["create Namespace/shop", "create Widget/w", "create ConfigMap/m", "create Deployment/web"] {
        assert!(plan.contains(line), "{plan}");
    }
    assert!(plan.contains("its controller creates it") && !plan.contains("create Pod"), "{plan}");
    succeed(&server, &["undo", "namespace/shop", "--to", &revision, "--yes"]);
    let after = client.get("/api/v1/namespaces/shop/configmaps/m").expect(200);
    assert_eq!(after["data"], before["data"]);
    assert_ne!(after["metadata"]["uid"], before["metadata"]["uid"]);
    assert_eq!(client.get(format!("{widgets}/w")).expect(200)["size"], 7);
    assert_eq!(client.get("/api/v1/namespaces/shop").expect(200)["metadata"]["labels"]["team"], "a");
    eventually("its controllers do the rest", || {
        count(replica_sets) == 1 && count("/api/v1/namespaces/shop/pods") == 2
    });
}
