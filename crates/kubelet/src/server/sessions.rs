//! `/exec/{namespace}/{pod}/{container}` and `/attach/…`: finds the container, begins, and switches protocols.

use std::sync::Arc;

use corten_container::{AttachRequest, ContainerFilter, ContainerState, ExecRequest};
use http::{HeaderMap, Request, StatusCode};
use hyper::body::Incoming;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;

use super::Server;
use super::answer::{self, Answer};
use super::query::Query;
use super::session::{self, Client, Streams, Work};
use super::{spdy, spdy_session, websocket};
use crate::machine::Machine;
use crate::names;
use crate::pod::Pod;

/// Which container, and what is to be done in it.
pub(super) struct Asked<'a> {
    pub(super) namespace: &'a str,
    pub(super) pod: &'a str,
    pub(super) container: &'a str,
    pub(super) work: Work,
}

pub(super) async fn answer(
    server: &Server,
    asked: Asked<'_>,
    query: &Query,
    request: Request<Incoming>,
) -> Answer {
    let Some(asked_for) = streams(query) else {
        let why = "you must specify at least 1 of stdin, stdout, stderr";
        return answer::text(StatusCode::BAD_REQUEST, why);
    };
    let speech = match Speech::agree(request.headers()) {
        Ok(speech) => speech,
        Err(refusal) => return refusal,
    };
    let machine = &server.machine;
    let Some(pod) = machine.pods.find(asked.namespace, asked.pod) else {
        return answer::text(StatusCode::NOT_FOUND, "pod does not exist");
    };
    let id = match running(machine, &pod, asked.container).await {
        Ok(Some(id)) => id,
        Ok(None) => {
            let why = format!("container not found ({:?})", asked.container);
            return answer::text(StatusCode::INTERNAL_SERVER_ERROR, why);
        }
        Err(why) => return answer::text(StatusCode::INTERNAL_SERVER_ERROR, why.to_string()),
    };
    let Some(switching) = speech.switching(request.headers()) else {
        return answer::text(StatusCode::BAD_REQUEST, "not a WebSocket handshake");
    };
    let work = asked.work;
    let streams = with_terminal(asked_for, terminal(&pod, asked.container, &work, asked_for));
    let machine = machine.clone();
    tokio::spawn(async move {
        let upgraded = match hyper::upgrade::on(request).await {
            Ok(upgraded) => upgraded,
            Err(error) => return tracing::debug!(%error, "a session could not be upgraded"),
        };
        // A client opens what it asked for, also if the container has something else.
        let Some(client) = speech.client(upgraded, asked_for).await else {
            return tracing::debug!("a client did not open its streams");
        };
        let begun = begin(&machine, id, &work, streams).await;
        session::run(work, streams, begun, client).await;
    });
    switching
}

/// What a client speaks in a session.
#[derive(Clone, Copy)]
enum Speech {
    WebSocket(websocket::Protocol),
    Spdy(&'static str),
}

impl Speech {
    /// What client and kubelet both speak, or what the client hears if there is no such thing.
    fn agree(headers: &HeaderMap) -> Result<Speech, Answer> {
        if websocket::is_asked_for(headers) {
            let agreed = websocket::agree(headers).map(Speech::WebSocket);
            return agreed.ok_or_else(|| websocket::disagreed(headers));
        }
        if !spdy_session::is_asked_for(headers) {
            return Err(answer::text(StatusCode::BAD_REQUEST, "Upgrade request required"));
        }
        let agreed = spdy_session::agree(headers, &spdy_session::SESSION).map(Speech::Spdy);
        agreed.ok_or_else(|| spdy_session::disagreed(&spdy_session::SESSION))
    }

    fn switching(self, headers: &HeaderMap) -> Option<Answer> {
        match self {
            Speech::WebSocket(protocol) => protocol.switching(headers),
            Speech::Spdy(protocol) => Some(spdy_session::switching(protocol)),
        }
    }

    async fn client(self, upgraded: Upgraded, streams: Streams) -> Option<Client> {
        match self {
            Speech::WebSocket(protocol) => {
                Some(websocket::client(websocket::socket(upgraded).await, protocol, streams))
            }
            Speech::Spdy(protocol) => {
                spdy_session::client(spdy::serve(TokioIo::new(upgraded)), protocol, streams).await
            }
        }
    }
}

/// Which streams are asked for; `None` if none.
fn streams(query: &Query) -> Option<Streams> {
    let is_set = |key: &str| query.get(key) == Some("1");
    let tty = is_set("tty");
    let streams = Streams { stdin: is_set("input"), stdout: is_set("output"), stderr: is_set("error"), tty };
    let streams = with_terminal(streams, tty);
    (streams.stdin || streams.stdout || streams.stderr).then_some(streams)
}

/// What is carried if there is a terminal or there is none. A terminal has no standard error of its own.
fn with_terminal(streams: Streams, tty: bool) -> Streams {
    Streams { stderr: streams.stderr && !tty, tty, ..streams }
}

/// Whether there is a terminal: a container that is attached to has one or has none, whatever is asked for.
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

/// The id of a container that runs.
async fn running(machine: &Machine, pod: &Pod, container: &str) -> corten_container::Result<Option<String>> {
    let mut labels = names::of_pod(pod.uid());
    labels.insert(names::CONTAINER_NAME.to_owned(), container.to_owned());
    let filter =
        ContainerFilter { labels, state: Some(ContainerState::Running), ..ContainerFilter::default() };
    let found = machine.runtime.list_containers(&filter).await?;
    Ok(found.into_iter().max_by_key(|container| container.metadata.attempt).map(|container| container.id))
}

async fn begin(
    machine: &Arc<Machine>,
    container_id: String,
    work: &Work,
    streams: Streams,
) -> corten_container::Result<corten_container::Streaming<corten_container::Session>> {
    let Streams { stdin, stdout, stderr, tty } = streams;
    match work {
        Work::Exec(command) => {
            let command = command.clone();
            machine.runtime.exec(&ExecRequest { container_id, command, tty, stdin, stdout, stderr }).await
        }
        Work::Attach => {
            machine.runtime.attach(&AttachRequest { container_id, tty, stdin, stdout, stderr }).await
        }
    }
}
