//! An API server with a watch, an upstream resolver, the DNS server, and clients over real sockets.

use std::collections::HashMap;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use corten_api::{Value, json, value};
use corten_base::Clock;
use corten_client::{Caches, Client, Error, EventStream, Transport, WatchEvent, WatchRequest};
use corten_dns::{Bound, Dns, Name, Options, all_clients, follow};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use tokio::sync::broadcast;

/// The longest wait for anything that is expected to happen.
pub(crate) const DEADLINE: Duration = Duration::from_secs(20);

/// An API server that serves watches only: initial objects, then events, until it is disconnected.
struct FakeApi {
    initial: HashMap<String, Vec<Value>>,
    events: broadcast::Sender<(String, WatchEvent)>,
}

impl Transport for FakeApi {
    fn call(&self, _: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        Box::pin(async { Err(Error::transport("only watches are served")) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let plural = request.kind.plural.to_string();
        let objects = self.initial.get(&plural).cloned().unwrap_or_default();
        let end = WatchEvent::Bookmark { version: "1".to_owned(), ends_initial: true };
        let initial =
            objects.iter().map(|object| WatchEvent::Present(text(object).into())).chain([end]).map(Ok);
        let initial: Vec<_> = initial.collect();
        let events = stream::unfold((self.events.subscribe(), plural), async |(mut events, plural)| {
            loop {
                match events.recv().await {
                    Ok((kind, event)) if kind == plural => return Some((Ok(event), (events, plural))),
                    Ok(_) => {}
                    // The server is unreachable, and stays so.
                    Err(_) => std::future::pending().await,
                }
            }
        });
        Box::pin(async move { Ok(stream::iter(initial).chain(events).boxed()) })
    }
}

fn text(object: &Value) -> Bytes {
    json::write_to_string(object).into()
}

/// A DNS server on sockets of its own.
pub(crate) struct World {
    pub(crate) dns: Arc<Dns>,
    pub(crate) address: SocketAddr,
    events: Option<broadcast::Sender<(String, WatchEvent)>>,
    pub(crate) upstream: Arc<Upstream>,
    _caches: Caches,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new(objects: &[(&str, Value)]) -> World {
        let mut initial: HashMap<String, Vec<Value>> = HashMap::new();
        for (plural, object) in objects {
            initial.entry((*plural).to_owned()).or_default().push(object.clone());
        }
        let (events, _) = broadcast::channel(16);
        let client = Client::new(Arc::new(FakeApi { initial, events: events.clone() }), "test");
        let caches = Caches::new(client, Clock::real());
        let upstream = Upstream::start();
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let resolv_conf = folder.path().join("resolv.conf");
        std::fs::write(&resolv_conf, format!("nameserver 127.0.0.1#{}\n", upstream.port))
            .expect("a file is written");
        let addresses = vec![Ipv4Addr::new(10, 96, 0, 10).into()];
        let options = Options { domain: "cluster.local".to_owned(), addresses, resolv_conf };
        let dns = Arc::new(Dns::new(&options, Clock::real()).expect("the domain is fine"));
        tokio::time::timeout(DEADLINE, follow(&dns, &caches)).await.expect("the caches sync");
        let bound = Bound::bind(Ipv4Addr::LOCALHOST.into(), 0).await.expect("a port is free");
        let address = bound.address().expect("the socket is bound");
        tokio::spawn(bound.serve(dns.clone(), all_clients()));
        World { dns, address, events: Some(events), upstream, _caches: caches, _folder: folder }
    }

    pub(crate) fn send_event(&self, plural: &str, object: &Value) {
        let events = self.events.as_ref().expect("the server is there");
        events.send((plural.to_owned(), WatchEvent::Present(text(object).into()))).expect("a cache watches");
    }

    /// Ends all watches.
    pub(crate) fn disconnect(&mut self) {
        self.events = None;
    }

    pub(crate) async fn query(&self, name: &str, kind: u16) -> Reply {
        self.query_with(name, kind, None).await
    }

    pub(crate) async fn query_with(&self, name: &str, kind: u16, edns: Option<u16>) -> Reply {
        let (address, message) = (self.address, query(name, kind, edns));
        let client = move || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
            socket.set_read_timeout(Some(DEADLINE)).expect("sockets can wait");
            socket.send_to(&message, address).expect("the query is sent");
            let mut buffer = [0; 65535];
            let length = socket.recv(&mut buffer).expect("a response arrives");
            Reply(buffer[..length].to_vec())
        };
        tokio::task::spawn_blocking(client).await.expect("the client does not panic")
    }

    pub(crate) async fn query_over_tcp(&self, queries: &[(&str, u16)]) -> Vec<Reply> {
        let address = self.address;
        let messages: Vec<Vec<u8>> = queries.iter().map(|(name, kind)| query(name, *kind, None)).collect();
        let client = move || {
            let mut stream =
                TcpStream::connect_timeout(&address, DEADLINE).expect("the server accepts connections");
            stream.set_read_timeout(Some(DEADLINE)).expect("sockets have read timeouts");
            stream.set_write_timeout(Some(DEADLINE)).expect("sockets have write timeouts");
            for message in &messages {
                let length = (message.len() as u16).to_be_bytes();
                stream.write_all(&[&length, message.as_slice()].concat()).expect("queries are accepted");
            }
            let read = |_: &Vec<u8>| {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("a response arrives");
                let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut answer).expect("the response is complete");
                Reply(answer)
            };
            messages.iter().map(read).collect()
        };
        tokio::task::spawn_blocking(client).await.expect("the client does not panic")
    }
}

fn query(name: &str, kind: u16, edns: Option<u16>) -> Vec<u8> {
    let mut message = vec![0, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, u8::from(edns.is_some())];
    for label in Name::parse(name).expect("a name").labels() {
        message.push(label.len() as u8);
        message.extend_from_slice(label);
    }
    message.push(0);
    message.extend(kind.to_be_bytes());
    message.extend([0, 1]);
    if let Some(size) = edns {
        message.extend([0, 0, 41]);
        message.extend(size.to_be_bytes());
        message.extend([0; 6]);
    }
    message
}

/// A response, as far as tests check it.
pub(crate) struct Reply(pub(crate) Vec<u8>);

impl Reply {
    pub(crate) fn code(&self) -> u8 {
        self.0[3] & 15
    }

    pub(crate) fn is_truncated(&self) -> bool {
        self.0[2] & 2 != 0
    }

    pub(crate) fn count(&self, section: usize) -> u16 {
        u16::from_be_bytes([self.0[4 + 2 * section], self.0[5 + 2 * section]])
    }

    /// The address at the end of the response.
    pub(crate) fn last_address(&self) -> Ipv4Addr {
        <[u8; 4]>::try_from(&self.0[self.0.len() - 4..]).expect("it is long enough").into()
    }
}

/// A resolver of the node: it knows `example.com` and counts its queries.
pub(crate) struct Upstream {
    pub(crate) port: u16,
    pub(crate) queries: AtomicUsize,
    pub(crate) silent: Mutex<bool>,
}

impl Upstream {
    fn start() -> Arc<Upstream> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let port = socket.local_addr().expect("it is bound").port();
        let upstream = Arc::new(Upstream { port, queries: AtomicUsize::new(0), silent: Mutex::new(false) });
        let serving = upstream.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, client)) = socket.recv_from(&mut buffer) {
                serving.queries.fetch_add(1, Ordering::SeqCst);
                if !*serving.silent.lock().expect("no thread panicked") {
                    let _ = socket.send_to(&reply(&buffer[..length]), client);
                }
            }
        });
        upstream
    }

    pub(crate) fn count(&self) -> usize {
        self.queries.load(Ordering::SeqCst)
    }
}

/// The response: `192.0.2.1` for names with `example` in them, and NXDOMAIN for others.
fn reply(question: &[u8]) -> Vec<u8> {
    let known = question.windows(7).any(|window| window.eq_ignore_ascii_case(b"example"));
    let name_end = 12 + question[12..].iter().position(|byte| *byte == 0).expect("names end") + 5;
    let mut reply = question[..name_end].to_vec();
    reply[2..4].copy_from_slice(if known { &[0x81, 0x80] } else { &[0x81, 0x83] });
    reply[4..12].copy_from_slice(&[0, 1, 0, u8::from(known), 0, 0, 0, 0]);
    if known {
        reply.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 192, 0, 2, 1]);
    }
    reply
}

pub(crate) fn namespace(name: &str) -> (&'static str, Value) {
    ("namespaces", value!({"metadata": {"name": (name), "uid": (name), "resourceVersion": "1"}}))
}

pub(crate) fn service(name: &str, spec: Value) -> (&'static str, Value) {
    let meta = value!({"name": (name), "namespace": "default", "uid": (name), "resourceVersion": "1"});
    ("services", value!({"metadata": (meta), "spec": (spec)}))
}

pub(crate) fn slice(service: &str, version: &str, addresses: &[String]) -> Value {
    let endpoints: Vec<Value> =
        addresses.iter().map(|address| value!({"addresses": [(address.as_str())]})).collect();
    value!({
        "metadata": {
            "name": (service), "namespace": "default", "uid": (service), "resourceVersion": (version),
            "labels": {"kubernetes.io/service-name": (service)},
        },
        "endpoints": (endpoints), "ports": [{"name": "http", "protocol": "TCP", "port": 80}],
    })
}
