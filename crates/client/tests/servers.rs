//! The contract of a client of several servers: what moves to another server and what does not, and which servers are trusted.

mod common;

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use corten_api::{Value, value};
use corten_base::{Clock, ClockControl};
use corten_client::{Client, Error, EventStream, Servers, WatchEvent, kinds};
use corten_pki::{Authority, Credentials, Sans};
use futures_util::StreamExt;
use http::Response;
use http_body_util::{BodyExt, StreamBody};
use hyper::body::Frame;
use tokio::net::TcpListener;

use common::{Body, Received, Server, authority, local, response, within};

/// The state of the servers of a test.
#[derive(Clone, Default)]
struct Switches {
    /// Not ready, although they answer.
    unready: Arc<AtomicBool>,
    /// Close the connection instead of answering a write.
    breaks_writes: Arc<AtomicBool>,
}

struct Pair {
    authority: Arc<Authority>,
    /// The one that the client prefers comes first.
    servers: [Server; 2],
    switches: [Switches; 2],
    client: Client,
    transport: Servers,
}

fn answer(switches: &Switches, request: &Received) -> Option<Response<Body>> {
    if request.uri == "/readyz" {
        return Some(response(if switches.unready.load(Ordering::Relaxed) { 500 } else { 200 }, "ok"));
    }
    if request.uri.contains("watch=true") {
        let first = r#"{"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"7"}}}"#;
        let frames = futures_util::stream::iter([Ok(Frame::data(Bytes::from(format!("{first}\n"))))]);
        let endless = frames.chain(futures_util::stream::pending());
        return Some(Response::new(StreamBody::new(endless).boxed_unsync()));
    }
    if request.method != "GET" && switches.breaks_writes.load(Ordering::Relaxed) {
        return None;
    }
    Some(response(200, "{}"))
}

async fn server(authority: &Arc<Authority>, address: Option<SocketAddr>, sans: Sans) -> (Server, Switches) {
    let (switches, address) = (Switches::default(), address.unwrap_or((Ipv4Addr::LOCALHOST, 0).into()));
    let own = switches.clone();
    let server = Server::start_at(address, authority.clone(), sans, move |request| answer(&own, request));
    (server.await, switches)
}

fn credentials(authority: &Authority) -> Credentials {
    Credentials {
        server: String::new(),
        ca_pem: authority.pem().to_owned(),
        cert_pem: String::new(),
        key_pem: String::new(),
        token: None,
    }
}

fn url(server: &Server) -> String {
    format!("https://{}", server.address)
}

/// The requests that a server received, except health checks.
fn received(server: &Server) -> Vec<String> {
    let all = server.received().into_iter().filter(|request| request.uri != "/readyz");
    all.map(|request| request.method).collect()
}

impl Pair {
    async fn start() -> Pair {
        let authority = authority();
        let (first, second) =
            (server(&authority, None, local()).await, server(&authority, None, local()).await);
        let urls = [url(&first.0), url(&second.0)];
        let transport = Servers::new(&urls, credentials(&authority), "n").expect("good credentials");
        let client = Client::new(Arc::new(transport.clone()), "test");
        within(client.read("/")).await.expect("a server answers");
        let ((first, second), switches) = if received(&first.0).is_empty() {
            ((second.0, first.0), [second.1, first.1])
        } else {
            ((first.0, second.0), [first.1, second.1])
        };
        Pair { authority, servers: [first, second], switches, client, transport }
    }

    async fn create(&self) -> Result<Value, Error> {
        within(self.client.create(&kinds::NODES, &value!({}))).await
    }

    async fn watch(&self) -> EventStream {
        let mut events = within(self.client.watch(&kinds::NODES, "1".into())).await.expect("a watch");
        let first = within(events.next()).await.expect("the watch goes on");
        assert!(matches!(first, Ok(WatchEvent::Bookmark { .. })));
        events
    }

    /// Runs the checks on a clock that the test moves.
    fn check(&self) -> ClockControl {
        let (clock, control) = Clock::manual("2026-03-02T00:00:00Z".parse().expect("a good time"));
        tokio::spawn(self.transport.clone().check(clock));
        control
    }

    fn checks(&self) -> [usize; 2] {
        let count = |server: &Server| server.received().iter().filter(|r| r.uri == "/readyz").count();
        [count(&self.servers[0]), count(&self.servers[1])]
    }

    /// Waits until both servers have been checked again.
    async fn checked(&self, control: &ClockControl) {
        let before = self.checks();
        within(async {
            while self.checks().iter().zip(before).any(|(now, before)| *now < before + 2) {
                control.advance(Duration::from_millis(500));
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        })
        .await;
    }
}

#[tokio::test]
async fn requests_go_to_one_server_until_it_is_gone() {
    let mut pair = Pair::start().await;
    for _ in 0..3 {
        within(pair.client.read("/")).await.unwrap();
        pair.create().await.unwrap();
    }
    assert_eq!(received(&pair.servers[1]), Vec::<String>::new());
    pair.servers[0].stop().await;
    within(pair.client.read("/")).await.expect("the other server answers");
    pair.create().await.expect("nothing was sent to the one that is gone");
    assert_eq!(received(&pair.servers[1]), ["GET", "POST"]);
}

#[tokio::test]
async fn a_write_that_may_have_been_carried_out_is_not_repeated() {
    let pair = Pair::start().await;
    pair.switches[0].breaks_writes.store(true, Ordering::Relaxed);
    assert!(matches!(pair.create().await, Err(Error::Transport(_))));
    assert_eq!(received(&pair.servers[1]), Vec::<String>::new());
    // The caller's retry goes to the other server.
    pair.create().await.unwrap();
    assert_eq!(received(&pair.servers[1]), ["POST"]);
}

#[tokio::test]
async fn a_server_that_accepts_connections_but_hangs_is_passed_over() {
    let pair = Pair::start().await;
    let hanging = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let silent = format!("https://{}", hanging.local_addr().unwrap());
    for client in 0..8 {
        let urls = [silent.clone(), url(&pair.servers[0])];
        let servers = Servers::new(&urls, credentials(&pair.authority), &client.to_string()).unwrap();
        let client = Client::new(Arc::new(servers), "test");
        within(client.create(&kinds::NODES, &value!({}))).await.expect("the other server answers");
    }
}

#[tokio::test]
async fn watches_leave_a_server_that_is_not_ready_and_clients_return_to_it() {
    let pair = Pair::start().await;
    let control = pair.check();
    let mut events = pair.watch().await;
    pair.switches[0].unready.store(true, Ordering::Relaxed);
    pair.checked(&control).await;
    let end = within(events.next()).await.expect("a reason");
    assert!(matches!(&end, Err(Error::Transport(text)) if text.contains("not ready")), "{end:?}");
    assert!(within(events.next()).await.is_none());
    let before = received(&pair.servers[0]).len();
    drop(pair.watch().await);
    pair.create().await.unwrap();
    assert_eq!(received(&pair.servers[0]).len(), before, "requests avoid it");
    pair.switches[0].unready.store(false, Ordering::Relaxed);
    pair.checked(&control).await;
    pair.create().await.unwrap();
    assert_eq!(received(&pair.servers[0]).len(), before + 1, "it is preferred again");
}

#[tokio::test]
async fn watches_stay_while_no_server_is_ready() {
    let pair = Pair::start().await;
    let control = pair.check();
    let mut events = pair.watch().await;
    for switches in &pair.switches {
        switches.unready.store(true, Ordering::Relaxed);
    }
    pair.checked(&control).await;
    let next = tokio::time::timeout(Duration::from_millis(50), events.next()).await;
    assert!(next.is_err(), "there is no better place");
    pair.create().await.expect("requests are still sent");
}

#[tokio::test]
async fn a_watch_ends_with_its_server_and_is_resumed_on_another() {
    let mut pair = Pair::start().await;
    let mut events = pair.watch().await;
    pair.servers[0].stop().await;
    assert!(matches!(within(events.next()).await, None | Some(Err(_))));
    drop(pair.watch().await);
    assert_eq!(received(&pair.servers[1]), ["GET"]);
}

#[tokio::test]
async fn learned_servers_need_the_certificate_of_an_api_server() {
    let pair = Pair::start().await;
    let named = || local().with_host("kubernetes.default.svc").expect("a good name");
    let (foreign, _) = server(&authority(), None, named()).await;
    let (kubelet, _) = server(&pair.authority, None, local()).await;
    let (elsewhere, _) =
        server(&pair.authority, None, Sans::default().with_host("kubernetes.default.svc").unwrap()).await;
    let bad = [foreign.address, kubelet.address, elsewhere.address];
    assert!(pair.transport.learn(&bad).unwrap());
    assert!(!pair.transport.learn(&bad).unwrap() && !pair.transport.learn(&[]).unwrap(), "no news");
    for _ in 0..3 {
        pair.create().await.expect("the servers that the operator named go on");
    }
    for server in [&foreign, &kubelet, &elsewhere] {
        assert!(server.connections() > 0, "it was tried");
        assert!(server.received().is_empty(), "but was sent nothing");
    }
    let (good, _) = server(&pair.authority, None, named()).await;
    assert!(pair.transport.learn(&[good.address]).unwrap());
    pair.create().await.unwrap();
    assert_eq!(received(&good), ["POST"], "learned servers come first");
}

#[tokio::test]
async fn replaced_credentials_are_used_from_then_on() {
    let pair = Pair::start().await;
    let renewed = Credentials { token: Some("second".into()), ..credentials(&pair.authority) };
    pair.transport.replace_credentials(renewed).unwrap();
    within(pair.client.read("/last")).await.unwrap();
    let last = pair.servers[0].received().pop().expect("the preferred server is the same");
    assert_eq!((last.uri.as_str(), last.authorization.as_str()), ("/last", "Bearer second"));
    let bad = Credentials { token: Some("new\nline".into()), ..credentials(&pair.authority) };
    assert!(pair.transport.replace_credentials(bad).is_err());
    within(pair.client.read("/last")).await.expect("the good ones stay");
}
