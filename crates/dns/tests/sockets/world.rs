//! A cluster that is told object by object, a resolver elsewhere, and somebody who asks over real sockets.

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
use corten_dns::{Bound, Dns, Name, Options, anybody, follow};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use tokio::sync::broadcast;

/// A server of objects: what there is, then what is told, for as long as it is reachable.
struct Told {
    initial: HashMap<String, Vec<Value>>,
    news: broadcast::Sender<(String, WatchEvent)>,
}

impl Transport for Told {
    fn call(&self, _: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        Box::pin(async { Err(Error::transport("nothing but watching is served")) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let plural = request.kind.plural.to_string();
        let objects = self.initial.get(&plural).cloned().unwrap_or_default();
        let end = WatchEvent::Bookmark { version: "1".to_owned(), ends_initial: true };
        let initial =
            objects.iter().map(|object| WatchEvent::Present(text(object).into())).chain([end]).map(Ok);
        let initial: Vec<_> = initial.collect();
        let news = stream::unfold((self.news.subscribe(), plural), async |(mut news, plural)| {
            loop {
                match news.recv().await {
                    Ok((kind, event)) if kind == plural => return Some((Ok(event), (news, plural))),
                    Ok(_) => {}
                    // The server is gone, and stays away.
                    Err(_) => std::future::pending().await,
                }
            }
        });
        Box::pin(async move { Ok(stream::iter(initial).chain(news).boxed()) })
    }
}

fn text(object: &Value) -> Bytes {
    json::write_to_string(object).into()
}

/// A server of names on a socket of its own.
pub(crate) struct World {
    pub(crate) dns: Arc<Dns>,
    pub(crate) address: SocketAddr,
    news: Option<broadcast::Sender<(String, WatchEvent)>>,
    pub(crate) elsewhere: Arc<Elsewhere>,
    _caches: Caches,
    _folder: tempfile::TempDir,
}

impl World {
    pub(crate) async fn new(objects: &[(&str, Value)]) -> World {
        let mut initial: HashMap<String, Vec<Value>> = HashMap::new();
        for (plural, object) in objects {
            initial.entry((*plural).to_owned()).or_default().push(object.clone());
        }
        let (news, _) = broadcast::channel(16);
        let client = Client::new(Arc::new(Told { initial, news: news.clone() }), "test");
        let caches = Caches::new(client, Clock::real());
        let elsewhere = Elsewhere::start();
        let folder = tempfile::tempdir().expect("there is room for a folder");
        let resolv_conf = folder.path().join("resolv.conf");
        std::fs::write(&resolv_conf, format!("nameserver 127.0.0.1#{}\n", elsewhere.port))
            .expect("a file is written");
        let addresses = vec![Ipv4Addr::new(10, 96, 0, 10).into()];
        let options = Options { domain: "cluster.local".to_owned(), addresses, resolv_conf };
        let dns = Arc::new(Dns::new(&options, Clock::real()).expect("the domain is fine"));
        follow(&dns, &caches).await;
        let bound = Bound::at(Ipv4Addr::LOCALHOST.into(), 0).await.expect("a port is free");
        let address = bound.address().expect("the socket is bound");
        tokio::spawn(bound.serve(dns.clone(), anybody()));
        World { dns, address, news: Some(news), elsewhere, _caches: caches, _folder: folder }
    }

    pub(crate) fn tell(&self, plural: &str, object: &Value) {
        let news = self.news.as_ref().expect("the server is there");
        news.send((plural.to_owned(), WatchEvent::Present(text(object).into()))).expect("somebody listens");
    }

    /// Nothing is told any more.
    pub(crate) fn cut_off(&mut self) {
        self.news = None;
    }

    pub(crate) async fn ask(&self, name: &str, kind: u16) -> Seen {
        self.ask_with(name, kind, None).await
    }

    pub(crate) async fn ask_with(&self, name: &str, kind: u16, edns: Option<u16>) -> Seen {
        let (address, message) = (self.address, asked(name, kind, edns));
        let asking = move || {
            let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
            socket.set_read_timeout(Some(Duration::from_secs(20))).expect("sockets can wait");
            socket.send_to(&message, address).expect("the question is sent");
            let mut buffer = [0; 65535];
            let length = socket.recv(&mut buffer).expect("an answer comes");
            Seen(buffer[..length].to_vec())
        };
        tokio::task::spawn_blocking(asking).await.expect("asking works")
    }

    pub(crate) async fn ask_over_tcp(&self, questions: &[(&str, u16)]) -> Vec<Seen> {
        let address = self.address;
        let messages: Vec<Vec<u8>> = questions.iter().map(|(name, kind)| asked(name, *kind, None)).collect();
        let asking = move || {
            let mut stream = TcpStream::connect(address).expect("somebody listens");
            for message in &messages {
                let length = (message.len() as u16).to_be_bytes();
                stream.write_all(&[&length, message.as_slice()].concat()).expect("questions are taken");
            }
            let read = |_: &Vec<u8>| {
                let mut length = [0; 2];
                stream.read_exact(&mut length).expect("an answer comes");
                let mut answer = vec![0; usize::from(u16::from_be_bytes(length))];
                stream.read_exact(&mut answer).expect("it comes whole");
                Seen(answer)
            };
            messages.iter().map(read).collect()
        };
        tokio::task::spawn_blocking(asking).await.expect("asking works")
    }
}

fn asked(name: &str, kind: u16, edns: Option<u16>) -> Vec<u8> {
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

/// An answer, as far as tests look at it.
pub(crate) struct Seen(pub(crate) Vec<u8>);

impl Seen {
    pub(crate) fn code(&self) -> u8 {
        self.0[3] & 15
    }

    pub(crate) fn is_cut_off(&self) -> bool {
        self.0[2] & 2 != 0
    }

    pub(crate) fn count(&self, section: usize) -> u16 {
        u16::from_be_bytes([self.0[4 + 2 * section], self.0[5 + 2 * section]])
    }

    /// What the answer ends with: an address, of which there is only one.
    pub(crate) fn last_address(&self) -> Ipv4Addr {
        <[u8; 4]>::try_from(&self.0[self.0.len() - 4..]).expect("it is long enough").into()
    }
}

/// A resolver of the node's: it knows `example.com` and counts how often it is asked.
pub(crate) struct Elsewhere {
    pub(crate) port: u16,
    pub(crate) asked: AtomicUsize,
    pub(crate) silent: Mutex<bool>,
}

impl Elsewhere {
    fn start() -> Arc<Elsewhere> {
        let socket = UdpSocket::bind("127.0.0.1:0").expect("a port is free");
        let port = socket.local_addr().expect("it is bound").port();
        let elsewhere = Arc::new(Elsewhere { port, asked: AtomicUsize::new(0), silent: Mutex::new(false) });
        let serving = elsewhere.clone();
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok((length, asker)) = socket.recv_from(&mut buffer) {
                serving.asked.fetch_add(1, Ordering::SeqCst);
                if !*serving.silent.lock().expect("nobody panicked") {
                    let _ = socket.send_to(&reply(&buffer[..length]), asker);
                }
            }
        });
        elsewhere
    }

    pub(crate) fn count(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }
}

/// `192.0.2.1` for whatever has `example` in it, and nothing else.
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
