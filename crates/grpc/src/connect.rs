//! Endpoints, and connections to them.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;

use crate::Status;
use crate::body::Body;
use crate::channel::ChannelOptions;

/// HTTP/2 flow control: bytes that a peer may send before they are read, per stream and per connection.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 8 << 20;
/// The limit of a header list.
pub(crate) const MAX_HEADERS: u32 = 16 << 10;

/// A server's address.
#[derive(Clone, Debug)]
pub enum Endpoint {
    Tcp {
        /// A host name or an address, without brackets.
        host: String,
        port: u16,
        /// `None` for a connection without TLS. ALPN is set by the channel.
        tls: Option<Arc<ClientConfig>>,
    },
    Unix(PathBuf),
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("invalid endpoint {0:?}: use http://HOST:PORT, https://HOST:PORT or unix:///PATH")]
pub struct InvalidEndpoint(String);

impl Endpoint {
    /// Parses a URL. One without a scheme is a host and a port; `tls` is for `https://` alone.
    pub fn parse(url: &str, tls: Option<&Arc<ClientConfig>>) -> Result<Endpoint, InvalidEndpoint> {
        let invalid = || InvalidEndpoint(url.to_owned());
        if let Some(path) = url.strip_prefix("unix://").or_else(|| url.strip_prefix("unix:")) {
            return if path.is_empty() { Err(invalid()) } else { Ok(Endpoint::Unix(path.into())) };
        }
        let (address, tls) = match url.split_once("://") {
            Some(("https", address)) => (address, Some(tls.ok_or_else(invalid)?.clone())),
            Some(("http", address)) => (address, None),
            None => (url, None),
            Some(_) => return Err(invalid()),
        };
        let address = address.strip_suffix('/').unwrap_or(address);
        let (host, port) = address.rsplit_once(':').ok_or_else(invalid)?;
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(address) => address,
            None if host.contains([':', '/', '@', '[', ']']) => return Err(invalid()),
            None => host,
        };
        let port = port.parse().map_err(|_| invalid())?;
        if host.is_empty() {
            return Err(invalid());
        }
        Ok(Endpoint::Tcp { host: host.to_owned(), port, tls })
    }

    /// The scheme and authority of requests.
    pub(crate) fn origin(&self) -> String {
        match self {
            Endpoint::Unix(_) => "http://localhost".to_owned(),
            Endpoint::Tcp { host, port, tls } => {
                let scheme = if tls.is_some() { "https" } else { "http" };
                if host.contains(':') {
                    format!("{scheme}://[{host}]:{port}")
                } else {
                    format!("{scheme}://{host}:{port}")
                }
            }
        }
    }

    /// The address in error messages.
    fn name(&self) -> String {
        match self {
            Endpoint::Unix(path) => path.display().to_string(),
            Endpoint::Tcp { .. } => self.origin(),
        }
    }

    /// Opens a connection; its task ends when the last sender is dropped.
    pub(crate) async fn connect(&self, options: &ChannelOptions) -> Result<SendRequest<Body>, Status> {
        let connected = Box::pin(tokio::time::timeout(options.connect_timeout, self.open(options)));
        let failed = |why: String| Status::unavailable(format!("cannot connect to {}: {why}", self.name()));
        match connected.await {
            Ok(Ok(sender)) => Ok(sender),
            Ok(Err(error)) => Err(failed(error.to_string())),
            Err(_) => Err(failed("timeout".to_owned())),
        }
    }

    async fn open(&self, options: &ChannelOptions) -> io::Result<SendRequest<Body>> {
        match self {
            Endpoint::Unix(path) => handshake(UnixStream::connect(path).await?, options).await,
            Endpoint::Tcp { host, port, tls } => {
                let stream = TcpStream::connect((host.as_str(), *port)).await?;
                // A socket that cannot be tuned still works.
                let _ = stream.set_nodelay(true);
                let Some(tls) = tls else { return handshake(stream, options).await };
                let mut tls = ClientConfig::clone(tls);
                tls.alpn_protocols = vec![b"h2".to_vec()];
                let name = options.server_name.as_ref().unwrap_or(host);
                let name = ServerName::try_from(name.clone()).map_err(io::Error::other)?;
                let stream = TlsConnector::from(Arc::new(tls)).connect(name, stream).await?;
                handshake(stream, options).await
            }
        }
    }
}

async fn handshake<I>(io: I, options: &ChannelOptions) -> io::Result<SendRequest<Body>>
where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let mut builder = Builder::new(TokioExecutor::new());
    builder
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_header_list_size(MAX_HEADERS);
    if let Some(keep_alive) = options.keep_alive {
        builder.keep_alive_interval(keep_alive.interval).keep_alive_timeout(keep_alive.timeout);
    }
    let (sender, connection) = builder.handshake(TokioIo::new(io)).await.map_err(io::Error::other)?;
    tokio::spawn(async move {
        if let Err(err) = connection.await {
            tracing::debug!(%err, "gRPC connection ended");
        }
    });
    Ok(sender)
}

/// Pings on a connection with open streams, so that a peer that is gone is noticed.
#[derive(Clone, Copy, Debug)]
pub struct KeepAlive {
    pub interval: Duration,
    /// The time that a response to a ping may take.
    pub timeout: Duration,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_parsed() {
        let origin = |url: &str| Endpoint::parse(url, None).map(|endpoint| endpoint.origin());
        for (url, expected) in [
            ("http://localhost:2379", "http://localhost:2379"),
            ("http://127.0.0.1:2379/", "http://127.0.0.1:2379"),
            ("[::1]:2379", "http://[::1]:2379"),
            ("etcd:2379", "http://etcd:2379"),
            ("unix:///run/x.sock", "http://localhost"),
        ] {
            assert_eq!(origin(url).as_deref(), Ok(expected));
        }
        for invalid in [
            "",
            "etcd",
            "https://a:1",
            "ftp://a:1",
            "http://a:b",
            "http://:1",
            "unix://",
            "a:65536",
            "a:1/x:2",
            "::1:5",
        ] {
            assert_eq!(origin(invalid), Err(InvalidEndpoint(invalid.to_owned())));
        }
    }
}
