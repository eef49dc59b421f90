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
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::Server;
use super::answer::{self, Answer};
use super::query::Query;
use super::redirect;
use super::spdy::{self, Stream};
use super::spdy_session::{self, PORT_FORWARD};
use super::websocket::{self, Socket};
use crate::machine::Machine;
use crate::names;

/// SPDY within a WebSocket.
const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";
const PIECE: usize = 32 * 1024;
/// How long the other stream of a pair may take to come.
const PATIENCE: Duration = Duration::from_secs(30);

pub(super) async fn answer(
    server: &Server,
    namespace: &str,
    pod: &str,
    query: &Query,
    request: Request<Incoming>,
) -> Answer {
    let machine = server.machine.clone();
    let found = match machine.pods.find(namespace, pod) {
        Some(pod) => sandbox(&machine, pod.uid()).await,
        None => None,
    };
    let Some(sandbox) = found else {
        let why = format!("pod not found ({:?})", format!("{pod}_{namespace}"));
        return answer::text(StatusCode::NOT_FOUND, why);
    };
    let (speech, switching) = match Speech::agree(request.headers(), query) {
        Ok(agreed) => agreed,
        Err(refusal) => return refusal,
    };
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => speech.forward(upgraded, machine, sandbox).await,
            Err(error) => tracing::debug!(%error, "a session could not be upgraded"),
        }
    });
    switching
}

/// How a client carries the bytes of ports.
enum Speech {
    Spdy,
    /// SPDY within a WebSocket.
    Tunnel,
    Channels(websocket::Protocol, Vec<u16>),
}

impl Speech {
    /// What client and kubelet both speak and the answer that begins it, or what the client hears if there is none.
    fn agree(headers: &HeaderMap, query: &Query) -> Result<(Speech, Answer), Answer> {
        let disagreed = || websocket::disagreed(headers);
        if websocket::is_asked_for(headers) {
            if websocket::offered(headers).contains(&TUNNEL) {
                let switching = websocket::switching(headers, TUNNEL).ok_or_else(disagreed)?;
                return Ok((Speech::Tunnel, switching));
            }
            let protocol = websocket::agree(headers).ok_or_else(disagreed)?;
            let ports = channels::ports(query).map_err(|why| answer::text(StatusCode::BAD_REQUEST, why))?;
            let switching = protocol.switching(headers).ok_or_else(disagreed)?;
            return Ok((Speech::Channels(protocol, ports), switching));
        }
        if !spdy_session::is_asked_for(headers) {
            return Err(answer::text(StatusCode::BAD_REQUEST, "Upgrade request required"));
        }
        let agreed = spdy_session::agree(headers, &PORT_FORWARD);
        let protocol = agreed.ok_or_else(|| spdy_session::disagreed(&PORT_FORWARD))?;
        Ok((Speech::Spdy, spdy_session::switching(protocol)))
    }

    async fn forward(self, upgraded: Upgraded, machine: Arc<Machine>, sandbox: String) {
        match self {
            Speech::Spdy => forward(machine, sandbox, spdy::serve(TokioIo::new(upgraded))).await,
            Speech::Tunnel => {
                let (ours, theirs) = tokio::io::duplex(2 * PIECE);
                tokio::spawn(tunnel(websocket::socket(upgraded).await, theirs));
                forward(machine, sandbox, spdy::serve(ours)).await;
            }
            Speech::Channels(protocol, ports) => {
                channels::forward(machine, sandbox, websocket::socket(upgraded).await, protocol, ports).await;
            }
        }
    }
}

/// The sandbox that a pod runs in.
async fn sandbox(machine: &Machine, uid: &str) -> Option<String> {
    let labels = names::of_pod(uid);
    let filter =
        PodSandboxFilter { labels, state: Some(PodSandboxState::Ready), ..PodSandboxFilter::default() };
    let found = machine.runtime.list_pod_sandboxes(&filter).await.ok()?;
    found.into_iter().max_by_key(|sandbox| sandbox.created_at).map(|sandbox| sandbox.id)
}

/// Carries the bytes of one connection in the messages of another, until either ends.
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

/// Both streams of a connection, as far as they have come.
#[derive(Default)]
struct Pair {
    data: Option<Stream>,
    error: Option<Stream>,
}

/// Takes streams until the client is gone, and connects each pair of them.
async fn forward(machine: Arc<Machine>, sandbox: String, mut opened: mpsc::Receiver<Stream>) {
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
                // A stream of no kind is nobody's.
                let _ = stream.out.reset().await;
            }
        }
        if let Pair { data: Some(_), error: Some(_) } = pair
            && let Some(Pair { data: Some(data), error: Some(error) }) = pairs.remove(&id)
        {
            connections.spawn(connect(machine.clone(), sandbox.clone(), data, error));
        }
    }
    // The connections end with their client.
    connections.shutdown().await;
}

/// What joins two streams. Old clients do not say, but open them one after the other.
fn request_id(stream: &Stream) -> String {
    match (stream.header("requestid"), stream.header("streamtype")) {
        ("", "data") => stream.id().saturating_sub(2).to_string(),
        ("", _) => stream.id().to_string(),
        (id, _) => id.to_owned(),
    }
}

/// Leads one connection to its end.
async fn connect(machine: Arc<Machine>, sandbox: String, mut data: Stream, error: Stream) {
    let port = data.header("port").to_owned();
    let out = data.out.clone();
    let carried = match dial(&machine, &sandbox, &port).await {
        Ok(connection) => {
            carry(connection, &mut data.data, |bytes| async { out.send(bytes).await.is_ok() }).await
        }
        Err(why) => Err(why),
    };
    // A client that is gone need not be told anything.
    let _ = match carried {
        Ok(()) => data.out.end().await.and(error.out.end().await),
        Err(why) => {
            let told = error.out.send(Bytes::from(failure(&port, &sandbox, &why))).await;
            told.and(error.out.end().await).and(data.out.reset().await)
        }
    };
}

/// What a client hears of a connection that failed, unless the runtime has put it like this already.
fn failure(port: &str, sandbox: &str, why: &str) -> String {
    match why.starts_with("error forwarding port") {
        true => why.to_owned(),
        false => format!("error forwarding port {port} to pod {sandbox}, uid : {why}"),
    }
}

/// Connects to a port of a pod.
async fn dial(machine: &Machine, sandbox: &str, port: &str) -> Result<Box<dyn Connection>, String> {
    let number = port.parse::<u16>().ok().filter(|number| *number > 0);
    let number = number.ok_or_else(|| format!("unable to parse {port:?} as a port"))?;
    match machine.runtime.port_forward(sandbox, number).await {
        Ok(Streaming::Direct(connection)) => Ok(connection),
        Ok(Streaming::Redirect(url)) => {
            redirect::connection(&url, number).await.map_err(|error| error.to_string())
        }
        Err(error) => Err(error.to_string()),
    }
}

/// Carries bytes both ways. What the pod has still to say is heard also after the client has ended its side.
pub(super) async fn carry<F>(
    connection: Box<dyn Connection>,
    data: &mut mpsc::Receiver<Bytes>,
    send: impl Fn(Bytes) -> F,
) -> Result<(), String>
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
    ended.map_err(|error| error.to_string())
}
