//! Single requests that try to exhaust the server: each is answered as by upstream, other requests are answered
//! meanwhile, and the server keeps running.

use std::sync::atomic::{AtomicBool, Ordering};

use corten_testkit::{Client, Request, Server};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";

/// Sends requests while another client checks the server's health; returns their status codes.
fn attack(client: &Client, requests: &[Request]) -> Vec<u16> {
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watcher = scope.spawn(|| {
            let mut answers = 0;
            while !over.load(Ordering::Relaxed) || answers == 0 {
                client.get("/livez").expect_status(200);
                answers += 1;
            }
        });
        let answers =
            requests.iter().map(|request| client.try_send(request).map_or(0, |answer| answer.status));
        let answers = answers.collect();
        over.store(true, Ordering::Relaxed);
        watcher.join().expect("the server lived all along");
        answers
    })
}

#[track_caller]
fn check(client: &Client, requests: &[Request], expected: &[u16]) {
    assert_eq!(attack(client, requests), expected);
    client.get("/readyz").expect_status(200);
    client.get("/api/v1/namespaces/default").expect(200);
}

fn map(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}})
}

fn post(path: &str, media_type: &str, body: impl Into<Vec<u8>>) -> Request {
    Request::new("POST", path).body(media_type, body)
}

fn patch(name: &str, how: &str, body: &Value) -> Request {
    let path = format!("{MAPS}/{name}?fieldManager=m");
    Request::new("PATCH", path).body(&format!("application/{how}"), body.to_string())
}

#[test]
fn unknown_members_below_a_long_key() {
    let server = Server::start();
    let members: Vec<String> = (0..100_000).map(|i| format!("\"m{i}\":1")).collect();
    let body = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"m\",\"bogus\":1}},\"{}\":{{{}}},\"other\":2}}",
        "k".repeat(1 << 20),
        members.join(",")
    );
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let send = |path: &str| post(path, "application/json", body.clone());
    check(server.client(), &[send(&strict), send(MAPS)], &[400, 201]);
}

#[test]
fn duplicates_below_a_long_key() {
    let server = Server::start();
    let key = "k".repeat(1 << 20);
    let body = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{{\"name\":\"m\"}},\"{key}\":{{{}}}}}",
        vec!["\"m\":1"; 100_000].join(",")
    );
    let strict = format!("{MAPS}?fieldValidation=Strict");
    let send = |path: &str| post(path, "application/json", body.clone());
    check(server.client(), &[send(&strict), send(MAPS)], &[400, 201]);
}

#[test]
fn yaml_aliases() {
    let server = Server::start();
    let head = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n";
    let scalar = format!("{head}x: &a {}\ny:\n{}", "x".repeat(1 << 20), "- *a\n".repeat(100_000));
    let keys = format!("{head}x: &a {}\ny:\n{}", "x".repeat(1 << 20), "- {*a : 1}\n".repeat(100_000));
    let levels: Vec<String> =
        (1..30).map(|i| format!("a{i}: &a{i} [{}]", vec![format!("*a{}", i - 1); 10].join(","))).collect();
    let bomb = format!("{head}a0: &a0 [x,x,x]\n{}\n", levels.join("\n"));
    let send = |body: String| post(MAPS, "application/yaml", body);
    check(server.client(), &[send(scalar.clone()), send(keys), send(bomb)], &[400, 400, 400]);
    let apply = Request::new("PATCH", format!("{MAPS}/m?fieldManager=m"))
        .body("application/apply-patch+yaml", scalar);
    check(server.client(), &[apply], &[400]);
}

#[test]
fn json_patches_that_nest() {
    let server = Server::start();
    let client = server.client();
    client.post(MAPS, &map("m")).expect(201);
    let adds: Vec<Value> =
        (0..1_000).map(|i| json!({"op": "add", "path": "/a".repeat(i + 1), "value": {}})).collect();
    let mut moves = vec![json!({"op": "add", "path": "/a", "value": {}})];
    for _ in 0..3_000 {
        moves.push(json!({"op": "add", "path": "/b", "value": {}}));
        moves.push(json!({"op": "move", "from": "/a", "path": "/b/a"}));
        moves.push(json!({"op": "move", "from": "/b", "path": "/a"}));
    }
    let mut copies = vec![json!({"op": "add", "path": "/a", "value": {"a": {}}})];
    copies.extend(
        (1..25).map(|i| json!({"op": "copy", "from": "/a", "path": "/a".repeat((1 << i.min(12)) + 1)})),
    );
    let too_many = vec![json!({"op": "test", "path": "/kind", "value": "ConfigMap"}); 10_001];
    let send = |operations: Vec<Value>| patch("m", "json-patch+json", &Value::Array(operations));
    let requests = [send(adds), send(moves), send(copies), send(too_many)];
    check(client, &requests, &[422, 422, 422, 413]);
}

#[test]
fn json_patches_that_move_a_long_list() {
    let server = Server::start();
    let client = server.client();
    client.post(MAPS, &map("m")).expect(201);
    let list = Value::Array(vec![json!(0); 1_000_000]);
    let mut operations = vec![json!({"op": "add", "path": "/x", "value": list})];
    operations.extend(vec![json!({"op": "add", "path": "/x/0", "value": 0}); 9_000]);
    check(client, &[patch("m", "json-patch+json", &Value::Array(operations))], &[422]);
}

#[test]
fn merge_patches_of_many_members() {
    let server = Server::start();
    let client = server.client();
    let members = |prefix: &str| -> Value {
        (0..60_000).map(|i| (format!("{prefix}{i:06}"), json!(""))).collect::<serde_json::Map<_, _>>().into()
    };
    let mut large = map("m");
    large["data"] = members("z");
    client.post(MAPS, &large).expect(201);
    for how in ["merge-patch+json", "strategic-merge-patch+json"] {
        check(client, &[patch("m", how, &json!({"data": members("a")}))], &[200]);
        let gone: serde_json::Map<_, _> = (0..60_000).map(|i| (format!("a{i:06}"), json!(null))).collect();
        check(client, &[patch("m", how, &json!({"data": gone}))], &[200]);
    }
}

/// A role of a few kilobytes with a billion permissions.
#[test]
fn a_role_of_a_billion_permissions() {
    let server = Server::start();
    let client = server.client();
    let texts = |prefix: &str| (0..1_000).map(|i| format!("{prefix}{i}")).collect::<Vec<_>>();
    let rule = json!({"verbs": texts("v"), "apiGroups": texts("g"), "resources": texts("r")});
    let api_version = "rbac.authorization.k8s.io/v1";
    let role = json!({"apiVersion": api_version, "kind": "Role", "metadata": {"name": "r"}, "rules": [rule]});
    let editor = json!({"apiVersion": api_version, "kind": "ClusterRoleBinding", "metadata": {"name": "jane"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}]});
    client.post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &editor).expect(201);
    let send = |user: &str| Request::new("POST", ROLES).json(&role).header("impersonate-user", user);
    check(client, &[send("jane")], &[403]);
    let refusal = client.send(&send("jane")).expect_failure(403, "Forbidden");
    assert!(refusal.contains("is attempting to grant RBAC permissions not currently held:"), "{refusal}");
    assert!(refusal.len() < 1 << 20, "{}", refusal.len());
    // A user with all permissions may grant all.
    client.post(ROLES, &role).expect(201);
}

#[test]
fn lists_of_forty_thousand() {
    let server = Server::start();
    let client = server.client();
    let owner = |i: usize, controller: bool| json!({"apiVersion": "v1", "kind": "Pod", "name": format!("o{i}"), "uid": format!("u{i}"), "controller": controller});
    let list = |item: &dyn Fn(usize) -> Value| Value::Array((0..30_000).map(item).collect());
    let with = |name: &str, field: &str, value: Value| {
        let mut object = map(name);
        object["metadata"][field] = value;
        Request::new("POST", MAPS).json(&object)
    };
    let owned = with("owned", "ownerReferences", list(&|i| owner(i, false)));
    let controlled = with("controlled", "ownerReferences", list(&|i| owner(i, true)));
    let nameless = with("nameless", "ownerReferences", list(&|_| json!({})));
    let finalized = with("finalized", "finalizers", list(&|i| json!(format!("x/f{i}"))));
    let managers = list(
        &|i| json!({"manager": format!("m{i}"), "operation": "Update", "apiVersion": format!("v{i}"), "fieldsType": "FieldsV1", "fieldsV1": {}}),
    );
    let managed = with("managed", "managedFields", managers);
    // A duplicate reference is dropped.
    check(client, &[owned, controlled, nameless, finalized, managed], &[201, 422, 422, 201, 201]);
    let container = |i: usize| json!({"name": format!("c{i}"), "image": "i", "ports": [{"containerPort": 80, "hostPort": i + 1}]});
    let spec = json!({"containers": list(&container), "tolerations": list(&|i| json!({"key": format!("k{i}"), "operator": "Exists"}))});
    let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec});
    let answers = attack(client, &[Request::new("POST", "/api/v1/namespaces/default/pods").json(&pod)]);
    assert!(matches!(answers[..], [201 | 413 | 422]), "{answers:?}");
    client.get("/readyz").expect_status(200);
}

#[test]
fn more_parts_than_any_object_has() {
    let server = Server::start();
    let containers = "{},".repeat(900_000) + "{}";
    let body = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{{\"name\":\"p\"}},\"spec\":{{\"containers\":[{containers}]}}}}"
    );
    let request = post("/api/v1/namespaces/default/pods", "application/json", body);
    check(server.client(), &[request], &[413]);
}
