//! A fake API server for tests of the benchmark: pods in a map, with watches, over mutual TLS.
//!
//! Its responses have the framing of a real one's (lists and watches chunked in odd pieces, single objects with a
//! length), and it can inject faults.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use bytes::Bytes;
use corten_pki::{Credentials, Sans, ServerPki};
use futures_util::stream;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper::{Method, Request, Response, StatusCode, header, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio_rustls::TlsAcceptor;

use crate::pods::PODS;

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The faults of a fake server; 0 means none.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    /// Every Nth request for a pod gets a 503, and the connection is closed.
    pub(crate) refuse_every: usize,
    /// Watches end after this number of events.
    pub(crate) cut_watches_after: usize,
}

struct Fake {
    pods: Mutex<BTreeMap<String, Value>>,
    version: AtomicUsize,
    requests: AtomicUsize,
    events: broadcast::Sender<Bytes>,
    faults: Faults,
}

/// Starts a fake server in this process; it lives as long as the runtime.
pub(crate) async fn start(dir: &Path, faults: Faults) -> Credentials {
    let sans = Sans::apiserver(Ipv4Addr::LOCALHOST.into());
    let pki = ServerPki::load_or_create(&dir.join("pki"), &sans, SystemTime::now()).unwrap();
    let mut roots = RootCertStore::empty();
    roots.add(pki.client_ca[0].clone()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients =
        WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider)).build().unwrap();
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(clients)
        .with_single_cert(pki.serving_chain.clone(), pki.serving_key.clone_key())
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
    let credentials = pki.admin_credentials(&format!("https://{}", listener.local_addr().unwrap()));
    let fake = Arc::new(Fake {
        pods: Mutex::default(),
        version: AtomicUsize::new(100),
        requests: AtomicUsize::new(0),
        events: broadcast::channel(4096).0,
        faults,
    });
    tokio::spawn(accept(listener, TlsAcceptor::from(Arc::new(config)), fake));
    credentials
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, fake: Arc<Fake>) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(serve(stream, acceptor.clone(), Arc::clone(&fake)));
    }
}

async fn serve(stream: TcpStream, acceptor: TlsAcceptor, fake: Arc<Fake>) {
    let Ok(stream) = acceptor.accept(stream).await else { return };
    let service = service_fn(move |request| {
        let fake = Arc::clone(&fake);
        async move { Ok::<_, Infallible>(fake.answer(request).await) }
    });
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

impl Fake {
    async fn answer(&self, request: Request<Incoming>) -> Answer {
        let (parts, body) = request.into_parts();
        let body = body.collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        let path = parts.uri.path();
        let query = parts.uri.query().unwrap_or_default();
        let Some(pod) = path.strip_prefix(PODS) else {
            let created = parts.method == Method::POST && path.starts_with("/api/v1/namespaces");
            let known = created || path == "/readyz";
            return whole(if known { StatusCode::OK } else { StatusCode::NOT_FOUND }, Bytes::from("ok"));
        };
        match (parts.method, pod.trim_start_matches('/')) {
            (Method::POST, "") => self.store(parse(&body), "ADDED", StatusCode::CREATED),
            (Method::GET, "") if query.contains("watch=true") => self.watch(),
            (Method::GET, "") => self.list(),
            (Method::GET, name) => self.get(name),
            (Method::PUT, name) => self.put(name, parse(&body)),
            (Method::PATCH, name) => self.patch(name.trim_end_matches("/status"), &parse(&body)),
            _ => whole(StatusCode::METHOD_NOT_ALLOWED, Bytes::new()),
        }
    }

    fn get(&self, name: &str) -> Answer {
        let request = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
        if self.faults.refuse_every > 0 && request.is_multiple_of(self.faults.refuse_every) {
            let mut answer = whole(StatusCode::SERVICE_UNAVAILABLE, Bytes::from("too busy"));
            answer.headers_mut().insert(header::CONNECTION, header::HeaderValue::from_static("close"));
            return answer;
        }
        match self.pods.lock().unwrap().get(name) {
            Some(pod) => whole(StatusCode::OK, pod.to_string().into()),
            None => whole(StatusCode::NOT_FOUND, Bytes::from("no such pod")),
        }
    }

    fn put(&self, name: &str, pod: Value) -> Answer {
        let current =
            self.pods.lock().unwrap().get(name).map(|pod| pod["metadata"]["resourceVersion"].clone());
        if current.as_ref() != Some(&pod["metadata"]["resourceVersion"]) {
            return whole(StatusCode::CONFLICT, Bytes::from("changed since"));
        }
        self.store(pod, "MODIFIED", StatusCode::OK)
    }

    fn patch(&self, name: &str, patch: &Value) -> Answer {
        let Some(mut pod) = self.pods.lock().unwrap().get(name).cloned() else {
            return whole(StatusCode::NOT_FOUND, Bytes::from("no such pod"));
        };
        pod["status"] = patch["status"].clone();
        self.store(pod, "MODIFIED", StatusCode::OK)
    }

    fn store(&self, mut pod: Value, event: &str, status: StatusCode) -> Answer {
        let mut pods = self.pods.lock().unwrap();
        let version = self.version.fetch_add(1, Ordering::Relaxed) + 1;
        pod["metadata"]["resourceVersion"] = version.to_string().into();
        let text = pod.to_string();
        let _ = self.events.send(format!("{{\"type\":\"{event}\",\"object\":{text}}}\n").into());
        pods.insert(pod["metadata"]["name"].as_str().unwrap().to_owned(), pod);
        whole(status, text.into())
    }

    fn list(&self) -> Answer {
        let items: Vec<Value> = self.pods.lock().unwrap().values().cloned().collect();
        let version = self.version.load(Ordering::Relaxed).to_string();
        let list = json!({"kind": "PodList", "metadata": {"resourceVersion": version}, "items": items});
        let pieces: Vec<Bytes> =
            list.to_string().as_bytes().chunks(777).map(Bytes::copy_from_slice).collect();
        let frames = pieces.into_iter().map(|piece| Ok(Frame::data(piece)));
        Response::new(BodyExt::boxed_unsync(StreamBody::new(stream::iter(frames))))
    }

    fn watch(&self) -> Answer {
        let limit = match self.faults.cut_watches_after {
            0 => usize::MAX,
            limit => limit,
        };
        let events = stream::unfold((self.events.subscribe(), 0), move |(mut events, sent)| async move {
            if sent == limit {
                return None;
            }
            let event: Bytes = events.recv().await.ok()?;
            Some((Ok(Frame::data(event)), (events, sent + 1)))
        });
        Response::new(BodyExt::boxed_unsync(StreamBody::new(events)))
    }
}

fn parse(body: &Bytes) -> Value {
    serde_json::from_slice(body).unwrap()
}

fn whole(status: StatusCode, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body).boxed_unsync());
    *answer.status_mut() = status;
    answer
}
