//! One keep-alive connection, and its target.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use anyhow::Context;
use corten_pki::Credentials;
use memchr::memmem;
use rustls::client::Resumption;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::chunked::Chunked;

/// The size of the buffer: a whole response head, or two TLS records of a body.
const BUFFER: usize = 32 * 1024;

/// A server, with the credentials for it.
pub(crate) struct Target {
    /// `host:port`, as in the URL.
    pub(crate) host: String,
    address: SocketAddr,
    name: ServerName<'static>,
    tls: TlsConnector,
}

impl Target {
    pub(crate) async fn new(credentials: &Credentials) -> anyhow::Result<Target> {
        let host = credentials.server.strip_prefix("https://").context("the server's URL is not https")?;
        let host = host.trim_end_matches('/');
        let (name, _port) = host.rsplit_once(':').context("the server's URL has no port")?;
        let name = name.trim_start_matches('[').trim_end_matches(']').to_owned();
        let address =
            tokio::net::lookup_host(host).await?.next().context("the server's name has no address")?;

        let mut roots = RootCertStore::empty();
        roots.add(CertificateDer::from_pem_slice(credentials.ca_pem.as_bytes())?)?;
        let chain = CertificateDer::pem_slice_iter(credentials.cert_pem.as_bytes())
            .collect::<Result<Vec<_>, _>>()
            .context("the client certificate is not PEM")?;
        let key = PrivateKeyDer::from_pem_slice(credentials.key_pem.as_bytes())?;
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let mut config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots)
            .with_client_auth_cert(chain, key)?;
        // Every connection stands for another client, so TLS sessions are not resumed.
        config.resumption = Resumption::disabled();
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let tls = TlsConnector::from(Arc::new(config));
        Ok(Target { host: host.to_owned(), address, name: ServerName::try_from(name)?, tls })
    }
}

/// The framing of a response body.
#[derive(Debug)]
pub(crate) struct Body(Framing);

#[derive(Debug)]
enum Framing {
    Length(u64),
    Chunked(Chunked),
    UntilClose,
}

impl Body {
    fn is_complete(&self) -> bool {
        match &self.0 {
            Framing::Length(left) => *left == 0,
            Framing::Chunked(decoder) => decoder.is_done(),
            Framing::UntilClose => false,
        }
    }

    fn feed(&mut self, input: &[u8], sink: &mut dyn FnMut(&[u8])) -> io::Result<usize> {
        match &mut self.0 {
            Framing::Length(left) => {
                let take = usize::try_from(*left).map_or(input.len(), |left| left.min(input.len()));
                sink(&input[..take]);
                *left -= take as u64;
                Ok(take)
            }
            Framing::Chunked(decoder) => decoder.feed(input, sink),
            Framing::UntilClose => {
                sink(input);
                Ok(input.len())
            }
        }
    }
}

/// A connection to a [`Target`].
pub(crate) struct Connection {
    stream: TlsStream<TcpStream>,
    buffer: Box<[u8]>,
    start: usize,
    end: usize,
    reusable: bool,
}

impl Connection {
    pub(crate) async fn open(target: &Target) -> io::Result<Connection> {
        let tcp = TcpStream::connect(target.address).await?;
        tcp.set_nodelay(true)?;
        let stream = target.tls.connect(target.name.clone(), tcp).await?;
        Ok(Connection { stream, buffer: vec![0; BUFFER].into(), start: 0, end: 0, reusable: true })
    }

    /// True if another request may be sent after a successful one.
    pub(crate) fn is_reusable(&self) -> bool {
        self.reusable
    }

    /// Sends a request and reads the whole response; returns its status.
    pub(crate) async fn request(
        &mut self,
        request: &[u8],
        sink: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<u16> {
        let (status, mut body) = self.start(request).await?;
        while self.read_body(&mut body, sink).await? {}
        Ok(status)
    }

    /// Sends a request and reads the head of its response.
    pub(crate) async fn start(&mut self, request: &[u8]) -> io::Result<(u16, Body)> {
        self.stream.write_all(request).await?;
        self.stream.flush().await?;
        loop {
            let head = self.read_head().await?;
            // Interim responses are followed by the final one.
            if head.status >= 200 {
                self.reusable = head.keep_alive && !matches!(head.body.0, Framing::UntilClose);
                return Ok((head.status, head.body));
            }
        }
    }

    /// Passes on the available part of the body, and waits if there is none. Returns false at the body's end.
    pub(crate) async fn read_body(
        &mut self,
        body: &mut Body,
        sink: &mut (dyn FnMut(&[u8]) + Send),
    ) -> io::Result<bool> {
        if body.is_complete() {
            return Ok(false);
        }
        if self.start == self.end && self.fill().await? == 0 {
            return match body.0 {
                Framing::UntilClose => Ok(false),
                _ => Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the answer was cut off")),
            };
        }
        self.start += body.feed(&self.buffer[self.start..self.end], sink)?;
        Ok(!body.is_complete())
    }

    async fn read_head(&mut self) -> io::Result<Head> {
        loop {
            let filled = &self.buffer[self.start..self.end];
            if let Some(length) = memmem::find(filled, b"\r\n\r\n") {
                let head = Head::parse(&filled[..length])?;
                self.start += length + 4;
                return Ok(head);
            }
            if self.fill().await? == 0 {
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the connection was closed"));
            }
        }
    }

    /// Reads more bytes behind those not used yet; 0 when the peer has closed.
    async fn fill(&mut self) -> io::Result<usize> {
        if self.start == self.end {
            (self.start, self.end) = (0, 0);
        } else if self.end == self.buffer.len() {
            if self.start == 0 {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "the head of the answer is too long"));
            }
            self.buffer.copy_within(self.start..self.end, 0);
            (self.start, self.end) = (0, self.end - self.start);
        }
        let read = match self.stream.read(&mut self.buffer[self.end..]).await {
            // A peer that closes the connection without a TLS close_notify has closed it, too.
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => 0,
            other => other?,
        };
        self.end += read;
        Ok(read)
    }
}

#[derive(Debug)]
struct Head {
    status: u16,
    body: Body,
    keep_alive: bool,
}

impl Head {
    /// Parses a head without its final blank line.
    fn parse(head: &[u8]) -> io::Result<Head> {
        let malformed = |problem| io::Error::new(io::ErrorKind::InvalidData, problem);
        let text = std::str::from_utf8(head).map_err(|_| malformed("the head of the answer is not text"))?;
        let mut lines = text.split("\r\n");
        let status_line = lines.next().unwrap_or_default();
        let mut words = status_line.splitn(3, ' ');
        let version = words.next().unwrap_or_default();
        if !version.starts_with("HTTP/1.") {
            return Err(malformed("the answer is not HTTP/1"));
        }
        let status: u16 = words
            .next()
            .and_then(|word| word.parse().ok())
            .ok_or_else(|| malformed("the answer has no status"))?;

        let (mut length, mut chunked, mut keep_alive) = (None, false, version == "HTTP/1.1");
        for line in lines {
            let Some((name, value)) = line.split_once(':') else { continue };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") {
                length = Some(value.parse().map_err(|_| malformed("content-length is not a number"))?);
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = value.to_ascii_lowercase().ends_with("chunked");
            } else if name.eq_ignore_ascii_case("connection") {
                let value = value.to_ascii_lowercase();
                keep_alive = value.contains("keep-alive") || (keep_alive && !value.contains("close"));
            }
        }
        let framing = match (status, chunked, length) {
            (..200 | 204 | 304, _, _) => Framing::Length(0),
            (_, true, _) => Framing::Chunked(Chunked::new()),
            (_, false, Some(length)) => Framing::Length(length),
            (_, false, None) => Framing::UntilClose,
        };
        Ok(Head { status, body: Body(framing), keep_alive })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_determines_the_framing_of_the_body() {
        let cases = [
            ("HTTP/1.1 200 OK\r\nContent-Length: 12", 200, "Length(12)", true),
            ("HTTP/1.1 201 Created\r\ncontent-length:0\r\nConnection: close", 201, "Length(0)", false),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\nx: y", 200, "Chunked", true),
            ("HTTP/1.1 204 No Content", 204, "Length(0)", true),
            ("HTTP/1.1 100 Continue", 100, "Length(0)", true),
            ("HTTP/1.1 429", 429, "UntilClose", true),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1", 200, "Length(1)", false),
            ("HTTP/1.0 200 OK\r\nContent-Length: 1\r\nConnection: Keep-Alive", 200, "Length(1)", true),
        ];
        for (text, status, framing, keep_alive) in cases {
            let head = Head::parse(text.as_bytes()).unwrap();
            assert_eq!((head.status, head.keep_alive), (status, keep_alive), "{text}");
            assert!(format!("{:?}", head.body.0).starts_with(framing), "{text}: {:?}", head.body);
        }
        for text in ["", "HTTP/2 200", "HTTP/1.1", "HTTP/1.1 abc", "HTTP/1.1 200 OK\r\nContent-Length: x"] {
            assert!(Head::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}
