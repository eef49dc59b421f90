//! `/portForward/{namespace}/{pod}`: connections to the ports of a pod, as pairs of SPDY streams; over SPDY itself, or
//! within the messages of a WebSocket.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use corten_container::{Connection, PodSandboxFilter, PodSandboxState, Streaming};
use futures_util::{SinkExt, StreamExt};
use http::{Request, StatusCode};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
use tokio::sync::mpsc;
use tokio_tungstenite::tungstenite::Message;

use super::Server;
use super::answer::{self, Answer};
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
    let headers = request.headers();
    if websocket::is_asked_for(headers) {
        let switching = websocket::offered(headers)
            .contains(&TUNNEL)
            .then(|| websocket::switching(headers, TUNNEL))
            .flatten();
        let Some(switching) = switching else { return websocket::disagreed(headers) };
        tokio::spawn(async move {
            match hyper::upgrade::on(request).await {
                Ok(upgraded) => {
                    let (ours, theirs) = tokio::io::duplex(2 * PIECE);
                    tokio::spawn(tunnel(websocket::socket(upgraded).await, theirs));
                    forward(machine, sandbox, spdy::serve(ours)).await;
                }
                Err(error) => tracing::debug!(%error, "a session could not be upgraded"),
            }
        });
        return switching;
    }
    if !spdy_session::is_asked_for(headers) {
        return answer::text(StatusCode::BAD_REQUEST, "Upgrade request required");
    }
    let Some(protocol) = spdy_session::agree(headers, &PORT_FORWARD) else {
        return spdy_session::disagreed(&PORT_FORWARD);
    };
    tokio::spawn(async move {
        match hyper::upgrade::on(request).await {
            Ok(upgraded) => forward(machine, sandbox, spdy::serve(TokioIo::new(upgraded))).await,
            Err(error) => tracing::debug!(%error, "a session could not be upgraded"),
        }
    });
    spdy_session::switching(protocol)
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
    let connected = match port.parse::<u16>() {
        Ok(number) if number > 0 => machine.runtime.port_forward(&sandbox, number).await,
        _ => Err(corten_container::Error::InvalidArgument(format!("unable to parse {port:?} as a port"))),
    };
    let carried = match connected {
        Ok(Streaming::Direct(connection)) => carry(connection, &mut data).await.map_err(|e| e.to_string()),
        Ok(Streaming::Redirect(_)) => Err("the runtime forwards ports itself".to_owned()),
        Err(error) => Err(error.to_string()),
    };
    // A client that is gone need not be told anything.
    let _ = match carried {
        Ok(()) => data.out.end().await.and(error.out.end().await),
        Err(why) => {
            let why = format!("error forwarding port {port} to pod {sandbox}, uid : {why}");
            let told = error.out.send(Bytes::from(why)).await;
            told.and(error.out.end().await).and(data.out.reset().await)
        }
    };
}

async fn carry(connection: Box<dyn Connection>, data: &mut Stream) -> std::io::Result<()> {
    let (mut reader, mut writer) = tokio::io::split(connection);
    let out = data.out.clone();
    let back = async {
        loop {
            let mut piece = BytesMut::with_capacity(PIECE);
            if reader.read_buf(&mut piece).await? == 0 || out.send(piece.freeze()).await.is_err() {
                return Ok::<(), std::io::Error>(());
            }
        }
    };
    let there = async {
        while let Some(bytes) = data.data.recv().await {
            writer.write_all(&bytes).await?;
        }
        writer.shutdown().await
    };
    // What the pod has still to say is heard also after the client has ended its side.
    let mut back = std::pin::pin!(back);
    tokio::select! {
        ended = &mut back => ended,
        ended = there => match ended {
            Ok(()) => back.await,
            Err(error) => Err(error),
        },
    }
}
