//! How much the server takes on: requests at once, and how long each may take.

use std::time::{Duration, Instant, SystemTime};

use corten_pki::{Authority, LeafRequest, LeafUsage, Sans};
use corten_testkit::{Client, DEADLINE, Identity, Server};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// A client of nobody in particular.
fn stranger(server: &Server) -> Client {
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

/// Begins a request and leaves it unfinished; it is being worked on as long as the connection lives.
fn begin(server: &Server) -> corten_testkit::Connection {
    let mut connection = server.client().connect().expect("a connection");
    let head = format!(
        "POST {MAPS} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n{{"
    );
    connection.send(head.as_bytes()).expect("half a request");
    connection
}

fn inflight(server: &Server) -> usize {
    let metrics = server.client().get("/metrics").text();
    let line = metrics.lines().find_map(|line| {
        line.strip_prefix("apiserver_current_inflight_requests{request_kind=\"mutating\"} ")
    });
    line.and_then(|count| count.parse().ok()).unwrap_or_default()
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let limit = Instant::now() + DEADLINE;
    while !holds() {
        assert!(Instant::now() < limit, "{what}: not in time");
        std::thread::yield_now();
    }
}

#[test]
fn one_too_many_is_told_to_come_back() {
    let server = Server::start_with(&["--max-mutating-requests-inflight", "2"]);
    let alice = stranger(&server);
    let map = serde_json::json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "m"}});
    alice.post(MAPS, &map).expect_failure(403, "Forbidden");
    let (first, second) = (begin(&server), begin(&server));
    until("two requests", || inflight(&server) == 2);
    let refused = alice.post(MAPS, &map);
    refused.expect_status(429);
    assert_eq!(refused.text(), "Too many requests, please try again later.\n");
    assert_eq!(refused.header("retry-after"), "1");
    // Readers have places of their own, and those who run the cluster always get an answer.
    alice.get(MAPS).expect_failure(403, "Forbidden");
    server.client().post(MAPS, &map).expect(201);
    assert!(
        server
            .client()
            .get("/metrics")
            .text()
            .contains("apiserver_dropped_requests_total{request_kind=\"mutating\"} 1\n")
    );
    drop((first, second));
    until("both gone", || inflight(&server) == 0);
    alice.post(MAPS, &map).expect_failure(403, "Forbidden");
}

#[test]
fn a_request_that_takes_too_long_is_ended() {
    let server = Server::start_with(&["--request-timeout", "200ms"]);
    let began = Instant::now();
    let _open = begin(&server);
    until("one request", || inflight(&server) == 0 && began.elapsed() > Duration::from_millis(200));
    let metrics = server.client().get("/metrics").text();
    let line = metrics
        .lines()
        .find(|line| line.starts_with("apiserver_request_total{code=\"504\""))
        .map(str::to_owned);
    assert!(line.is_some(), "{metrics}");
}
