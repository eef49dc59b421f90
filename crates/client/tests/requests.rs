//! The contract of requests over the network, against a small HTTPS server: what is sent, which servers are trusted, that a
//! request is sent once, and that responses are bounded.

mod common;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corten_api::value;
use corten_base::Clock;
use corten_client::{
    AccountTransport, Client, DeleteOptions, Error, Key, Patch, Propagation, Remote, WatchEvent, kinds,
};
use corten_pki::{Credentials, LeafRequest, LeafUsage, Sans};
use futures_util::StreamExt;
use http::StatusCode;
use parking_lot::Mutex;
use tokio::sync::mpsc;

use common::{Server, client, response, streamed, within};

#[tokio::test]
async fn requests_are_sent_as_the_api_wants_them() {
    let server = Server::saying(200, "{}").await;
    let client = server.client();
    let (key, object) = (Key::new("n", "p"), value!({"metadata": {"namespace": "n", "name": "p"}}));
    let apply = Patch::Apply { manager: "m", force: true, object: object.clone() };
    let delete = DeleteOptions {
        propagation: Some(Propagation::Orphan),
        uid: Some("u".into()),
        ..DeleteOptions::default()
    };
    within(async {
        client.get(&kinds::PODS, &key).await.unwrap();
        client.list(&kinds::PODS, "").await.unwrap();
        client.create(&kinds::PODS, &object).await.unwrap();
        client.create_subresource(&kinds::PODS, &key, "binding", &object).await.unwrap();
        client.update(&kinds::PODS, &object, "status").await.unwrap();
        client.patch(&kinds::PODS, &key, &Patch::Merge(object.clone()), "").await.unwrap();
        client.patch(&kinds::PODS, &key, &apply, "").await.unwrap();
        client.delete(&kinds::PODS, &key, &delete).await.unwrap();
    })
    .await;
    let pod = "/api/v1/namespaces/n/pods/p";
    let received = server.received();
    let sent: Vec<_> =
        received.iter().map(|r| (r.method.as_str(), r.uri.as_str(), r.content_type.as_str())).collect();
    assert_eq!(
        sent,
        [
            ("GET", pod, ""),
            ("GET", "/api/v1/pods", ""),
            ("POST", "/api/v1/namespaces/n/pods", "application/json"),
            ("POST", &format!("{pod}/binding"), "application/json"),
            ("PUT", &format!("{pod}/status"), "application/json"),
            ("PATCH", pod, "application/merge-patch+json"),
            ("PATCH", &format!("{pod}?fieldManager=m&force=true"), "application/apply-patch+yaml"),
            ("DELETE", pod, "application/json"),
        ]
    );
    assert!(received.iter().all(|request| request.agent == "test/v1"));
    assert_eq!(received[2].body, object);
    let options = &received[7].body;
    assert_eq!(options.str_at(&["propagationPolicy"]), Some("Orphan"));
    assert_eq!(options.str_at(&["preconditions", "uid"]), Some("u"));
    assert_eq!(server.connections(), 1, "connections are reused");
}

#[tokio::test]
async fn a_client_authenticates_with_its_certificate_or_its_token() {
    let server = Server::saying(200, "{}").await;
    let request = LeafRequest {
        common_name: "jane".into(),
        organization: None,
        sans: Sans::default(),
        usage: LeafUsage::Client,
    };
    let own = server.authority.issue(&request, SystemTime::now()).expect("a certificate");
    let anonymous = server.anonymous();
    let certified = Credentials { cert_pem: own.cert_pem, key_pem: own.key_pem, ..anonymous.clone() };
    let with_token = Credentials { token: Some("secret".into()), ..anonymous.clone() };
    for credentials in [&anonymous, &certified, &with_token] {
        within(client(credentials).read("/")).await.unwrap();
    }
    let users: Vec<_> =
        server.received().into_iter().map(|request| (request.user, request.authorization)).collect();
    let expected = [("", ""), ("jane", ""), ("", "Bearer secret")];
    assert_eq!(users, expected.map(|(user, token)| (user.to_owned(), token.to_owned())));
    let bad = Credentials { token: Some("new\nline".into()), ..anonymous };
    assert!(Remote::new(&bad).is_err());
}

#[tokio::test]
async fn a_server_without_the_right_certificate_gets_no_request() {
    let server = Server::saying(200, "{}").await;
    let other = Server::saying(200, "{}").await;
    let foreign = Credentials { ca_pem: other.authority.pem().to_owned(), ..server.anonymous() };
    let port = server.address.port();
    let misnamed = Credentials { server: format!("https://localhost:{port}"), ..server.anonymous() };
    for (credentials, problem) in [(foreign, "BadSignature"), (misnamed, "not valid for name")] {
        let error = within(client(&credentials).read("/")).await.unwrap_err();
        let Error::Transport(text) = &error else { panic!("{error}") };
        assert!(text.contains("invalid peer certificate") && text.contains(problem), "{text}");
        assert_eq!(error.code(), 0);
    }
    assert!(server.received().is_empty());
    let plain = Credentials { server: format!("http://{}", server.address), ..server.anonymous() };
    assert!(within(client(&plain).read("/")).await.is_err(), "nothing is sent without TLS");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn failures_are_statuses_or_transport_errors() {
    let missing = r#"{"kind":"Status","reason":"NotFound","code":404,"message":"no such pod"}"#;
    let server = Server::saying(404, missing).await;
    let error = within(server.client().read("/")).await.unwrap_err();
    assert!(error.is_not_found());
    assert_eq!(error.code(), 404);
    for (code, body, said) in
        [(502, "<html>", "502 Bad Gateway: <html>"), (500, "{}", "500"), (200, "<html>", "")]
    {
        let server = Server::saying(code, body).await;
        let error = within(server.client().read("/")).await.unwrap_err();
        assert!(matches!(&error, Error::Transport(text) if text.starts_with(said)), "{error}");
    }
}

#[tokio::test]
async fn a_request_is_sent_once_and_the_next_one_finds_the_server_again() {
    let server = Server::start(|request| (request.method == "GET").then(|| response(200, "{}"))).await;
    let client = server.client();
    within(client.read("/first")).await.unwrap();
    let lost = within(client.create(&kinds::NODES, &value!({}))).await.unwrap_err();
    assert!(matches!(lost, Error::Transport(_)), "{lost}");
    within(client.read("/second")).await.unwrap();
    let sent: Vec<_> = server.received().into_iter().map(|request| request.method).collect();
    assert_eq!(sent, ["GET", "POST", "GET"], "a write that may have been done is not repeated");

    let overloaded = Server::saying(429, r#"{"kind":"Status","reason":"TooManyRequests","code":429}"#).await;
    assert_eq!(within(overloaded.client().read("/")).await.unwrap_err().code(), 429);
    assert_eq!(overloaded.received().len(), 1, "callers decide whether and when to retry");
}

#[tokio::test]
async fn an_unverified_server_is_answered_without_credentials_and_bounded() {
    let server = Server::start(|request| {
        let size = if request.uri == "/large" { 2 << 20 } else { 1 << 10 };
        Some(response(200, format!("\"{}\"", "x".repeat(size))))
    })
    .await;
    let remote = Remote::unchecked(&format!("https://{}", server.address)).expect("a good address");
    let client = Client::new(Arc::new(remote), "test");
    within(client.read("/small")).await.unwrap();
    let error = within(client.read("/large")).await.unwrap_err();
    assert!(error.to_string().contains("length limit exceeded"), "{error}");
    assert!(server.received().iter().all(|request| request.authorization.is_empty()));
    within(server.client().read("/large")).await.expect("a verified server may send large lists");
}

#[tokio::test]
async fn watch_events_arrive_however_they_are_cut() {
    let lines = concat!(
        r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"1"}}}"#,
        "\n",
        r#"{"type":"DELETED","object":{"metadata":{"name":"a","resourceVersion":"2"}}}"#,
        "\n",
        r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"3","annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
        "\n",
        r#"{"type":"ERROR","object":{"kind":"Status","reason":"Expired","code":410}}"#,
        "\n",
    );
    for size in [1, 7, 80, 1000] {
        let server = Server::start(move |_| {
            Some(streamed(lines.as_bytes().chunks(size).map(Bytes::copy_from_slice).collect()))
        })
        .await;
        let kind = kinds::PODS.with_fields("spec.nodeName=n1");
        let mut events = within(server.client().watch(&kind, String::new())).await.unwrap();
        let mut next = async || within(events.next()).await.expect("the watch goes on");
        assert!(matches!(next().await, Ok(WatchEvent::Present(seen)) if seen.tree.is_some()));
        assert!(matches!(next().await, Ok(WatchEvent::Deleted { revision: 2, .. })));
        let bookmark = WatchEvent::Bookmark { version: "3".into(), ends_initial: true };
        assert_eq!(next().await.unwrap(), bookmark);
        assert!(next().await.unwrap_err().is_expired());
        assert!(within(events.next()).await.is_none(), "the end of the response is the end of the watch");
        let uri = &server.received()[0].uri;
        assert!(uri.contains("watch=true") && uri.contains("sendInitialEvents=true"), "{uri}");
        assert!(uri.contains("fieldSelector=spec.nodeName%3Dn1"), "{uri}");
    }
}

#[tokio::test]
async fn a_watch_that_is_refused_or_broken_is_an_error() {
    let gone = Server::saying(410, r#"{"kind":"Status","reason":"Expired","code":410}"#).await;
    let refused = within(gone.client().watch(&kinds::PODS, "7".into())).await;
    assert!(refused.err().is_some_and(|error| error.is_expired()));
    assert!(gone.received()[0].uri.contains("resourceVersion=7"));
    for line in ["no JSON\n", "{\"type\":\"ODD\"}\n"] {
        let server = Server::saying(200, line).await;
        let mut events = within(server.client().watch(&kinds::PODS, String::new())).await.unwrap();
        assert!(matches!(within(events.next()).await, Some(Err(Error::Transport(_)))), "{line}");
    }
}

#[tokio::test]
async fn a_watch_event_without_end_is_an_error() {
    let server = Server::start(|_| Some(streamed(vec![Bytes::from(vec![b' '; 1 << 20]); 18]))).await;
    let mut events = within(server.client().watch(&kinds::PODS, String::new())).await.unwrap();
    let error = within(events.next()).await.expect("an error").unwrap_err();
    assert!(error.to_string().contains("too large"), "{error}");
}

#[tokio::test]
async fn a_service_account_gets_a_token_and_renews_it() {
    let (sender, mut requested) = mpsc::unbounded_channel();
    let exists = Mutex::new(false);
    // The account does not exist at first.
    let issuer = Server::start(move |request| {
        if !request.uri.ends_with("/token") {
            *exists.lock() = true;
            return Some(response(201, "{}"));
        }
        if !*exists.lock() {
            return Some(response(404, r#"{"kind":"Status","reason":"NotFound","code":404}"#));
        }
        sender.send(request.uri.clone()).expect("the test reads");
        Some(response(201, r#"{"status":{"token":"t"}}"#))
    })
    .await;
    let unauthorized = Arc::new(Mutex::new(false));
    let rejects = unauthorized.clone();
    let api = Server::start(move |_| {
        let code = if *rejects.lock() { StatusCode::UNAUTHORIZED } else { StatusCode::OK };
        Some(response(code.as_u16(), r#"{"kind":"Status","reason":"Unauthorized","code":401}"#))
    })
    .await;
    let (clock, hands) = Clock::manual("2026-03-02T00:00:00Z".parse().expect("a good time"));
    let remote = Remote::new(&api.anonymous()).expect("good credentials");
    let account = Key::new("kube-system", "job-controller");
    let client =
        Client::new(Arc::new(AccountTransport::new(remote, issuer.client(), account, clock)), "test");
    let mut tokens = || std::iter::from_fn(|| requested.try_recv().ok()).count();

    within(client.read("/")).await.unwrap();
    within(client.read("/")).await.unwrap();
    assert_eq!(tokens(), 1, "a token is used many times");
    assert!(api.received().iter().all(|request| request.authorization == "Bearer t"));
    assert!(issuer.received().iter().any(|r| r.uri == "/api/v1/namespaces/kube-system/serviceaccounts"));

    hands.advance(Duration::from_secs(50 * 60));
    within(client.read("/")).await.unwrap();
    assert_eq!(tokens(), 1, "a token is renewed before its hour is over");

    *unauthorized.lock() = true;
    assert_eq!(within(client.read("/")).await.unwrap_err().code(), 401);
    *unauthorized.lock() = false;
    within(client.read("/")).await.unwrap();
    assert_eq!(tokens(), 1, "a rejected token is not used again");
}
