//! A client's connection to one of several endpoints.
//!
//! A connection is opened by the first call that needs one, and replaced by the next call after it broke. A connection that
//! cannot be opened is tried at the next endpoint. A request that never reached a server is sent once more; others are the
//! caller's to repeat, because only it knows whether that is safe.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use http::uri::PathAndQuery;
use http::{Request, Uri};
use hyper::body::Incoming;
use hyper::client::conn::http2::SendRequest;
use tokio::sync::Mutex;

use crate::body::Body;
pub use crate::connect::{InvalidEndpoint, KeepAlive};
use crate::{Endpoint, Status};

/// The settings of a channel.
#[derive(Clone, Debug)]
pub struct ChannelOptions {
    pub user_agent: &'static str,
    /// The time that a connection to one endpoint may take, with its handshakes.
    pub connect_timeout: Duration,
    pub keep_alive: Option<KeepAlive>,
    /// The name in the servers' certificates, if it is not their host.
    pub server_name: Option<String>,
}

impl Default for ChannelOptions {
    fn default() -> ChannelOptions {
        ChannelOptions {
            user_agent: concat!("corten/", env!("CARGO_PKG_VERSION")),
            connect_timeout: Duration::from_secs(5),
            keep_alive: None,
            server_name: None,
        }
    }
}

/// A client of one service, on one or more equal endpoints. Clones share the connection.
#[derive(Clone, Debug)]
pub struct Channel {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    endpoints: Vec<Endpoint>,
    options: ChannelOptions,
    state: Mutex<State>,
    /// Rounds of attempts in which no endpoint could be reached.
    failed_rounds: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    connection: Option<Connection>,
    /// The endpoint of the connection, or the next one to try.
    endpoint: usize,
    failure: Option<Status>,
}

#[derive(Clone, Debug)]
struct Connection {
    sender: SendRequest<Body>,
    origin: Uri,
}

impl Channel {
    pub fn new(endpoints: Vec<Endpoint>, options: ChannelOptions) -> Channel {
        let shared = Shared { endpoints, options, state: Mutex::default(), failed_rounds: AtomicU64::new(0) };
        Channel { shared: Arc::new(shared) }
    }

    pub(crate) fn options(&self) -> &ChannelOptions {
        &self.shared.options
    }

    /// Opens a connection unless there is one; tries every endpoint once.
    pub async fn connect(&self) -> Result<(), Status> {
        self.connection().await.map(|_| ())
    }

    /// Uses the next endpoint from the next call on. Calls on the old connection go on.
    pub async fn fail_over(&self) {
        let mut state = self.shared.state.lock().await;
        state.connection = None;
        state.endpoint = (state.endpoint + 1) % self.shared.endpoints.len().max(1);
    }

    /// Sends a request. The response's body may go on long after.
    pub(crate) async fn send(
        &self,
        mut request: Request<Body>,
        path: PathAndQuery,
    ) -> Result<http::Response<Incoming>, Status> {
        let mut repeated = false;
        loop {
            let mut connection = self.connection().await?;
            let mut uri = connection.origin.into_parts();
            uri.path_and_query = Some(path.clone());
            *request.uri_mut() =
                Uri::from_parts(uri).map_err(|error| Status::internal(format!("invalid URI: {error}")))?;
            match connection.sender.try_send_request(request).await {
                Ok(response) => return Ok(response),
                Err(mut error) => match error.take_message() {
                    // The connection ended before it took the request.
                    Some(unsent) if !repeated => {
                        repeated = true;
                        request = unsent;
                    }
                    _ => return Err(Status::transport("cannot send the request", error.error())),
                },
            }
        }
    }

    async fn connection(&self) -> Result<Connection, Status> {
        let Shared { endpoints, options, state, failed_rounds } = &*self.shared;
        let rounds_before = failed_rounds.load(Ordering::Acquire);
        let mut state = state.lock().await;
        if let Some(connection) = state.connection.as_ref().filter(|open| !open.sender.is_closed()) {
            return Ok(connection.clone());
        }
        state.connection = None;
        // Calls that waited for an attempt share its failure, so that many calls are not as many attempts.
        if let Some(failure) = &state.failure
            && failed_rounds.load(Ordering::Acquire) > rounds_before
        {
            return Err(failure.clone());
        }
        let mut failure = Status::unavailable("no endpoints");
        for _ in 0..endpoints.len() {
            let endpoint = &endpoints[state.endpoint];
            match endpoint.connect(options).await {
                Ok(sender) => {
                    let origin = endpoint.origin().parse();
                    let origin = origin.map_err(|error| Status::internal(format!("invalid URI: {error}")))?;
                    let connection = Connection { sender, origin };
                    state.connection = Some(connection.clone());
                    return Ok(connection);
                }
                Err(status) => failure = status,
            }
            state.endpoint = (state.endpoint + 1) % endpoints.len();
        }
        state.failure = Some(failure.clone());
        failed_rounds.fetch_add(1, Ordering::AcqRel);
        Err(failure)
    }
}
