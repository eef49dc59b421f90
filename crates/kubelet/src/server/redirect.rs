//! Sessions that a runtime serves itself: the kubelet opens the runtime's URL with SPDY, so that its own clients may
//! use any protocol.
//!
//! The result is the same as that of a runtime that passes its streams directly.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use corten_api::json;
use corten_container::{Connection, Error, Reader, Result, Session, Terminal, Writer};
use http::header::{CONNECTION, HOST, UPGRADE};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty};
use hyper_util::rt::TokioIo;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, DuplexStream, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::mpsc;

use super::port_forward;
use super::remote_command::Streams;
use super::spdy::{self, Opener, Outlet, Stream};
use super::spdy_session::{PORT_FORWARD, SESSION, VERSIONS};

/// The number of bytes that wait between the runtime and the client.
const AHEAD: usize = 64 * 1024;
/// The time that the runtime has to send the error of a connection it closed.
const LAST_WORDS: Duration = Duration::from_secs(1);

fn failed(what: &str, why: impl std::fmt::Display) -> Error {
    Error::Unavailable(format!("{what}: {why}"))
}

/// The streams of a command or a container at the runtime's own server.
pub(super) async fn session(url: &str, streams: Streams) -> Result<Session> {
    let mut opener = upgrade(url, SESSION[0]).await?;
    let status = open(&mut opener, &[("streamtype", "error")]).await?;
    let mut asked = Vec::new();
    for (kind, wanted) in [
        ("stdin", streams.stdin),
        ("stdout", streams.stdout),
        ("stderr", streams.stderr),
        ("resize", streams.tty),
    ] {
        asked.push(match wanted {
            true => Some(open(&mut opener, &[("streamtype", kind)]).await?),
            false => None,
        });
    }
    let mut asked = asked.into_iter().map(|stream| stream.map(|stream| (stream.data, stream.out)));
    let mut next = || asked.next().flatten();
    let stdin = next().map(|(_, out)| written(out));
    let stdout = next().map(|(data, _)| read(data));
    let stderr = next().map(|(data, _)| read(data));
    let terminal = next().map(|(_, out)| Box::new(Sizes::new(out)) as Box<dyn Terminal>);
    // The connection lasts until the exit status has been received: it comes last.
    let exit = Box::pin(async move {
        let said = collected(status.data).await;
        drop(opener);
        exit_code(&said)
    });
    Ok(Session { stdin, stdout, stderr, terminal, exit })
}

/// A connection to a port of a pod, through the runtime's own server.
pub(super) async fn connection(url: &str, port: u16) -> Result<Box<dyn Connection>> {
    let mut opener = upgrade(url, PORT_FORWARD[0]).await?;
    let port = port.to_string();
    let of = |kind| [("streamtype", kind), ("port", port.as_str()), ("requestid", "0")];
    let error = open(&mut opener, &of("error")).await?;
    // Nothing is ever sent on it.
    let _ = error.out.end().await;
    let mut data = open(&mut opener, &of("data")).await?;
    let (ours, theirs) = tokio::io::duplex(AHEAD);
    let (sender, mut received) = mpsc::channel(1);
    let failure = Arc::new(Mutex::new(None));
    let told = failure.clone();
    tokio::spawn(async move {
        let _lasts_as_long = opener;
        let out = data.out.clone();
        let carry = port_forward::carry(Box::new(theirs), &mut received, |bytes| async {
            out.send(bytes).await.is_ok()
        });
        // The error is received before the end of the data.
        let pass_on = async {
            while let Some(bytes) = data.data.recv().await {
                if sender.send(bytes).await.is_err() {
                    break;
                }
            }
            let said = tokio::time::timeout(LAST_WORDS, collected(error.data)).await.unwrap_or_default();
            if !said.is_empty() {
                *told.lock() = Some(String::from_utf8_lossy(&said).into_owned());
            }
            drop(sender);
            std::future::pending::<()>().await;
        };
        tokio::select! {
            _ = carry => {}
            () = pass_on => {}
        }
        // A runtime that is gone needs no close message.
        let _ = out.end().await;
    });
    Ok(Box::new(Forwarded { io: ours, failure }))
}

/// Upgrades a connection to the runtime's server to SPDY.
async fn upgrade(url: &str, protocol: &'static str) -> Result<Opener> {
    let uri: Uri = url.parse().map_err(|error| failed("cannot read the runtime's URL", error))?;
    let authority = uri.authority().map(|authority| authority.as_str().to_owned()).unwrap_or_default();
    if uri.scheme_str() != Some("http") {
        return Err(failed("cannot read the runtime's URL", format!("{url} is not served over plain HTTP")));
    }
    let address = if uri.port().is_some() { authority.clone() } else { format!("{authority}:80") };
    let what = format!("cannot connect to the runtime at {authority}");
    let stream = TcpStream::connect(address).await.map_err(|error| failed(&what, error))?;
    let shaken = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, driver) = shaken.map_err(|error| failed(&what, error))?;
    tokio::spawn(driver.with_upgrades());
    let request = Request::post(uri.path_and_query().map_or("/", |path| path.as_str()))
        .header(HOST, authority)
        .header(CONNECTION, "Upgrade")
        .header(UPGRADE, "SPDY/3.1")
        .header(VERSIONS, protocol)
        .body(Empty::<Bytes>::new())
        .map_err(|error| failed(&what, error))?;
    let answer = sender.send_request(request).await.map_err(|error| failed(&what, error))?;
    if answer.status() != StatusCode::SWITCHING_PROTOCOLS {
        let status = answer.status();
        let body = answer.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
        return Err(failed(&what, format!("{status}: {}", String::from_utf8_lossy(&body).trim())));
    }
    let upgraded = hyper::upgrade::on(answer).await.map_err(|error| failed(&what, error))?;
    Ok(spdy::connect(TokioIo::new(upgraded)))
}

async fn open(opener: &mut Opener, headers: &[(&str, &str)]) -> Result<Stream> {
    opener.open(headers).await.map_err(|_| Error::Unavailable("the runtime hung up".to_owned()))
}

async fn collected(mut data: mpsc::Receiver<Bytes>) -> Vec<u8> {
    let mut all = Vec::new();
    while let Some(bytes) = data.recv().await {
        all.extend_from_slice(&bytes);
    }
    all
}

/// A reader of a stream's data.
fn read(mut data: mpsc::Receiver<Bytes>) -> Reader {
    let (ours, mut theirs) = tokio::io::duplex(AHEAD);
    tokio::spawn(async move {
        while let Some(bytes) = data.recv().await {
            if theirs.write_all(&bytes).await.is_err() {
                return;
            }
        }
    });
    Box::pin(ours)
}

/// A writer to a stream. Its end closes the stream.
fn written(out: Outlet) -> Writer {
    let (ours, mut theirs) = tokio::io::duplex(AHEAD);
    tokio::spawn(async move {
        let mut piece = bytes::BytesMut::with_capacity(AHEAD / 2);
        while let Ok(1..) = theirs.read_buf(&mut piece).await {
            if out.send(piece.split().freeze()).await.is_err() {
                return;
            }
            piece.reserve(AHEAD / 2);
        }
        // A session that has ended has no input to close.
        let _ = out.end().await;
    });
    Box::pin(ours)
}

/// A terminal of the runtime, which gets its sizes as JSON objects.
struct Sizes(mpsc::UnboundedSender<Bytes>);

impl Sizes {
    fn new(out: Outlet) -> Sizes {
        let (sender, mut sizes) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            while let Some(size) = sizes.recv().await {
                if out.send(size).await.is_err() {
                    return;
                }
            }
        });
        Sizes(sender)
    }
}

impl Terminal for Sizes {
    fn resize(&self, columns: u16, rows: u16) -> Result<()> {
        let size = format!("{{\"Width\":{columns},\"Height\":{rows}}}\n");
        self.0.send(size.into()).map_err(|_| Error::Unavailable("the session is over".to_owned()))
    }
}

/// The exit code in the runtime's `Status`.
fn exit_code(said: &[u8]) -> Result<i32> {
    let status = json::parse(said).map_err(|_| Error::Unavailable("the runtime hung up".to_owned()))?;
    if status.str_at(&["status"]) == Some("Success") {
        return Ok(0);
    }
    let causes = status.items_at(&["details", "causes"]);
    let code = causes.iter().find(|cause| cause.str_at(&["reason"]) == Some("ExitCode"));
    match code.and_then(|cause| cause.str_at(&["message"])?.parse().ok()) {
        Some(code) => Ok(code),
        None => Err(Error::Internal(status.str_at(&["message"]).unwrap_or_default().to_owned())),
    }
}

/// A connection whose error comes after everything else.
struct Forwarded {
    io: DuplexStream,
    failure: Arc<Mutex<Option<String>>>,
}

impl AsyncRead for Forwarded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.io).poll_read(context, buffer);
        match polled {
            Poll::Ready(Ok(())) if buffer.filled().len() == before => {
                Poll::Ready(self.failure.lock().take().map_or(Ok(()), |why| Err(io::Error::other(why))))
            }
            other => other,
        }
    }
}

impl AsyncWrite for Forwarded {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_have_exit_codes() {
        assert_eq!(exit_code(br#"{"metadata":{},"status":"Success"}"#), Ok(0));
        let failed = br#"{"status":"Failure","message":"m","details":{"causes":[{"reason":"ExitCode","message":"3"}]}}"#;
        assert_eq!(exit_code(failed), Ok(3));
        let broken = br#"{"status":"Failure","message":"no such file"}"#;
        assert_eq!(exit_code(broken), Err(Error::Internal("no such file".to_owned())));
        assert!(matches!(exit_code(b""), Err(Error::Unavailable(_))));
    }
}
