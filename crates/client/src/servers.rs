//! A transport over all API servers of a cluster. Requests go to one server that is ready; if it fails, to the next, without
//! a restart and below everything that uses the client.
//!
//! The order of the servers follows from a hash of the client's name, so that the clients of a cluster spread over its
//! servers and return to theirs when it is back. Servers are named by the operator or learned from the cluster. A learned
//! one must have a certificate of the cluster's CA for its address and for the API server's own name: a kubelet's
//! certificate is not enough.
//!
//! *Invariant:* a write is sent to a second server only if it never left for the first. Reads are repeated.

mod order;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_base::Clock;
use corten_pki::Credentials;
use futures_util::future::{BoxFuture, join_all};
use futures_util::{StreamExt, stream};
use http::{Method, Request, Response};
use parking_lot::RwLock;
use tokio::sync::{Notify, watch};

use crate::remote::{Failure, Liveness, Trust};
use crate::transport::{EventStream, Transport, WatchRequest};
use crate::{Error, Remote, RemoteError};

use order::Place;

/// The most servers that are learned.
const MAX_LEARNED: usize = 32;
/// The periods of health checks: of servers that are ready, and while one is not.
const CHECK_PERIOD: Duration = Duration::from_secs(5);
const RECHECK_PERIOD: Duration = Duration::from_secs(1);
const CHECK_TIMEOUT: Duration = Duration::from_secs(2);

/// The state of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Health {
    Ready,
    /// A request failed since the last check.
    Suspect,
    Down,
}

/// One server.
#[derive(Clone)]
struct Server {
    place: Place,
    remote: Remote,
    health: Arc<watch::Sender<Health>>,
}

#[derive(Clone)]
pub struct Servers(Arc<Inner>);

struct Inner {
    /// The name of the client.
    name: String,
    /// The URLs that the operator gave.
    given: Vec<String>,
    state: RwLock<State>,
    /// Notified when a request fails.
    suspicion: Notify,
}

#[derive(Clone)]
struct State {
    credentials: Credentials,
    learned: Vec<SocketAddr>,
    servers: Vec<Server>,
}

impl Servers {
    /// The servers with these URLs, as the user of the credentials. `name` decides which of them this client prefers.
    pub fn new(given: &[String], credentials: Credentials, name: &str) -> Result<Servers, RemoteError> {
        let given: Vec<String> = given.iter().map(|url| url.trim_end_matches('/').to_owned()).collect();
        let state = State { credentials, learned: Vec::new(), servers: Vec::new() };
        let inner =
            Inner { name: name.to_owned(), given, state: RwLock::new(state), suspicion: Notify::new() };
        let servers = Servers(Arc::new(inner));
        servers.update(|_| {})?;
        Ok(servers)
    }

    /// Replaces the credentials: later requests use the new ones.
    pub fn replace_credentials(&self, credentials: Credentials) -> Result<(), RemoteError> {
        self.update(|state| {
            state.credentials = credentials;
            state.servers.clear();
        })
    }

    /// Replaces the learned servers; an empty list changes nothing. True if the list was another.
    pub fn learn(&self, addresses: &[SocketAddr]) -> Result<bool, RemoteError> {
        let learned = &addresses[..addresses.len().min(MAX_LEARNED)];
        if learned.is_empty() || learned == self.0.state.read().learned {
            return Ok(false);
        }
        self.update(|state| state.learned = learned.to_vec())?;
        Ok(true)
    }

    /// Connects to the servers after a change, which is undone if that fails. Those that stay keep their connections and their
    /// health.
    fn update(&self, change: impl FnOnce(&mut State)) -> Result<(), RemoteError> {
        let mut state = self.0.state.write();
        let known = state.servers.clone();
        let mut next = State::clone(&state);
        change(&mut next);
        let places = order::places(&self.0.given, &next.learned, &self.0.name);
        let liveness = if places.len() > 1 { Liveness::Prompt } else { Liveness::Patient };
        let kept = std::mem::take(&mut next.servers);
        for place in places {
            let same = |server: &&Server| server.place == place && server.remote.liveness() == liveness;
            if let Some(server) = kept.iter().find(same) {
                next.servers.push(server.clone());
                continue;
            }
            let credentials = Credentials { server: place.url.clone(), ..next.credentials.clone() };
            let trust = if place.is_given { Trust::Address } else { Trust::ApiServer };
            let remote = Remote::connect(&credentials, trust, liveness)?;
            let health = known.iter().find(|known| known.place.url == place.url);
            let health = health.map(|known| known.health.clone());
            let health = health.unwrap_or_else(|| Arc::new(watch::Sender::new(Health::Ready)));
            next.servers.push(Server { place, remote, health });
        }
        *state = next;
        Ok(())
    }

    /// The servers in the order in which they are tried.
    fn in_order(&self) -> Vec<Server> {
        let mut servers = self.0.state.read().servers.clone();
        servers.sort_by_key(|server| (*server.health.borrow(), server.place.rank()));
        servers
    }

    /// Checks the servers until this is dropped. A watch of a server that is down ends, if there is another that is ready, so
    /// that it is resumed there.
    pub async fn check(self, clock: Clock) {
        loop {
            let servers = self.in_order();
            let mut period = CHECK_PERIOD;
            // Without another there is no choice.
            if servers.len() > 1 {
                let ready = join_all(servers.iter().map(|server| server.is_ready(&clock))).await;
                let otherwise = if ready.contains(&true) { Health::Down } else { Health::Suspect };
                for (server, is_ready) in servers.iter().zip(&ready) {
                    server.set(if *is_ready { Health::Ready } else { otherwise });
                }
                if ready.contains(&false) {
                    period = RECHECK_PERIOD;
                }
            }
            tokio::select! {
                () = clock.sleep(period) => {}
                () = self.0.suspicion.notified() => {}
            }
        }
    }

    fn suspect(&self, server: &Server) {
        let changed = server.health.send_if_modified(|health| {
            let changed = *health == Health::Ready;
            *health = (*health).max(Health::Suspect);
            changed
        });
        if changed {
            self.0.suspicion.notify_one();
        }
    }

    async fn send(self, request: Request<Bytes>) -> Result<Response<Bytes>, Error> {
        let repeatable = request.method() == Method::GET;
        let mut last = Error::transport("there is no server");
        for server in self.in_order() {
            match server.remote.clone().request(request.clone()).await {
                Ok(response) => return Ok(response),
                Err(failure) => {
                    self.suspect(&server);
                    if !repeatable && !failure.is_unsent() {
                        return Err(failure.into());
                    }
                    last = failure.into();
                }
            }
        }
        Err(last)
    }

    async fn open(self, request: WatchRequest) -> Result<EventStream, Error> {
        let mut last = Error::transport("there is no server");
        for server in self.in_order() {
            match server.remote.clone().open(&request).await {
                Ok(events) => return Ok(self.until_down(server, events)),
                Err(Failure::Refused(error)) => return Err(error),
                Err(failure) => {
                    self.suspect(&server);
                    last = failure.into();
                }
            }
        }
        Err(last)
    }

    /// The events of a watch, which ends with an error when its server goes down.
    fn until_down(self, server: Server, events: EventStream) -> EventStream {
        let health = server.health.subscribe();
        let state = Some((self, server, health, events));
        let watched = stream::unfold(state, |state| async move {
            let (servers, server, mut health, mut events) = state?;
            let event = tokio::select! {
                biased;
                () = goes_down(&mut health) => {
                    let error = Error::transport(format!("{} is not ready", server.place.url));
                    return Some((Err(error), None));
                }
                event = events.next() => event?,
            };
            if let Err(Error::Transport(_)) = &event {
                servers.suspect(&server);
            }
            Some((event, Some((servers, server, health, events))))
        });
        watched.boxed()
    }
}

/// Waits until a server that was not down is.
async fn goes_down(health: &mut watch::Receiver<Health>) {
    // The sender lives as long as the server, which the caller has.
    while health.changed().await.is_ok() {
        if *health.borrow_and_update() == Health::Down {
            return;
        }
    }
}

impl Server {
    async fn is_ready(&self, clock: &Clock) -> bool {
        let Ok(request) = Request::get("/readyz").body(Bytes::new()) else { return false };
        let response = clock.timeout(CHECK_TIMEOUT, self.remote.clone().request(request)).await;
        // A server that refuses to tell is alive.
        matches!(&response, Some(Ok(response)) if !response.status().is_server_error())
    }

    fn set(&self, health: Health) {
        let mut before = health;
        self.health.send_if_modified(|current| {
            before = std::mem::replace(current, health);
            before != health
        });
        let server = &self.place.url;
        match (before == Health::Down, health == Health::Down) {
            (false, true) => tracing::warn!(server, "API server is not ready; using another one"),
            (true, false) => tracing::info!(server, "API server is ready again"),
            _ => {}
        }
    }
}

impl Transport for Servers {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        Box::pin(self.clone().send(request))
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        Box::pin(self.clone().open(request))
    }
}
