//! `/exec/{namespace}/{pod}/{container}` and `/attach/…`: finds the container, starts the session, and switches
//! protocols.

use std::sync::Arc;

use corten_container::{AttachRequest, ContainerFilter, ContainerState, ExecRequest};
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;

use super::Server;
use super::idle::{self, Upgraded};
use super::query::Query;
use super::remote_command::{self, Client, Streams, Work};
use super::response::{self, ApiResponse};
use super::{spdy, spdy_session, websocket};
use crate::containers::labels;
use crate::kubelet::Kubelet;
use crate::pod::Pod;

/// The container of a session, and the work in it.
pub(super) struct Asked<'a> {
    pub(super) namespace: &'a str,
    pub(super) pod: &'a str,
    pub(super) container: &'a str,
    pub(super) work: Work,
}

pub(super) async fn handle(
    server: &Server,
    asked: Asked<'_>,
    query: &Query,
    request: Request<Incoming>,
) -> ApiResponse {
    let Some(asked_for) = streams(query) else {
        let why = "you must specify at least 1 of stdin, stdout, stderr";
        return response::text(StatusCode::BAD_REQUEST, why);
    };
    let speech = match SessionProtocol::negotiate(request.headers()) {
        Ok(speech) => speech,
        Err(refusal) => return refusal,
    };
    let kubelet = &server.kubelet;
    let Some(pod) = kubelet.pod_workers.find(asked.namespace, asked.pod) else {
        return response::text(StatusCode::NOT_FOUND, "pod does not exist");
    };
    let id = match running(kubelet, &pod, asked.container).await {
        Ok(Some(id)) => id,
        Ok(None) => {
            let why = format!("container not found ({:?})", asked.container);
            return response::text(StatusCode::INTERNAL_SERVER_ERROR, why);
        }
        Err(why) => return response::text(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()),
    };
    let Some(switching) = speech.switching(request.headers()) else {
        return response::text(StatusCode::BAD_REQUEST, "not a WebSocket handshake");
    };
    let work = asked.work;
    let streams = with_terminal(asked_for, terminal(&pod, asked.container, &work, asked_for));
    let kubelet = kubelet.clone();
    tokio::spawn(async move {
        let upgraded = match idle::upgraded(request, kubelet.session_idle_timeout()).await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(err = %error, "cannot upgrade connection"),
        };
        // A client opens the streams it requested, also if the container has others.
        let Some(client) = speech.client(upgraded, asked_for).await else {
            return tracing::debug!("client did not open its streams in time");
        };
        let begun = begin(&kubelet, id, &work, streams).await;
        remote_command::run(work, streams, begun, client).await;
    });
    switching
}

/// The protocol of a session.
#[derive(Clone, Copy)]
enum SessionProtocol {
    WebSocket(websocket::Protocol),
    Spdy(&'static str),
}

impl SessionProtocol {
    /// The protocol that client and kubelet share, or the error response if there is none.
    fn negotiate(headers: &HeaderMap) -> Result<SessionProtocol, ApiResponse> {
        if websocket::is_upgrade(headers) {
            let agreed = websocket::negotiate(headers).map(SessionProtocol::WebSocket);
            return agreed.ok_or_else(|| websocket::unsupported_protocol(headers));
        }
        if !spdy_session::is_upgrade(headers) {
            return Err(response::text(StatusCode::BAD_REQUEST, "Upgrade request required"));
        }
        let agreed = spdy_session::negotiate(headers, &spdy_session::SESSION).map(SessionProtocol::Spdy);
        agreed.ok_or_else(|| spdy_session::unsupported_protocol(&spdy_session::SESSION))
    }

    fn switching(self, headers: &HeaderMap) -> Option<ApiResponse> {
        match self {
            SessionProtocol::WebSocket(protocol) => protocol.switching(headers),
            SessionProtocol::Spdy(protocol) => Some(spdy_session::switching(protocol)),
        }
    }

    async fn client(self, upgraded: Upgraded, streams: Streams) -> Option<Client> {
        match self {
            SessionProtocol::WebSocket(protocol) => {
                Some(websocket::client(websocket::socket(upgraded).await, protocol, streams))
            }
            SessionProtocol::Spdy(protocol) => {
                spdy_session::client(spdy::serve(upgraded), protocol, streams).await
            }
        }
    }
}

/// The requested streams; `None` if there are none.
fn streams(query: &Query) -> Option<Streams> {
    let is_set = |key: &str| query.get(key) == Some("1");
    let tty = is_set("tty");
    let streams = Streams { stdin: is_set("input"), stdout: is_set("output"), stderr: is_set("error"), tty };
    let streams = with_terminal(streams, tty);
    (streams.stdin || streams.stdout || streams.stderr).then_some(streams)
}

/// The streams with or without a terminal. A terminal has no standard error of its own.
fn with_terminal(streams: Streams, tty: bool) -> Streams {
    Streams { stderr: streams.stderr && !tty, tty, ..streams }
}

/// Returns true if the session has a terminal: when attaching, the container decides.
fn terminal(pod: &Pod, container: &str, work: &Work, streams: Streams) -> bool {
    match work {
        Work::Exec(_) => streams.tty,
        Work::Attach => {
            let mut containers = pod.containers().iter();
            let found = containers.find(|known| known.name == container);
            found.and_then(|container| container.tree.bool_at(&["tty"])).unwrap_or(false)
        }
    }
}

/// The id of a running container.
async fn running(kubelet: &Kubelet, pod: &Pod, container: &str) -> corten_container::Result<Option<String>> {
    let mut labels = labels::of_pod(pod.uid());
    labels.insert(labels::CONTAINER_NAME.to_owned(), container.to_owned());
    let filter =
        ContainerFilter { labels, state: Some(ContainerState::Running), ..ContainerFilter::default() };
    let found = kubelet.containers.runtime.list_containers(&filter).await?;
    Ok(found.into_iter().max_by_key(|container| container.metadata.attempt).map(|container| container.id))
}

async fn begin(
    kubelet: &Arc<Kubelet>,
    container_id: String,
    work: &Work,
    streams: Streams,
) -> corten_container::Result<corten_container::Streaming<corten_container::Session>> {
    let Streams { stdin, stdout, stderr, tty } = streams;
    match work {
        Work::Exec(command) => {
            let command = command.clone();
            kubelet
                .containers
                .runtime
                .exec(&ExecRequest { container_id, command, tty, stdin, stdout, stderr })
                .await
        }
        Work::Attach => {
            kubelet
                .containers
                .runtime
                .attach(&AttachRequest { container_id, tty, stdin, stdout, stderr })
                .await
        }
    }
}
