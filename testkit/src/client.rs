//! Requests and watches of tests.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::Context;
use corten_pki::Credentials;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use serde_json::Value;

use crate::http::{Connection, DEADLINE, Framing};

/// The identity of a client.
#[derive(Clone, Copy)]
pub enum Identity<'a> {
    /// No client certificate.
    Anonymous,
    /// The subject of a certificate, with its key, both PEM.
    Certificate {
        /// The certificate.
        cert_pem: &'a str,
        /// Its key.
        key_pem: &'a str,
    },
}

/// A client of one server with one identity; connections are reused.
pub struct Client {
    address: SocketAddr,
    tls: Arc<ClientConfig>,
    idle: Mutex<Vec<Connection>>,
    patience: Duration,
}

/// A request to send.
#[derive(Clone, Debug)]
pub struct Request {
    method: String,
    path: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

/// A server's response.
#[derive(Debug)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// The raw body.
    pub body: Vec<u8>,
    asked: String,
}

/// An open watch.
pub struct Watch {
    connection: Connection,
    buffer: Vec<u8>,
    ended: bool,
    asked: String,
}

/// The end of a watch.
#[derive(Debug)]
pub enum WatchEnd {
    /// The server ended the response properly.
    Closed,
    /// The connection broke.
    Broken(io::Error),
}

impl Request {
    /// A request without a body.
    pub fn new(method: &str, path: impl Into<String>) -> Request {
        Request { method: method.to_owned(), path: path.into(), headers: Vec::new(), body: Vec::new() }
    }

    /// Adds a header.
    #[must_use]
    pub fn header(mut self, name: &str, value: &str) -> Request {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Sets the accepted media type.
    #[must_use]
    pub fn accept(self, media_type: &str) -> Request {
        self.header("accept", media_type)
    }

    /// Sets a body of a media type.
    #[must_use]
    pub fn body(mut self, media_type: &str, body: impl Into<Vec<u8>>) -> Request {
        self.body = body.into();
        self.header("content-type", media_type)
    }

    /// Sets a JSON body.
    #[must_use]
    pub fn json(self, body: &Value) -> Request {
        self.body("application/json", body.to_string())
    }

    fn bytes(&self, host: SocketAddr) -> Vec<u8> {
        let mut text = format!("{} {} HTTP/1.1\r\nhost: {host}\r\n", self.method, self.path);
        for (name, value) in &self.headers {
            text.push_str(&format!("{name}: {value}\r\n"));
        }
        if !self.body.is_empty() || self.method != "GET" {
            text.push_str(&format!("content-length: {}\r\n", self.body.len()));
        }
        text.push_str("\r\n");
        let mut bytes = text.into_bytes();
        bytes.extend_from_slice(&self.body);
        bytes
    }
}

impl Response {
    /// A header's value; empty if it is absent.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(n, _)| n == name).map_or("", |(_, value)| value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The body as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        match serde_json::from_slice(&self.body) {
            Ok(value) => value,
            Err(error) => {
                panic!(
                    "{}: {} with a body that is not JSON ({error}): {}",
                    self.asked,
                    self.status,
                    self.text()
                )
            }
        }
    }

    /// The JSON body, if the status is the expected one.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        self.expect_status(status);
        self.json()
    }

    /// Fails unless the status is the expected one.
    #[track_caller]
    pub fn expect_status(&self, status: u16) {
        assert!(
            self.status == status,
            "{}: expected {status}, got {}: {}",
            self.asked,
            self.status,
            self.text()
        );
    }

    /// The message, if this is a failure of the expected status and reason.
    #[track_caller]
    pub fn expect_failure(&self, status: u16, reason: &str) -> String {
        let body = self.expect(status);
        assert_eq!(body["kind"], "Status", "{}: {body}", self.asked);
        assert_eq!(body["status"], "Failure", "{}: {body}", self.asked);
        assert_eq!(body["code"], status, "{}: {body}", self.asked);
        assert_eq!(body["reason"].as_str().unwrap_or_default(), reason, "{}: {body}", self.asked);
        body["message"].as_str().unwrap_or_default().to_owned()
    }
}

impl Client {
    /// A client with the kubeconfig's identity.
    pub fn new(credentials: &Credentials) -> anyhow::Result<Client> {
        let identity =
            Identity::Certificate { cert_pem: &credentials.cert_pem, key_pem: &credentials.key_pem };
        Client::with_identity(credentials, identity)
    }

    /// A client of the kubeconfig's server with another identity.
    pub fn with_identity(credentials: &Credentials, identity: Identity<'_>) -> anyhow::Result<Client> {
        let address = credentials.server.strip_prefix("https://").context("the server's URL is not https")?;
        Ok(Client {
            address: address.parse().with_context(|| format!("{address} is no address"))?,
            tls: tls(&credentials.ca_pem, identity)?,
            idle: Mutex::default(),
            patience: DEADLINE,
        })
    }

    /// The same client with another deadline for each wait than [`DEADLINE`].
    #[must_use]
    pub fn with_patience(self, patience: Duration) -> Client {
        Client { patience, ..self }
    }

    /// The server's address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// A new connection.
    pub fn connect(&self) -> io::Result<Connection> {
        Connection::open_within(self.patience, self.address, &self.tls)
    }

    /// A new HTTP/2 connection: the test writes and reads its frames.
    pub fn connect_http2(&self) -> io::Result<Connection> {
        let mut tls = ClientConfig::clone(&self.tls);
        tls.alpn_protocols = vec![b"h2".to_vec()];
        Connection::open(self.address, &Arc::new(tls))
    }

    /// Sends a request and reads the whole response.
    pub fn try_send(&self, request: &Request) -> io::Result<Response> {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        if let Err(error) = connection.send(&request.bytes(self.address)) {
            // A server need not read all of a body that it refuses.
            let head = connection.salvage().map_err(|_| error)?;
            let (status, headers) = (head.status, head.headers);
            return Ok(Response { status, headers, body: Vec::new(), asked: asked(request) });
        }
        let head = connection.head()?;
        let body = connection.body(&head, &request.method)?;
        if head.keeps_open() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        }
        Ok(Response { status: head.status, headers: head.headers, body, asked: asked(request) })
    }

    /// Sends a request that must get a response.
    #[track_caller]
    pub fn send(&self, request: &Request) -> Response {
        match self.try_send(request) {
            Ok(response) => response,
            Err(error) => panic!("{}: no answer: {error}", asked(request)),
        }
    }

    /// Gets a path.
    #[track_caller]
    pub fn get(&self, path: impl Into<String>) -> Response {
        self.send(&Request::new("GET", path))
    }

    /// Posts an object.
    #[track_caller]
    pub fn post(&self, path: impl Into<String>, body: &Value) -> Response {
        self.send(&Request::new("POST", path).json(body))
    }

    /// Puts an object.
    #[track_caller]
    pub fn put(&self, path: impl Into<String>, body: &Value) -> Response {
        self.send(&Request::new("PUT", path).json(body))
    }

    /// Patches an object; `how` is `merge`, `strategic-merge`, `json` or `apply`.
    #[track_caller]
    pub fn patch(&self, path: impl Into<String>, how: &str, body: &Value) -> Response {
        let media_type = match how {
            "json" => "application/json-patch+json",
            "merge" => "application/merge-patch+json",
            "strategic-merge" => "application/strategic-merge-patch+json",
            "apply" => "application/apply-patch+yaml",
            other => panic!("there is no patch called {other}"),
        };
        self.send(&Request::new("PATCH", path).body(media_type, body.to_string()))
    }

    /// Deletes a path.
    #[track_caller]
    pub fn delete(&self, path: impl Into<String>) -> Response {
        self.send(&Request::new("DELETE", path))
    }

    /// Opens a WebSocket at a path; returns the connection after the upgrade.
    #[track_caller]
    pub fn websocket(&self, path: &str, protocol: &str) -> Connection {
        self.websocket_offering(path, protocol, protocol)
    }

    /// The same with several offered protocols.
    #[track_caller]
    pub fn websocket_offering(&self, path: &str, offered: &str, protocol: &str) -> Connection {
        let mut request = Request::new("GET", path)
            .header("connection", "Upgrade")
            .header("upgrade", "websocket")
            .header("sec-websocket-version", "13")
            .header("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ==");
        if !offered.is_empty() {
            request = request.header("sec-websocket-protocol", offered);
        }
        let opened = self.connect().and_then(|mut connection| {
            connection.send(&request.bytes(self.address))?;
            let head = connection.read_until(b"\r\n\r\n")?;
            Ok((connection, String::from_utf8_lossy(&head).to_ascii_lowercase()))
        });
        let (connection, head) = match opened {
            Ok(opened) => opened,
            Err(error) => panic!("{}: no answer: {error}", asked(&request)),
        };
        assert!(head.starts_with("http/1.1 101 "), "{head}");
        // The value that the protocol requires for this key.
        assert!(head.contains("sec-websocket-accept: s3pplmbitxaq9kygzzhzrbk+xoo=\r\n"), "{head}");
        let spoken = head.contains(&format!("sec-websocket-protocol: {protocol}\r\n"));
        assert_eq!(spoken, !protocol.is_empty(), "{head}");
        connection
    }

    /// Opens a watch; the path contains `watch=true` and the other parameters.
    #[track_caller]
    pub fn watch(&self, path: impl Into<String>) -> Watch {
        self.watch_with(&Request::new("GET", path))
    }

    /// Opens a watch with a request of its own.
    #[track_caller]
    pub fn watch_with(&self, request: &Request) -> Watch {
        match self.try_watch_with(request) {
            Ok(Ok(watch)) => watch,
            Ok(Err(refusal)) => {
                panic!("{}: no watch but {}: {}", asked(request), refusal.status, refusal.text())
            }
            Err(error) => panic!("{}: no answer: {error}", asked(request)),
        }
    }

    /// Opens a watch, which the server may refuse.
    pub fn try_watch(&self, path: impl Into<String>) -> io::Result<Result<Watch, Response>> {
        self.try_watch_with(&Request::new("GET", path))
    }

    fn try_watch_with(&self, request: &Request) -> io::Result<Result<Watch, Response>> {
        let asked = asked(request);
        let mut connection = self.connect()?;
        connection.send(&request.bytes(self.address))?;
        let head = connection.head()?;
        if head.status != 200 || head.framing("GET") != Framing::Chunked {
            let body = connection.body(&head, "GET").unwrap_or_default();
            return Ok(Err(Response { status: head.status, headers: head.headers, body, asked }));
        }
        Ok(Ok(Watch { connection, buffer: Vec::new(), ended: false, asked }))
    }
}

impl Watch {
    /// The next event; fails if there is none before the deadline.
    #[track_caller]
    pub fn event(&mut self) -> Value {
        match self.try_next() {
            Ok(event) => event,
            Err(end) => panic!("{}: the watch ended ({end:?}) where an event was due", self.asked),
        }
    }

    /// The next event of a type, and its object.
    #[track_caller]
    pub fn expect(&mut self, event_type: &str) -> Value {
        let mut event = self.event();
        assert_eq!(event["type"], event_type, "{}: {event}", self.asked);
        event["object"].take()
    }

    /// The next event, or the end of the watch.
    pub fn try_next(&mut self) -> Result<Value, WatchEnd> {
        loop {
            if let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                let event = serde_json::from_slice(&line);
                return event.map_err(|error| WatchEnd::Broken(io::Error::other(error)));
            }
            if self.ended {
                return Err(WatchEnd::Closed);
            }
            match self.connection.chunk() {
                Ok(Some(chunk)) => self.buffer.extend(chunk),
                Ok(None) => self.ended = true,
                Err(error) => return Err(WatchEnd::Broken(error)),
            }
        }
    }
}

fn asked(request: &Request) -> String {
    format!("{} {}", request.method, request.path)
}

fn tls(ca_pem: &str, identity: Identity<'_>) -> anyhow::Result<Arc<ClientConfig>> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca_pem.as_bytes()) {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(Arc::new(match identity {
        Identity::Anonymous => config.with_no_client_auth(),
        Identity::Certificate { cert_pem, key_pem } => {
            let chain = CertificateDer::pem_slice_iter(cert_pem.as_bytes()).collect::<Result<Vec<_>, _>>()?;
            config.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key_pem.as_bytes())?)?
        }
    }))
}
