//! An aggregated API server: HTTPS on an address of this machine that is not loopback, as EndpointSlices require. It accepts
//! only clients with a certificate of the front proxy's CA, and a test decides its replies, which may be hostile.
//!
//! Its threads end when it is dropped.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_pki::{IssuedCert, Sans, identity_of, pem_certificates};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig, ServerConnection, StreamOwned};
use serde_json::Value;

use crate::http::DEADLINE;
use crate::own_service;

/// A request that reached the server.
#[derive(Clone, Debug)]
pub struct AggregatedRequest {
    pub method: String,
    /// With the query.
    pub path: String,
    /// In lower case.
    pub headers: Vec<(String, String)>,
    pub body: Vec<u8>,
    /// The common name in the client's certificate.
    pub client: String,
}

/// A reply to one request.
#[derive(Clone, Debug)]
pub enum AggregatedReply {
    /// A status with headers and a body.
    Full(u16, Vec<(String, String)>, String),
    /// 200 with these lines, then nothing until the client closes the connection.
    Lines(Vec<Value>),
    /// 200 with a body that goes on until the client closes the connection.
    Endless,
    /// Nothing, until the client closes the connection.
    Silence,
    /// The connection is closed without a response.
    Close,
    /// The connection is upgraded; bytes are sent back as they come.
    Echo,
}

impl AggregatedReply {
    /// 200 with a JSON document.
    pub fn json(body: &Value) -> AggregatedReply {
        AggregatedReply::typed("application/json", body)
    }

    /// 200 with a JSON document of a media type.
    pub fn typed(media_type: &str, body: &Value) -> AggregatedReply {
        let headers = vec![("content-type".to_owned(), media_type.to_owned())];
        AggregatedReply::Full(200, headers, body.to_string())
    }

    /// 404.
    pub fn not_found() -> AggregatedReply {
        AggregatedReply::Full(404, Vec::new(), "404 page not found".to_owned())
    }
}

impl AggregatedRequest {
    /// A header's values.
    pub fn header(&self, name: &str) -> Vec<&str> {
        self.headers.iter().filter(|(n, _)| n == name).map(|(_, value)| value.as_str()).collect()
    }
}

type Decide = dyn Fn(&AggregatedRequest) -> AggregatedReply + Send + Sync;
type Stream = BufReader<StreamOwned<ServerConnection, TcpStream>>;

/// A running aggregated API server.
pub struct AggregatedServer {
    address: SocketAddr,
    certificate: IssuedCert,
    shared: Arc<Shared>,
}

struct Shared {
    decide: Box<Decide>,
    requests: Mutex<Vec<AggregatedRequest>>,
    is_over: AtomicBool,
}

impl AggregatedServer {
    /// Starts the server of a Service, for clients with a certificate of a CA.
    pub fn start(
        (namespace, service): (&str, &str),
        front_proxy_ca: &str,
        decide: impl Fn(&AggregatedRequest) -> AggregatedReply + Send + Sync + 'static,
    ) -> AggregatedServer {
        let sans = Sans::default().with_host(&format!("{service}.{namespace}.svc")).expect("a name");
        let certificate =
            IssuedCert::self_signed_for(service, &sans, SystemTime::now()).expect("a certificate");
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(pem_certificates(front_proxy_ca).expect("a CA"));
        let clients = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone());
        let tls = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("TLS")
            .with_client_cert_verifier(clients.build().expect("a verifier"))
            .with_single_cert(certificate.chain().expect("a chain"), certificate.key().expect("a key"))
            .expect("a certificate and its key");
        let listener = TcpListener::bind((own_service::address(), 0)).expect("a free port");
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
        AggregatedServer { address, certificate, shared }
    }

    /// The `caBundle` that verifies this server.
    pub fn ca_bundle(&self) -> String {
        STANDARD.encode(&self.certificate.cert_pem)
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A Service without a selector, and the EndpointSlice with this server's address.
    pub fn service(&self, namespace: &str, name: &str) -> (Value, Value) {
        own_service::objects(self.address, namespace, name)
    }

    /// All requests so far.
    pub fn requests(&self) -> Vec<AggregatedRequest> {
        self.shared.requests.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for AggregatedServer {
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
            if self.is_over.load(Ordering::Relaxed) {
                return Ok(());
            }
            self.requests.lock().unwrap_or_else(PoisonError::into_inner).push(request.clone());
            reply(&mut stream, (self.decide)(&request))?;
        }
        Ok(())
    }
}

/// The next request; `None` after the last.
fn request(stream: &mut Stream) -> io::Result<Option<AggregatedRequest>> {
    let mut line = String::new();
    if stream.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    let mut words = line.split_whitespace().map(str::to_owned);
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let mut headers = Vec::new();
    loop {
        line.clear();
        if stream.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        match line.trim_end().split_once(':') {
            Some((name, value)) => headers.push((name.to_ascii_lowercase(), value.trim().to_owned())),
            None => break,
        }
    }
    let length = headers.iter().find(|(name, _)| name == "content-length").map_or("0", |(_, value)| value);
    let mut body = vec![0; length.parse().map_err(io::Error::other)?];
    stream.read_exact(&mut body)?;
    let certificates = stream.get_ref().conn.peer_certificates().unwrap_or_default();
    let client = certificates.first().and_then(|der| identity_of(der).ok());
    let client = client.map(|identity| identity.common_name).unwrap_or_default();
    Ok(Some(AggregatedRequest { method, path, headers, body, client }))
}

fn reply(stream: &mut Stream, reply: AggregatedReply) -> io::Result<()> {
    let started = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n";
    match reply {
        AggregatedReply::Full(status, headers, body) => {
            let out = stream.get_mut();
            write!(out, "HTTP/1.1 {status} x\r\ncontent-length: {}\r\n", body.len())?;
            for (name, value) in headers {
                write!(out, "{name}: {value}\r\n")?;
            }
            write!(out, "\r\n{body}")?;
            out.flush()
        }
        AggregatedReply::Lines(lines) => {
            let out = stream.get_mut();
            out.write_all(started)?;
            for line in lines {
                let line = format!("{line}\n");
                write!(out, "{:x}\r\n{line}\r\n", line.len())?;
                out.flush()?;
            }
            stream.read_to_end(&mut Vec::new()).map(drop)
        }
        AggregatedReply::Endless => {
            let out = stream.get_mut();
            out.write_all(started)?;
            let chunk = format!("{:x}\r\n{}\r\n", 65_536, " ".repeat(65_536));
            loop {
                out.write_all(chunk.as_bytes())?;
            }
        }
        AggregatedReply::Silence => stream.read_to_end(&mut Vec::new()).map(drop),
        AggregatedReply::Close => Err(io::ErrorKind::ConnectionAborted.into()),
        AggregatedReply::Echo => {
            let out = stream.get_mut();
            out.write_all(
                b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: echo\r\n\r\n",
            )?;
            out.flush()?;
            let mut bytes = [0; 1024];
            loop {
                let count = stream.read(&mut bytes)?;
                if count == 0 {
                    return Ok(());
                }
                let out = stream.get_mut();
                out.write_all(&bytes[..count])?;
                out.flush()?;
            }
        }
    }
}
