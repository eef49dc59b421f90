//! Invalid input gets upstream's response: no server error, no crash, no delay of other clients.

use std::io::Write;
use std::net::TcpStream;

use corten_e2e::{pod, served};
use corten_testkit::{Client, Request, Server};
use serde_json::json;

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// Checks that the server still works.
#[track_caller]
fn check_alive(client: &Client) {
    client.get("/readyz").expect_status(200);
    client.get("/api/v1/namespaces/default").expect(200);
}

#[test]
fn garbage_on_every_endpoint_is_refused() {
    let server = Server::start_with(&["--runtime-config", "api/all=true"]);
    let client = server.client();
    let mut paths = Vec::new();
    for kind in served(client) {
        let collection = kind.collection("default");
        paths.push(format!("{collection}/x"));
        let offered = kind.subresources.iter().map(|(name, _)| name).filter(|name| !is_unserved(name));
        paths.extend(offered.map(|name| format!("{collection}/x/{name}")));
        paths.push(collection);
    }
    let bodies: [(&str, &[u8]); 13] = [
        ("application/json", b""),
        ("application/json", b"{"),
        ("application/json", b"[]"),
        ("application/json", b"\"text\""),
        ("application/json", b"{\"apiVersion\":7,\"kind\":[],\"metadata\":\"x\"}"),
        ("application/json", b"{\"metadata\":{\"name\":{\"a\":1},\"labels\":[1]},\"spec\":[]}"),
        ("application/json", b"\xff\xfe\x00\x80"),
        ("application/yaml", b"a: [b\n  c: }"),
        ("application/yaml", b"&a [*a, *a]"),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00"),
        ("application/vnd.kubernetes.protobuf", b"k8s\x00\x0a\xff\xff\xff\xff\x0f"),
        ("application/vnd.kubernetes.protobuf", b"\x0a\x05hello"),
        ("text/plain", b"hello"),
    ];
    for path in &paths {
        for (media_type, body) in bodies {
            for method in ["POST", "PUT"] {
                refused(client, &Request::new(method, path).body(media_type, body));
            }
        }
        for media_type in
            ["json-patch+json", "merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml"]
        {
            for body in ["", "{", "7", "[{\"op\":\"fly\"}]", "[[[["] {
                let media_type = format!("application/{media_type}");
                refused(
                    client,
                    &Request::new("PATCH", format!("{path}?fieldManager=m")).body(&media_type, body),
                );
            }
        }
        for query in ["labelSelector=%ff", "fieldSelector=%3D%3D", "limit=x", "continue=%00"] {
            not_a_server_error(client, &Request::new("GET", format!("{path}?{query}")));
        }
        not_a_server_error(client, &Request::new("BREW", path));
        // An empty body is an empty object, which is valid for a kind without required fields. An invalid binding is,
        // as in upstream, not a client error.
        if path.ends_with("/bindings") {
            client.post(path, &serde_json::Value::Null).expect_failure(500, "");
            continue;
        }
        not_a_server_error(client, &Request::new("POST", path).body("application/json", "null"));
    }
    check_alive(client);
}

/// Subresources that the kubelet or a service serves: there is none here.
fn is_unserved(subresource: &str) -> bool {
    ["attach", "exec", "log", "portforward", "proxy", "token"].contains(&subresource)
}

#[track_caller]
fn refused(client: &Client, request: &Request) {
    let response = client.send(request);
    assert!((400..500).contains(&response.status), "{request:?}: {} {}", response.status, response.text());
}

#[track_caller]
fn not_a_server_error(client: &Client, request: &Request) {
    let response = client.send(request);
    assert!(response.status < 500, "{request:?}: {} {}", response.status, response.text());
}

#[test]
fn strange_paths_are_not_found() {
    let server = Server::start();
    let client = server.client();
    for path in [
        "/nowhere",
        "/api/v2",
        "/apis/nowhere",
        "/apis/apps/v9",
        "/apis/apps/v1/nowhere",
        "/api/v1/nowhere",
        "/api/v1/namespaces/default/nowhere",
        "/api/v1/namespaces/default/pods/p/nowhere",
        "//api//v1//pods",
        "/api/v1/namespaces/%2e%2e/pods/p",
        "/%00",
    ] {
        let response = client.get(path);
        assert_eq!(response.status, 404, "{path}: {}", response.text());
    }
    check_alive(client);
}

#[test]
fn oversized_bodies_are_refused() {
    let server = Server::start();
    let client = server.client();
    let big = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"},
        "data": {"a": "x".repeat(4 << 20)},
    });
    client.post(MAPS, &big).expect_status(413);
    let large = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"},
        "data": {"a": "x".repeat(1 << 19)},
    });
    client.post(MAPS, &large).expect(201);
    check_alive(client);
}

#[test]
fn deep_nesting_is_refused() {
    let server = Server::start();
    let client = server.client();
    for depth in [200, 20_000, 200_000] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let object =
            format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"m"}},"data":{deep}}}"#);
        refused(client, &Request::new("POST", MAPS).body("application/json", object));
        let maps = format!("{}1{}", "{\"a\":".repeat(depth), "}".repeat(depth));
        refused(client, &Request::new("POST", MAPS).body("application/json", maps.clone()));
        refused(
            client,
            &Request::new("PATCH", format!("{MAPS}/m")).body("application/merge-patch+json", maps),
        );
        refused(client, &Request::new("POST", MAPS).body("application/yaml", deep));
    }
    check_alive(client);
}

#[test]
fn slow_and_silent_clients_delay_no_other_client() {
    let server = Server::start();
    let client = server.client();
    let mut held = Vec::new();
    let mut silent = Vec::new();
    for round in 0..100 {
        // One connection sends nothing at all, one stops within the TLS handshake, two within a request.
        silent.push(TcpStream::connect(client.address()).unwrap());
        let mut hello = TcpStream::connect(client.address()).unwrap();
        hello.write_all(b"\x16\x03\x01\x02").unwrap();
        silent.push(hello);
        let mut head = client.connect().unwrap();
        head.send(b"GET /api/v1/pods HTTP/1.1\r\nhost: x\r\nx-half").unwrap();
        held.push(head);
        let mut body = client.connect().unwrap();
        body.send(format!("POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{").as_bytes())
            .unwrap();
        held.push(body);
        if round % 25 == 0 {
            client.post("/api/v1/namespaces/default/pods", &pod(&format!("p{round}"))).expect(201);
        }
    }
    check_alive(client);
    let list = client.get("/api/v1/namespaces/default/pods").expect(200);
    assert_eq!(list["items"].as_array().map(Vec::len), Some(4));
}

#[test]
fn a_watcher_that_does_not_read_delays_no_other_client() {
    let server = Server::start();
    let client = server.client();
    // Opened and never read from: its buffers fill up.
    let unread: Vec<_> = (0..5).map(|_| client.watch(format!("{MAPS}?watch=true"))).collect();
    let mut reader = client.watch(format!("{MAPS}?watch=true"));
    let padding = "x".repeat(100_000);
    for index in 0..100 {
        let name = format!("m{index}");
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": padding},
        });
        client.post(MAPS, &object).expect(201);
        assert_eq!(reader.expect("ADDED")["metadata"]["name"], name);
    }
    drop(unread);
    check_alive(client);
}

#[test]
fn requests_that_are_not_http_end_the_connection_only() {
    let server = Server::start();
    let client = server.client();
    for bytes in
        [&b"hello\r\n\r\n"[..], b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x00\x01\x02\x03\r\n\r\n"]
    {
        let mut connection = client.connect().unwrap();
        connection.send(bytes).unwrap();
        assert!(connection.ends(), "{bytes:?}");
    }
    check_alive(client);
}
