//! Clients that hold resources: bodies that never arrive, and floods of frames. Other clients are served meanwhile.

use std::io;

use corten_testkit::{Client, Connection, Identity, Request, Server};
use serde_json::json;

/// Maximum number of concurrent requests of a user.
const USER_LIMIT: usize = 32;
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const GO_AWAY: u8 = 7;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).expect("a frame is small").to_be_bytes();
    let mut frame = [&length[1..], &[kind, flags], &stream.to_be_bytes()].concat();
    frame.extend_from_slice(payload);
    frame
}

/// A header field without indexing.
fn field(name: &str, value: &str) -> Vec<u8> {
    let length = |text: &str| u8::try_from(text.len()).expect("a field is short");
    [&[0, length(name)], name.as_bytes(), &[length(value)], value.as_bytes()].concat()
}

/// The header of a request for `/`.
fn get(more: &[u8]) -> Vec<u8> {
    [&[0x82, 0x87, 0x84], field(":authority", "localhost").as_slice(), more].concat()
}

fn http2(client: &Client) -> Connection {
    let mut connection = client.connect_http2().expect("a connection");
    let hello = [&b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"[..], &frame(SETTINGS, 0, 0, &[])].concat();
    connection.send(&hello).expect("it is greeted");
    connection
}

/// The error code with which the server closes a connection, if it sends one before.
fn goaway_code(connection: &mut Connection) -> io::Result<Option<u32>> {
    loop {
        let mut head = [0; 9];
        match connection.read_exact(&mut head) {
            Err(error) if is_closed(&error) => return Ok(None),
            read => read?,
        }
        let length = usize::from(head[0]) << 16 | usize::from(head[1]) << 8 | usize::from(head[2]);
        let mut payload = vec![0; length];
        connection.read_exact(&mut payload)?;
        if head[3] == PING && head[4] == 0 {
            return Err(io::Error::other("the server keeps the connection"));
        }
        if head[3] == GO_AWAY {
            let code = payload.get(4..8).and_then(|code| code.try_into().ok()).map(u32::from_be_bytes);
            return Ok(code);
        }
    }
}

fn is_closed(error: &io::Error) -> bool {
    use io::ErrorKind::{BrokenPipe, ConnectionAborted, ConnectionReset, UnexpectedEof};
    matches!(error.kind(), BrokenPipe | ConnectionAborted | ConnectionReset | UnexpectedEof)
}

fn serves(server: &Server) {
    assert_eq!(server.client().get("/livez").status, 200);
}

/// The resident memory of the server in KiB.
fn resident(server: &Server) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{}/status", server.process_id())).expect("a process");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("it says so");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn bodies_that_never_arrive_delay_no_other_client() {
    let server =
        Server::start_with(&["--max-mutating-requests-inflight", "8", "--max-requests-inflight", "8"]);
    let client = server.client();
    let rbac = "/apis/rbac.authorization.k8s.io/v1";
    let rules = json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["*"]}]);
    client
        .post(format!("{rbac}/clusterroles"), &json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "maps"},
            "rules": rules,
        }))
        .expect_status(201);
    let group = |name: &str| json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": name});
    client
        .post(
            format!("{rbac}/clusterrolebindings"),
            &json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": "maps"}, "subjects": [group("mappers")],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "maps"},
            }),
        )
        .expect_status(201);
    let body = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "late"}}).to_string();
    let begun = |method: &str| {
        let mut connection = client.connect().expect("a connection");
        let head = format!(
            "{method} {CONFIG_MAPS} HTTP/1.1\r\nhost: localhost\r\nimpersonate-user: bad\r\n\
             impersonate-group: mappers\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\
             expect: 100-continue\r\n\r\n",
            body.len()
        );
        connection.send(head.as_bytes()).expect("it is sent");
        let answer = connection.read_until(b"\r\n\r\n").expect("an answer");
        (connection, String::from_utf8_lossy(&answer).into_owned())
    };
    // The server waits for the body.
    let stalled = |method: &str| {
        let (connection, answer) = begun(method);
        assert!(answer.starts_with("HTTP/1.1 100"), "{answer}");
        connection
    };
    let methods = ["POST", "GET"].into_iter().cycle();
    let mut waiting: Vec<Connection> = methods.take(USER_LIMIT).map(stalled).collect();
    let (mut refused, mut answer) = begun("POST");
    if answer.starts_with("HTTP/1.1 100") {
        let next = refused.read_until(b"\r\n\r\n").expect("an answer");
        answer = String::from_utf8_lossy(&next).into_owned();
    }
    assert!(answer.starts_with("HTTP/1.1 429"), "one too many: {answer}");

    let good =
        |request: Request| request.header("impersonate-user", "good").header("impersonate-group", "mappers");
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "prompt"}});
    let written = client.send(&good(Request::new("POST", CONFIG_MAPS)).json(&map));
    assert_eq!(written.status, 201, "{}", written.text());
    assert_eq!(client.send(&good(Request::new("GET", CONFIG_MAPS))).status, 200);

    // A body that arrives late is still accepted.
    waiting[0].send(body.as_bytes()).expect("it is sent");
    let answer = waiting[0].read_until(b"\r\n\r\n").expect("an answer");
    assert!(answer.starts_with(b"HTTP/1.1 201"), "{}", String::from_utf8_lossy(&answer));
}

#[test]
fn streams_that_are_reset_at_once_end_their_connection() {
    let server = Server::start();
    let mut connection = http2(server.client());
    let mut flood = Vec::new();
    for number in 0..1000 {
        let stream = 2 * number + 1;
        flood.extend(frame(HEADERS, END_HEADERS | END_STREAM, stream, &get(&[])));
        flood.extend(frame(RESET, 0, stream, &8u32.to_be_bytes()));
    }
    match connection.send(&flood) {
        Err(error) => assert!(is_closed(&error), "{error}"),
        Ok(()) => {
            let code = goaway_code(&mut connection).expect("the connection ends");
            assert!(code.is_none_or(|code| code == 11), "{code:?}: enhance your calm");
        }
    }
    serves(&server);
}

#[test]
fn endless_headers_close_the_connection() {
    let server = Server::start();
    let before = resident(&server);
    let mut connection = http2(server.client());
    let begin = frame(HEADERS, END_STREAM, 1, &get(&[]));
    connection.send(&begin).expect("it is sent");
    let junk: Vec<u8> = (0..60).flat_map(|_| field("x", &"y".repeat(120))).collect();
    let more = frame(CONTINUATION, 0, 1, &junk);
    // Much more than any server buffers; it stops reading long before.
    let flooded = (0..4_000).find_map(|_| connection.send(&more).err());
    let ended = match flooded {
        Some(error) => is_closed(&error),
        None => goaway_code(&mut connection).is_ok(),
    };
    assert!(ended, "the server listens to all of it");
    serves(&server);
    assert!(resident(&server) < before + (64 << 10), "nothing of it is kept");
}

#[test]
fn headers_have_a_largest_size() {
    let server = Server::start();
    let mut connection = server.client().connect().expect("a connection");
    let head = format!("GET /livez HTTP/1.1\r\nhost: localhost\r\nx: {}", "y".repeat(1 << 20));
    let sent = connection.send(head.as_bytes());
    match sent.and_then(|()| connection.read_until(b"\r\n\r\n")) {
        Ok(answer) => assert!(answer.starts_with(b"HTTP/1.1 431"), "{}", String::from_utf8_lossy(&answer)),
        Err(error) => assert!(is_closed(&error), "{error}"),
    }
    serves(&server);
}

#[test]
fn frames_that_need_responses_are_not_queued_without_bound() {
    let server = Server::start();
    for (kind, payload) in [(SETTINGS, &[][..]), (PING, &[0; 8])] {
        let before = resident(&server);
        let mut connection = http2(server.client());
        let flood = frame(kind, 0, 0, payload).repeat(1000);
        // The responses are not read. A server that stops reading would block this; the requests are few
        // enough that the kernel buffers them all.
        for _ in 0..50 {
            if connection.send(&flood).is_err() {
                break;
            }
        }
        serves(&server);
        assert!(resident(&server) < before + (64 << 10), "frames of kind {kind}");
    }
}

#[test]
fn empty_frames_on_unopened_streams_close_the_connection() {
    let server = Server::start();
    let mut connection = http2(server.client());
    connection.send(&frame(DATA, 0, 101, &[]).repeat(10)).expect("it is sent");
    let code = goaway_code(&mut connection).expect("the connection ends");
    assert!(code.is_some_and(|code| code != 0), "{code:?}: it is an error");
    serves(&server);
}

#[test]
fn an_unauthenticated_connection_is_closed() {
    let server = Server::start();
    let mut connection = http2(&server.client_as(Identity::Anonymous));
    let request = get(&field("authorization", "Bearer nonsense"));
    connection.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &request)).expect("it is sent");
    let code = goaway_code(&mut connection).expect("the connection ends");
    assert_eq!(code, Some(0), "in good order");
    serves(&server);
}
