//! `/portForward/{namespace}/{pod}`: connections to the ports of a pod, as pairs of SPDY streams; over SPDY itself, or
//! within the messages of a WebSocket. Some clients use the channels of a WebSocket instead.

mod channels;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use corten_container::{Connection, PodSandboxFilter, PodSandboxState, Streaming};
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::Server;
use super::idle::{self, Upgraded};
use super::query::Query;
use super::redirect;
use super::response::{self, ApiResponse};
use super::spdy::{self, Stream};
use super::spdy_session::{self, PORT_FORWARD};
use super::websocket::{self, Socket};
use crate::containers::labels;
use crate::kubelet::Kubelet;

/// SPDY within a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const PIECE: usize = 32 * 1024;
/// The time in which the other stream of a pair must be opened.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn handle(
    server: &Server,
    namespace: &str,
    pod: &str,
    query: &Query,
    request: Request<Incoming>,
) -> ApiResponse {
    let kubelet = server.kubelet.clone();
    let found = match kubelet.pod_workers.find(namespace, pod) {
        Some(pod) => sandbox(&kubelet, pod.uid()).await,
        None => None,
    };
    let Some(sandbox) = found else {
        let why = format!("pod not found ({:?})", format!("{pod}_{namespace}"));
        return response::text(StatusCode::NOT_FOUND, why);
    };
    let (speech, switching) = match SessionProtocol::negotiate(request.headers(), query) {
        Ok(agreed) => agreed,
        Err(refusal) => return refusal,
    };
    tokio::spawn(async move {
        match idle::upgraded(request, kubelet.session_idle_timeout()).await {
            Ok(upgraded) => speech.forward(upgraded, kubelet, sandbox).await,
            Err(error) => tracing::debug!(err = %error, "cannot upgrade connection"),
        }
    });
    switching
}

/// The protocol of a port-forward session.
enum SessionProtocol {
    Spdy,
    /// SPDY within a WebSocket.
    Tunnel,
    Channels(websocket::Protocol, Vec<u16>),
}

impl SessionProtocol {
    /// The protocol that client and kubelet share with the response that begins it, or the error response.
    fn negotiate(headers: &HeaderMap, query: &Query) -> Result<(SessionProtocol, ApiResponse), ApiResponse> {
        let disagreed = || websocket::unsupported_protocol(headers);
        if websocket::is_upgrade(headers) {
            if websocket::offered(headers).contains(&TUNNEL) {
                let switching = websocket::switching(headers, TUNNEL).ok_or_else(disagreed)?;
                return Ok((SessionProtocol::Tunnel, switching));
            }
            let protocol = websocket::negotiate(headers).ok_or_else(disagreed)?;
            let ports = channels::ports(query)
                .map_err(|err| response::text(StatusCode::BAD_REQUEST, err.to_string()))?;
            let switching = protocol.switching(headers).ok_or_else(disagreed)?;
            return Ok((SessionProtocol::Channels(protocol, ports), switching));
        }
        if !spdy_session::is_upgrade(headers) {
            return Err(response::text(StatusCode::BAD_REQUEST, "Upgrade request required"));
        }
        let agreed = spdy_session::negotiate(headers, &PORT_FORWARD);
        let protocol = agreed.ok_or_else(|| spdy_session::unsupported_protocol(&PORT_FORWARD))?;
        Ok((SessionProtocol::Spdy, spdy_session::switching(protocol)))
    }

    async fn forward(self, upgraded: Upgraded, kubelet: Arc<Kubelet>, sandbox: String) {
        match self {
            SessionProtocol::Spdy => forward(kubelet, sandbox, spdy::serve(upgraded)).await,
            SessionProtocol::Tunnel => {
                let (ours, theirs) = tokio::io::duplex(2 * PIECE);
                tokio::spawn(tunnel(websocket::socket(upgraded).await, theirs));
                forward(kubelet, sandbox, spdy::serve(ours)).await;
            }
            SessionProtocol::Channels(protocol, ports) => {
                channels::forward(kubelet, sandbox, websocket::socket(upgraded).await, protocol, ports).await;
            }
        }
    }
}

/// The ready sandbox of a pod.
async fn sandbox(kubelet: &Kubelet, uid: &str) -> Option<String> {
    let labels = labels::of_pod(uid);
    let filter =
        PodSandboxFilter { labels, state: Some(PodSandboxState::Ready), ..PodSandboxFilter::default() };
    let found = kubelet.containers.runtime.list_pod_sandboxes(&filter).await.ok()?;
    found.into_iter().max_by_key(|sandbox| sandbox.created_at).map(|sandbox| sandbox.id)
}

/// Carries the bytes of a SPDY connection in the messages of a WebSocket, until either ends.
async fn tunnel(socket: Socket, inner: DuplexStream) {
    let (mut sink, mut source) = socket.split();
    let (mut reader, mut writer) = tokio::io::split(inner);
    let incoming = async {
        while let Some(Ok(message)) = source.next().await {
            match message {
                Message::Binary(bytes) if writer.write_all(&bytes).await.is_err() => return,
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    let outgoing = async {
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            match reader.read_buf(&mut piece).await {
                Ok(read) if read > 0 => {}
                _ => return,
            }
            if sink.send(Message::Binary(piece.freeze())).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = incoming => {}
        () = outgoing => {}
    }
}

/// The streams of a connection that have been opened.
#[derive(Default)]
struct Pair {
    data: Option<Stream>,
    error: Option<Stream>,
}

/// Accepts streams until the client is gone, and connects each pair of them.
async fn forward(kubelet: Arc<Kubelet>, sandbox: String, mut opened: mpsc::Receiver<Stream>) {
    let mut pairs: HashMap<String, Pair> = HashMap::new();
    let mut connections = tokio::task::JoinSet::new();
    loop {
        let waits = !pairs.is_empty();
        let stream = tokio::select! {
            stream = opened.recv() => stream,
            () = tokio::time::sleep(PATIENCE), if waits => {
                pairs.clear();
                continue;
            }
        };
        let Some(stream) = stream else { break };
        let id = request_id(&stream);
        let pair = pairs.entry(id.clone()).or_default();
        match stream.header("streamtype") {
            "data" => pair.data = Some(stream),
            "error" => pair.error = Some(stream),
            _ => {
                // A stream of an unknown type is ignored.
                let _ = stream.out.reset().await;
            }
        }
        if let Pair { data: Some(_), error: Some(_) } = pair
            && let Some(Pair { data: Some(data), error: Some(error) }) = pairs.remove(&id)
        {
            connections.spawn(connect(kubelet.clone(), sandbox.clone(), data, error));
        }
    }
    // The connections end with their client.
    connections.shutdown().await;
}

/// The id that joins two streams. Old clients do not send one, but open them one after the other.
fn request_id(stream: &Stream) -> String {
    match (stream.header("requestid"), stream.header("streamtype")) {
        ("", "data") => stream.id().saturating_sub(2).to_string(),
        ("", _) => stream.id().to_string(),
        (id, _) => id.to_owned(),
    }
}

/// Runs one connection to its end.
async fn connect(kubelet: Arc<Kubelet>, sandbox: String, mut data: Stream, error: Stream) {
    let port = data.header("port").to_owned();
    let out = data.out.clone();
    let carried = match dial(&kubelet, &sandbox, &port).await {
        Ok(connection) => {
            carry(connection, &mut data.data, |bytes| async { out.send(bytes).await.is_ok() }).await
        }
        Err(why) => Err(why),
    };
    // A client that is gone gets no response.
    let _ = match carried {
        Ok(()) => data.out.end().await.and(error.out.end().await),
        Err(why) => {
            let told = error.out.send(Bytes::from(failure(&port, &sandbox, &why.to_string()))).await;
            told.and(error.out.end().await).and(data.out.reset().await)
        }
    };
}

/// The error message of a connection that failed, unless the runtime's own has the same form.
fn failure(port: &str, sandbox: &str, why: &str) -> String {
    match why.starts_with("error forwarding port") {
        true => why.to_owned(),
        false => format!("error forwarding port {port} to pod {sandbox}, uid : {why}"),
    }
}

/// A port could not be forwarded.
#[derive(Debug, thiserror::Error)]
pub(super) enum ForwardError {
    #[error("unable to parse {0:?} as a port")]
    Port(String),
    #[error("{0}")]
    Redirect(String),
    #[error(transparent)]
    Runtime(#[from] corten_container::Error),
    #[error(transparent)]
    Connection(#[from] std::io::Error),
}

/// Connects to a port of a pod.
async fn dial(kubelet: &Kubelet, sandbox: &str, port: &str) -> Result<Box<dyn Connection>, ForwardError> {
    let number = port.parse::<u16>().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| ForwardError::Port(port.to_owned()))?;
    match kubelet.containers.runtime.port_forward(sandbox, number).await {
        Ok(Streaming::Direct(connection)) => Ok(connection),
        Ok(Streaming::Redirect(url)) => {
            redirect::connection(&url, number).await.map_err(|err| ForwardError::Redirect(err.to_string()))
        }
        Err(err) => Err(err.into()),
    }
}

/// Carries bytes both ways. Data of the pod is still sent after the client has closed its side.
pub(super) async fn carry<F>(
    connection: Box<dyn Connection>,
    data: &mut mpsc::Receiver<Bytes>,
    send: impl Fn(Bytes) -> F,
) -> Result<(), ForwardError>
where
    F: Future<Output = bool> + Send,
{
    let (mut reader, mut writer) = tokio::io::split(connection);
    let back = async {
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            if reader.read_buf(&mut piece).await? == 0 || !send(piece.freeze()).await {
                return Ok::<(), std::io::Error>(());
            }
        }
    };
    let there = async {
        while let Some(bytes) = data.recv().await {
            writer.write_all(&bytes).await?;
        }
        writer.shutdown().await
    };
    let mut back = std::pin::pin!(back);
    let ended = tokio::select! {
        ended = &mut back => ended,
        ended = there => match ended {
            Ok(()) => back.await,
            Err(error) => Err(error),
        },
    };
    Ok(ended?)
}
