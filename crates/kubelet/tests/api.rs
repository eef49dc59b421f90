//! The kubelet's API over a real connection: a node whose containers are fake, and an API server that only says who may.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use corten_api::{Value, json, value};
use corten_base::Clock;
use corten_client::{Client, Error, EventStream, Transport, WatchEvent, WatchRequest};
use corten_container::fake::Fake;
use corten_container::{ContainerFilter, ContainerState, ExecOutput, Image, Runtime};
use corten_kubelet::{Options, Parts, run_and_serve, server};
use corten_pki::{Authority, IssuedCert, LeafRequest, LeafUsage, Sans};
use corten_reconcile::Manager;
use futures_util::future::BoxFuture;
use futures_util::{SinkExt, StreamExt, stream};
use http::{Request, Response};
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls_pki_types::ServerName;
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

/// The deadline of every wait: far above what a loaded machine needs, so that a failure is an error and not a hang.
const DEADLINE: Duration = Duration::from_secs(60);

/// An API server that knows one pod, and lets only `admin` do anything.
struct OnePod;

fn pod() -> Value {
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n", "uid": "u", "resourceVersion": "1"},
        "spec": {
            "nodeName": "node", "hostNetwork": true, "enableServiceLinks": false,
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "web:1", "imagePullPolicy": "Never"}],
        },
    })
}

impl Transport for OnePod {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let mut object = json::parse(request.body()).unwrap_or_else(|_| value!({}));
        if request.uri().path().ends_with("/subjectaccessreviews") {
            let allowed = object.str_at(&["spec", "user"]) == Some("admin");
            object.set(&["status"], value!({"allowed": (allowed)}));
        }
        if request.uri().path().ends_with("/tokenreviews") {
            let known = object.str_at(&["spec", "token"]) == Some("good");
            let user = value!({"username": "admin", "groups": []});
            object.set(&["status"], value!({"authenticated": (known), "user": (user)}));
        }
        let answer = Response::new(Bytes::from(json::write_to_string(&object)));
        Box::pin(async move { Ok(answer) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let mut events = Vec::new();
        if &*request.kind.plural == "pods" {
            events.push(Ok(WatchEvent::Present(Bytes::from(json::write_to_string(&pod())).into())));
        }
        events.push(Ok(WatchEvent::Bookmark { version: "1".to_owned(), ends_initial: true }));
        Box::pin(async move { Ok(stream::iter(events).chain(stream::pending()).boxed()) })
    }
}

struct Node {
    runtime: Fake,
    port: u16,
    authority: Authority,
    directory: tempfile::TempDir,
    _manager: Manager,
}

impl Node {
    async fn start() -> Node {
        let directory = tempfile::tempdir().unwrap();
        let authority =
            Authority::load_or_create(directory.path(), "ca", "kubernetes", SystemTime::now()).unwrap();
        let sans = Sans::default().with_address(Ipv4Addr::LOCALHOST.into());
        let api = server::Options {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            certificate: issue(&authority, "node", LeafUsage::Server, sans),
            client_ca_pem: authority.pem().to_owned(),
            trust: server::Trust::default(),
            health: None,
            read_only: None,
        };
        let api = server::bind(&api).await.unwrap();
        let port = api.port();
        let clock = Clock::real();
        let runtime = Fake::new(clock.clone());
        let tags = vec!["web:1".to_owned()];
        runtime.add_image(Image { id: "sha256:1".to_owned(), repo_tags: tags, ..Image::default() });
        let client = Client::new(Arc::new(OnePod), "kubelet");
        let same = client.clone();
        let manager = Manager::new(client.clone(), Box::new(move |_| same.clone()), clock.clone());
        let parts = Parts {
            runtime: Arc::new(runtime.clone()),
            images: Arc::new(runtime.clone()),
            client,
            recorder: manager.recorder().clone(),
            clock,
        };
        let options = Options {
            node_name: "node".to_owned(),
            addresses: vec!["127.0.0.1".to_owned()],
            root_dir: directory.path().join("kubelet"),
            log_dir: directory.path().join("logs"),
            cluster_dns: Vec::new(),
            cluster_domain: "cluster.local".to_owned(),
            // With upstream's thresholds a machine whose disk is 85 % full would admit no pod.
            configuration: Some(value!({"evictionHard": {"memory.available": "1Mi"}})),
            ..Options::default()
        };
        let mut events = runtime.events();
        manager.spawn(async move { run_and_serve(parts, options, Some(api)).await.unwrap() });
        let running = ContainerFilter { state: Some(ContainerState::Running), ..ContainerFilter::default() };
        let started = async {
            while runtime.list_containers(&running).await.unwrap().is_empty() {
                events.recv().await.unwrap();
            }
        };
        tokio::time::timeout(DEADLINE, started).await.expect("the kubelet starts the pod's container");
        Node { runtime, port, authority, directory, _manager: manager }
    }

    /// The id of the container and where its log is.
    async fn container(&self) -> (String, String) {
        let all = self.runtime.list_containers(&ContainerFilter::default()).await.unwrap();
        let id = all[0].id.clone();
        let log = self.runtime.container_status(&id).await.unwrap().log_path;
        assert!(Path::new(&log).starts_with(self.directory.path()), "{log}");
        (id, log)
    }

    async fn send(&self, user: Option<&str>, request: http::request::Builder) -> Response<Incoming> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.authority.der().clone()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_root_certificates(roots);
        let config = match user {
            Some(user) => {
                let own = issue(&self.authority, user, LeafUsage::Client, Sans::default());
                config.with_client_auth_cert(own.chain().unwrap(), own.key().unwrap()).unwrap()
            }
            None => config.with_no_client_auth(),
        };
        let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).await.unwrap();
        let name = ServerName::try_from("127.0.0.1").unwrap();
        let stream = TlsConnector::from(Arc::new(config)).connect(name, stream).await.unwrap();
        let (mut sender, connection) =
            hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.unwrap();
        tokio::spawn(connection.with_upgrades());
        let request = request.header("host", "node").body(Empty::<Bytes>::new()).unwrap();
        let answer = tokio::time::timeout(DEADLINE, sender.send_request(request)).await;
        answer.expect("the kubelet responds").unwrap()
    }

    async fn get(&self, user: Option<&str>, path: &str) -> (u16, String) {
        text(self.send(user, Request::get(path)).await).await
    }
}

async fn text(answer: Response<Incoming>) -> (u16, String) {
    let code = answer.status().as_u16();
    let body = answer.into_body().collect().await.unwrap().to_bytes();
    (code, String::from_utf8(body.to_vec()).unwrap())
}

fn issue(authority: &Authority, name: &str, usage: LeafUsage, sans: Sans) -> IssuedCert {
    let request = LeafRequest { common_name: name.to_owned(), organization: None, sans, usage };
    authority.issue(&request, SystemTime::now()).unwrap()
}

fn upgrade(path: &str, protocol: &str) -> http::request::Builder {
    Request::get(path)
        .header("connection", "Upgrade")
        .header("upgrade", "websocket")
        .header("sec-websocket-version", "13")
        .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==")
        .header("sec-websocket-protocol", protocol)
}

async fn socket(answer: Response<Incoming>) -> WebSocketStream<TokioIo<hyper::upgrade::Upgraded>> {
    let upgraded = TokioIo::new(hyper::upgrade::on(answer).await.unwrap());
    WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await
}

#[tokio::test]
async fn unauthorized_requests_are_refused() {
    let node = Node::start().await;
    assert_eq!(node.get(None, "/healthz").await.0, 401);
    let (code, why) = node.get(Some("eve"), "/pods").await;
    assert_eq!(
        (code, why.as_str()),
        (403, "Forbidden (user=eve, verb=get, resource=nodes, subresource(s)=[pods proxy])\n")
    );
    assert_eq!(node.get(Some("admin"), "/healthz").await, (200, "ok".to_owned()));
    for (token, code) in [("good", 200), ("bad", 401)] {
        let request = Request::get("/healthz").header("authorization", format!("Bearer {token}"));
        assert_eq!(node.send(None, request).await.status(), code, "{token}");
    }
    let (_, pods) = node.get(Some("admin"), "/pods").await;
    assert_eq!(json::parse(pods.as_bytes()).unwrap().items_at(&["items"]).len(), 1);
}

#[tokio::test]
async fn logs_are_read_and_followed() {
    let node = Node::start().await;
    let (id, path) = node.container().await;
    std::fs::create_dir_all(Path::new(&path).parent().unwrap()).unwrap();
    let mut log = std::fs::File::create(&path).unwrap();
    write!(log, "2026-01-01T00:00:01Z stdout F one\n2026-01-01T00:00:02Z stderr F two\n").unwrap();
    // The status says which container runs; it is told a moment after it does.
    let logs = "/containerLogs/n/p/c";
    let served = async {
        while node.get(Some("admin"), logs).await.0 != 200 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, served).await.expect("the pod's status names its container");
    assert_eq!(node.get(Some("admin"), logs).await.1, "one\ntwo\n");
    assert_eq!(node.get(Some("admin"), &format!("{logs}?tailLines=1")).await.1, "two\n");
    let (code, why) = node.get(Some("admin"), "/containerLogs/n/p/x").await;
    assert_eq!((code, why.as_str()), (404, "container \"x\" not found in pod \"p\""));
    assert_eq!(node.get(Some("admin"), "/containerLogs/n/q/c").await.0, 404);
    let (code, why) = node.get(Some("admin"), &format!("{logs}?previous=true")).await;
    assert_eq!((code, why.as_str()), (400, "previous terminated container \"c\" in pod \"p\" not found"));

    let request = Request::get(format!("{logs}?follow=true&tailLines=0"));
    let mut followed = node.send(Some("admin"), request).await.into_body();
    writeln!(log, "2026-01-01T00:00:03Z stdout F three").unwrap();
    let frame = followed.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "three\n");
    node.runtime.exit(&id, 0, "Completed").unwrap();
    assert!(followed.frame().await.is_none(), "the log ends with its container");
}

#[tokio::test]
async fn commands_are_run_over_websockets() {
    let node = Node::start().await;
    node.runtime.on_exec(|_, command| {
        Ok(ExecOutput { stdout: command.concat().into_bytes(), exit_code: 3, ..ExecOutput::default() })
    });
    let path = "/exec/n/p/c?output=1&command=ec&command=ho";
    let refused = node.send(Some("admin"), upgrade(path, "v9.channel.k8s.io")).await;
    assert_eq!(refused.status(), 403);
    let refused = node.send(Some("eve"), upgrade(path, "v5.channel.k8s.io")).await;
    assert_eq!(refused.status(), 403);
    let nothing = node.send(Some("admin"), upgrade("/exec/n/p/c?command=a", "v5.channel.k8s.io")).await;
    assert_eq!(nothing.status(), 400);

    let answer = node.send(Some("admin"), upgrade(path, "v5.channel.k8s.io")).await;
    assert_eq!(answer.status(), 101);
    assert_eq!(answer.headers()["sec-websocket-accept"], "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    let mut socket = socket(answer).await;
    socket.send(Message::Binary(Bytes::from_static(&[255, 0]))).await.unwrap();
    let mut heard: Vec<Vec<u8>> = vec![Vec::new(); 4];
    while let Some(Ok(Message::Binary(message))) = socket.next().await {
        heard[usize::from(message[0])].extend_from_slice(&message[1..]);
    }
    assert_eq!(heard[1], b"echo");
    let status = json::parse(&heard[3]).unwrap();
    assert_eq!(status.str_at(&["reason"]), Some("NonZeroExitCode"));
    assert_eq!(status.items_at(&["details", "causes"])[0].str_at(&["message"]), Some("3"));
}

#[tokio::test]
async fn ports_are_forwarded_over_websockets() {
    let node = Node::start().await;
    let refused = node.send(Some("admin"), upgrade("/portForward/n/p?port=0", "v4.channel.k8s.io")).await;
    assert_eq!(text(refused).await, (400, "port \"0\" must be > 0".to_owned()));
    let answer = node.send(Some("admin"), upgrade("/portForward/n/p?port=80", "v4.channel.k8s.io")).await;
    assert_eq!(answer.status(), 101);
    let mut socket = socket(answer).await;
    socket.send(Message::Binary(Bytes::from_static(b"\0hello"))).await.unwrap();
    // First the port on both of its channels, then what the fake sends back.
    for expected in [&b"\0\x50\0"[..], b"\x01\x50\0", b"\0hello"] {
        assert_eq!(socket.next().await.unwrap().unwrap().into_data(), expected);
    }
}
