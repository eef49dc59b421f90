//! Limits of the server: concurrent requests and request timeouts.

use std::time::{Instant, SystemTime};

use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use corten_testkit::{Client, DEADLINE, Identity, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A client of an ordinary user.
fn ordinary_client(server: &Server) -> Client {
    let pki = server.directory().path().join("pki");
    let now = SystemTime::now();
    let authority =
        Authority::load_or_create(&pki, "ca", "kubernetes-ca", now).expect("the cluster's authority");
    let request = LeafRequest {
        common_name: "alice".to_owned(),
        organization: Some("devs".to_owned()),
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    let leaf = authority.issue(&request, now).expect("a certificate");
    server.client_as(Identity::Certificate { cert_pem: &leaf.cert_pem, key_pem: &leaf.key_pem })
}

/// Begins a request and leaves it unfinished.
fn begin(server: &Server) -> corten_testkit::Connection {
    let mut connection = server.client().connect().expect("a connection");
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    connection.send(head.as_bytes()).expect("half a request");
    connection
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < limit, "{what}: not in time");
        std::thread::yield_now();
    }
}

/// A slot is held while a request is processed; so many are sent at once, until one of them is refused.
#[test]
fn a_request_above_the_limit_gets_429() {
    const AT_ONCE: usize = 8;
    let server = Server::start_with(&["--max-mutating-requests-inflight", "1"]);
    let binding = serde_json::json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding", "metadata": {"name": "alice"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}],
    });
    server.client().post("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", &binding).expect(201);
    let map = |name: &str| {
        serde_json::json!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": name}, "data": {"a": "x".repeat(200_000)},
        })
    };
    let limit = Instant::now() + DEADLINE;
    let refused = loop {
        assert!(Instant::now() < limit, "no request came too soon");
        let clients = [(); AT_ONCE].map(|()| ordinary_client(&server));
        let map = &map;
        let answers = std::thread::scope(|scope| {
            let threads = clients.map(|client| scope.spawn(move || client.post(MAPS, &map("m-"))));
            threads.map(|thread| thread.join().expect("an answer"))
        });
        if let Some(refused) = answers.into_iter().find(|answer| answer.status == 429) {
            break refused;
        }
    };
    assert_eq!(refused.text(), "Too many requests, please try again later.\n");
    assert_eq!(refused.header("retry-after"), "1");
    // Readers have slots of their own, and administrators are always served.
    ordinary_client(&server).get(MAPS).expect(200);
    server.client().post(MAPS, &map("n-")).expect(201);
    let metrics = server.client().get("/metrics").text();
    let dropped = metrics.lines().find(|line| line.starts_with("apiserver_dropped_requests_total"));
    assert!(dropped.is_some_and(|line| line.contains("mutating") && !line.ends_with(" 0")), "{metrics}");
}

#[test]
fn a_slow_request_times_out() {
    let server = Server::start_with(&["--request-timeout", "200ms"]);
    let _open = begin(&server);
    until("the request is ended", || {
        let metrics = server.client().get("/metrics").text();
        metrics.lines().any(|line| line.starts_with("apiserver_request_total{code=\"504\""))
    });
}

#[test]
fn an_invalid_timeout_is_refused_on_every_path() {
    let server = Server::start();
    let client = server.client();
    for path in ["/version?timeout=5foo", &format!("{MAPS}?timeout=5foo"), "/apis?timeout=x"] {
        let message = client.get(path).expect_failure(400, "BadRequest");
        assert!(message.starts_with("invalid timeout specified in the request URL"), "{path}: {message}");
    }
    client.get("/version?timeout=1s").expect_status(200);
    client.get("/version?timeout=0s").expect_status(200);
}
