//! A webhook on loopback: an HTTPS server with a certificate of its own, whose replies a test decides.
//!
//! It may reply as no honest webhook would. Its threads end when it is dropped.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_pki::{IssuedCert, Sans, pem_certificates};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::http::DEADLINE;
use crate::own_service;

/// A reply to one request.
#[derive(Clone, Debug)]
pub enum Reply {
    /// 200 with a JSON document.
    Json(Value),
    /// Another status code, with a text.
    Status(u16, String),
    /// 200 with these bytes.
    Bytes(Vec<u8>),
    /// 200 with a body that goes on until the client closes the connection.
    Endless,
    /// Nothing, until the client closes the connection.
    Silence,
    /// The connection is closed without a response.
    Close,
}

/// A request that a webhook got.
#[derive(Clone, Debug)]
pub struct ReceivedReview {
    /// The path with its query.
    pub path: String,
    /// Names, in lower case, and values.
    pub headers: Vec<(String, String)>,
    pub body: Value,
}

impl ReceivedReview {
    /// The first header of a name; empty without one.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(known, _)| known == name).map_or("", |(_, value)| value)
    }
}

type Decide = dyn Fn(&Value) -> Reply + Send + Sync;
type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// A running webhook.
pub struct Webhook {
    address: SocketAddr,
    certificate: IssuedCert,
    shared: Arc<Shared>,
}

struct Shared {
    decide: Box<Decide>,
    requests: Mutex<Vec<ReceivedReview>>,
    is_over: AtomicBool,
}

impl Webhook {
    /// Starts a webhook that replies to every request with what `decide` returns for its body.
    pub fn start(decide: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Webhook {
        let certificate = IssuedCert::self_signed("webhook", SystemTime::now()).expect("a certificate");
        Webhook::start_at(Ipv4Addr::LOCALHOST.into(), certificate, None, decide)
    }

    /// Starts a webhook that only clients with a certificate of an authority can call.
    pub fn start_for_clients_of(
        authority_pem: &str,
        decide: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Webhook {
        let certificate = IssuedCert::self_signed("webhook", SystemTime::now()).expect("a certificate");
        Webhook::start_at(Ipv4Addr::LOCALHOST.into(), certificate, Some(authority_pem), decide)
    }

    /// Starts the webhook of a Service.
    pub fn start_for(
        (namespace, service): (&str, &str),
        decide: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Webhook {
        let sans = Sans::default().with_host(&format!("{service}.{namespace}.svc")).expect("a name");
        let certificate = IssuedCert::self_signed_for(service, &sans, SystemTime::now());
        Webhook::start_at(own_service::address(), certificate.expect("a certificate"), None, decide)
    }

    fn start_at(
        address: IpAddr,
        certificate: IssuedCert,
        clients: Option<&str>,
        decide: impl Fn(&Value) -> Reply + Send + Sync + 'static,
    ) -> Webhook {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = match clients {
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add_parsable_certificates(pem_certificates(authority).expect("a CA"));
                let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
                builder.build().expect("a verifier")
            }
            None => WebPkiClientVerifier::no_client_auth(),
        };
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_client_cert_verifier(verifier)
            .with_single_cert(certificate.chain().expect("a chain"), certificate.key().expect("a key"))
            .expect("a certificate and its key");
        let listener = TcpListener::bind((address, 0)).expect("a free port");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            decide: Box::new(decide),
            requests: Mutex::default(),
            is_over: AtomicBool::new(false),
        });
        let (accepting, tls) = (shared.clone(), Arc::new(tls));
        std::thread::spawn(move || {
            for socket in listener.incoming().flatten() {
                if accepting.is_over.load(Ordering::Relaxed) {
                    return;
                }
                let (shared, tls) = (accepting.clone(), tls.clone());
                // A client may close a connection at any time.
                std::thread::spawn(move || drop(shared.serve(socket, tls)));
            }
        });
        Webhook { address, certificate, shared }
    }

    /// The `clientConfig` of this webhook.
    pub fn client_config(&self, path: &str) -> Value {
        let url = format!("https://{}{path}", self.address);
        serde_json::json!({"url": url, "caBundle": STANDARD.encode(&self.certificate.cert_pem)})
    }

    /// The `clientConfig` of this webhook, as a Service; and that Service with its EndpointSlice.
    pub fn service_config(&self, namespace: &str, name: &str, path: &str) -> (Value, (Value, Value)) {
        let config = serde_json::json!({
            "service": {"namespace": namespace, "name": name, "path": path},
            "caBundle": STANDARD.encode(&self.certificate.cert_pem),
        });
        (config, own_service::objects(self.address, namespace, name))
    }

    /// The number of requests so far.
    pub fn count(&self) -> usize {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// The bodies of all requests so far.
    pub fn requests(&self) -> Vec<Value> {
        self.received().into_iter().map(|request| request.body).collect()
    }

    /// All requests so far.
    pub fn received(&self) -> Vec<ReceivedReview> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
    }
}

impl Shared {
    fn serve(&self, socket: TcpStream, tls: Arc<ServerConfig>) -> io::Result<()> {
        socket.set_read_timeout(Some(DEADLINE))?;
        socket.set_write_timeout(Some(DEADLINE))?;
        let session = ServerConnection::new(tls).map_err(io::Error::other)?;
        let mut stream = BufReader::new(StreamOwned::new(session, socket));
        while let Some(request) = request(&mut stream)? {
            let body = request.body.clone();
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request);
            reply(&mut stream, (self.decide)(&body))?;
        }
        Ok(())
    }
}

/// The next request; `None` after the last.
fn request(stream: &mut Stream) -> io::Result<Option<ReceivedReview>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let path = line.split(' ').nth(1).unwrap_or_default().to_owned();
    let mut headers = Vec::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None if line.trim_end().is_empty() => break,
            None => {}
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length");
    let length = length.map_or(Ok(0), |(_, value)| value.parse()).map_err(io::Error::other)?;
    let mut body = vec![0; length];
    stream.read_exact(&mut body)?;
    let body = serde_json::from_slice(&body).unwrap_or_default();
    Ok(Some(ReceivedReview { path, headers, body }))
}

fn reply(stream: &mut Stream, reply: Reply) -> io::Result<()> {
    let mut write = |status: u16, body: &[u8]| {
        let out = stream.get_mut();
        write!(
            out,
            "HTTP/1.1 {status} x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
            body.len()
        )?;
        out.write_all(body)?;
        out.flush()
    };
    match reply {
        Reply::Json(body) => write(200, body.to_string().as_bytes()),
        Reply::Status(status, text) => write(status, text.as_bytes()),
        Reply::Bytes(body) => write(200, &body),
        Reply::Endless => {
            let out = stream.get_mut();
            out.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n",
            )?;
            let chunk = format!("{:x}\r\n{}\r\n", 65_536, " ".repeat(65_536));
            loop {
                out.write_all(chunk.as_bytes())?;
            }
        }
        Reply::Silence => stream.read_to_end(&mut Vec::new()).map(drop),
        Reply::Close => Err(io::ErrorKind::ConnectionAborted.into()),
    }
}
