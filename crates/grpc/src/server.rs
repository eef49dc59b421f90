//! The server: a table of methods, and connections that serve it.
//!
//! Invariants: a handler runs until its deadline at most, and ends when its client cancels the call or the connection
//! breaks; a connection has limits for its streams, header lists and silence.

use std::collections::HashMap;
use std::convert::Infallible;
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Duration;

use http::{Extensions, HeaderMap, HeaderValue, Method, Request, Response, StatusCode, header};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixListener;
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::body::Body;
use crate::connect::{KeepAlive, MAX_HEADERS};
use crate::frame;
use crate::protobuf::Message;
use crate::stream::{CONTENT_TYPE, Receiver, Sender};
use crate::timeout::{self, TIMEOUT};
use crate::{Code, MAX_MESSAGE, Status};

/// The context of a call.
#[derive(Debug)]
pub struct Call {
    pub metadata: HeaderMap,
    /// The end of the client's patience. The router enforces it.
    pub deadline: Option<Instant>,
    /// The values that the listener attached to the connection.
    pub extensions: Extensions,
}

type Responding = Pin<Box<dyn Future<Output = Body> + Send>>;
type Handler = Box<dyn Fn(Call, Incoming, usize) -> Responding + Send + Sync>;

/// Methods by path.
pub struct Router {
    methods: HashMap<&'static str, Handler>,
    max_message: usize,
}

impl Default for Router {
    fn default() -> Router {
        Router { methods: HashMap::new(), max_message: MAX_MESSAGE }
    }
}

impl Router {
    /// Limits the size of requests' messages.
    #[must_use]
    pub fn with_max_message(mut self, bytes: usize) -> Router {
        self.max_message = bytes;
        self
    }

    /// One request, one response.
    #[must_use]
    pub fn unary<A, B, F, Fut>(mut self, method: &'static str, handle: F) -> Router
    where
        A: Message + Send + 'static,
        B: Message + 'static,
        F: Fn(Call, A) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<B, Status>> + Send + 'static,
    {
        self.methods.insert(
            method,
            Box::new(move |call, body, max| {
                let handle = handle.clone();
                Box::pin(async move {
                    let deadline = call.deadline;
                    let answer = async move {
                        let message = first(Receiver::of_request(body, max)).await?;
                        frame::encode(&handle(call, message).await?)
                    };
                    Body::result(until(deadline, answer).await)
                })
            }),
        );
        self
    }

    /// One request, many responses.
    #[must_use]
    pub fn server_streaming<A, B, F, Fut>(self, method: &'static str, handle: F) -> Router
    where
        A: Message + Send + 'static,
        B: Message + 'static,
        F: Fn(Call, A, Sender<B>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Status>> + Send + 'static,
    {
        self.streaming(method, move |call, requests: Receiver<A>, sender| {
            let handle = handle.clone();
            async move {
                let message = first(requests).await?;
                handle(call, message, sender).await
            }
        })
    }

    /// Many requests, many responses.
    #[must_use]
    pub fn streaming<A, B, F, Fut>(mut self, method: &'static str, handle: F) -> Router
    where
        A: Message + Send + 'static,
        B: Message + 'static,
        F: Fn(Call, Receiver<A>, Sender<B>) -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Result<(), Status>> + Send + 'static,
    {
        self.methods.insert(
            method,
            Box::new(move |call, body, max| {
                let (sender, messages) = Sender::new();
                let deadline = call.deadline;
                let handled = handle(call, Receiver::of_request(body, max), sender);
                // A task of its own, so that it reads requests while the client does not read responses.
                let task = tokio::spawn(until(deadline, handled));
                Box::pin(std::future::ready(Body::handled(messages, task)))
            }),
        );
        self
    }

    /// Responds to a request, of HTTP/2.
    pub async fn handle(&self, request: Request<Incoming>) -> Response<Body> {
        let (head, body) = request.into_parts();
        let grpc = head.headers.get(header::CONTENT_TYPE);
        if !grpc.is_some_and(|kind| kind.as_bytes().starts_with(CONTENT_TYPE.as_bytes())) {
            return refused(StatusCode::UNSUPPORTED_MEDIA_TYPE);
        }
        if head.method != Method::POST {
            return refused(StatusCode::METHOD_NOT_ALLOWED);
        }
        let body = match (self.methods.get(head.uri.path()), deadline(&head.headers)) {
            (None, _) => Body::result(Err(self.unknown(head.uri.path()))),
            (_, Err(status)) => Body::result(Err(status)),
            (Some(method), Ok(deadline)) => {
                let call = Call { metadata: head.headers, deadline, extensions: head.extensions };
                method(call, body, self.max_message).await
            }
        };
        let mut response = Response::new(body);
        response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
        response
    }

    /// The paths of all methods.
    pub fn methods(&self) -> impl Iterator<Item = &'static str> {
        self.methods.keys().copied()
    }

    fn unknown(&self, path: &str) -> Status {
        let (service, method) =
            path.strip_prefix('/').and_then(|path| path.rsplit_once('/')).unwrap_or_default();
        let prefix = format!("/{service}/");
        let message = if self.methods.keys().any(|known| known.starts_with(&prefix)) {
            format!("unknown method {method} for service {service}")
        } else {
            format!("unknown service {service}")
        };
        Status::new(Code::Unimplemented, message)
    }
}

fn refused(code: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = code;
    response
}

/// The deadline in a request's headers.
fn deadline(headers: &HeaderMap) -> Result<Option<Instant>, Status> {
    let Some(value) = headers.get(TIMEOUT) else { return Ok(None) };
    let timeout = value.to_str().ok().and_then(timeout::decode);
    let timeout = timeout.ok_or_else(|| Status::internal("malformed grpc-timeout"))?;
    Ok(Instant::now().checked_add(timeout))
}

/// The time in which the only message of a request arrives: its bytes are held until then.
const ARRIVES: Duration = Duration::from_secs(30);

/// The first message of a request.
async fn first<A: Message>(mut requests: Receiver<A>) -> Result<A, Status> {
    let message = timeout_at(Instant::now() + ARRIVES, requests.next()).await;
    let message = message.unwrap_or_else(|_| Err(Status::deadline_exceeded()))?;
    message.ok_or_else(|| Status::internal("the request has no message"))
}

async fn until<T>(
    deadline: Option<Instant>,
    call: impl Future<Output = Result<T, Status>>,
) -> Result<T, Status> {
    match deadline {
        None => call.await,
        Some(deadline) => {
            timeout_at(deadline, call).await.unwrap_or_else(|_| Err(Status::deadline_exceeded()))
        }
    }
}

/// The limits of a server's connection.
#[derive(Clone, Copy, Debug)]
pub struct ServerLimits {
    /// Calls at the same time on one connection.
    pub streams: u32,
    /// Connections at the same time; for [`serve_unix`] alone.
    pub connections: usize,
    /// Pings to a silent client.
    pub keep_alive: KeepAlive,
}

impl Default for ServerLimits {
    fn default() -> ServerLimits {
        let keep_alive = KeepAlive { interval: Duration::from_secs(120), timeout: Duration::from_secs(20) };
        ServerLimits { streams: 1024, connections: 128, keep_alive }
    }
}

impl ServerLimits {
    /// The settings of HTTP/2.
    pub fn http2(&self) -> http2::Builder<TokioExecutor> {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .max_concurrent_streams(self.streams)
            .max_header_list_size(MAX_HEADERS)
            .keep_alive_interval(self.keep_alive.interval)
            .keep_alive_timeout(self.keep_alive.timeout);
        builder
    }
}

/// Serves one connection until its client closes it. After `stop`, calls that have begun are completed. `extensions` are
/// those of every call.
pub async fn serve_connection<I>(
    io: I,
    router: Arc<Router>,
    extensions: Extensions,
    limits: ServerLimits,
    stop: impl Future<Output = ()>,
) where
    I: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = service_fn(move |mut request: Request<Incoming>| {
        let router = Arc::clone(&router);
        request.extensions_mut().extend(extensions.clone());
        async move { Ok::<_, Infallible>(router.handle(request).await) }
    });
    let mut connection = pin!(limits.http2().serve_connection(TokioIo::new(io), service));
    let ended = tokio::select! {
        ended = &mut connection => ended,
        () = stop => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(err) = ended {
        tracing::debug!(%err, "gRPC connection ended");
    }
}

/// The delay after a failed accept. The process is most likely out of descriptors, and open connections need time to end.
const ACCEPT_RETRY: Duration = Duration::from_millis(50);

/// Accepts connections on a Unix socket until the returned future is dropped, which leaves open connections to their
/// clients. The socket's file and its permissions are the caller's.
pub async fn serve_unix(listener: UnixListener, router: Arc<Router>, limits: ServerLimits) {
    let places = Arc::new(Semaphore::new(limits.connections));
    loop {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(err) => {
                tracing::warn!(%err, "accept failed; retrying");
                tokio::time::sleep(ACCEPT_RETRY).await;
                continue;
            }
        };
        let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
            tracing::debug!("too many connections; closing the new one");
            continue;
        };
        let router = Arc::clone(&router);
        tokio::spawn(async move {
            let forever = std::future::pending();
            serve_connection(stream, router, Extensions::new(), limits, forever).await;
            drop(place);
        });
    }
}
