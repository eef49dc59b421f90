//! Forwards requests and responses, and joins two upgraded connections.

use bytes::Bytes;
use corten_api::Status;
use futures_util::StreamExt;
use http::header::{
    CONNECTION, CONTENT_LENGTH, HOST, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, BodyStream, Empty};
use hyper::body::{Body, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::backend::{Failure, Outgoing, ProxyBackend};
use crate::body::ResponseBody;
use crate::respond::Answer;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// A request to forward.
pub(crate) struct Sent {
    method: Method,
    headers: HeaderMap,
    body: Outgoing,
    upgrade: Option<OnUpgrade>,
    pub(super) uri: Uri,
}

impl Sent {
    pub(crate) fn new(
        parts: &Parts,
        headers: &HeaderMap,
        body: impl Body<Data = Bytes, Error = Failure> + Send + 'static,
    ) -> Sent {
        let mut headers = headers.clone();
        let impersonating: Vec<_> =
            headers.keys().filter(|name| name.as_str().starts_with("impersonate-")).cloned().collect();
        for name in impersonating {
            headers.remove(name);
        }
        // With HTTP/2 the host is part of the URI.
        let host = parts.uri.authority().and_then(|host| host.as_str().parse().ok());
        if let Some(host) = host.filter(|_| !headers.contains_key(HOST)) {
            headers.insert(HOST, host);
        }
        let upgrade = parts.extensions.get::<OnUpgrade>().filter(|_| headers.contains_key(UPGRADE)).cloned();
        if upgrade.is_none() {
            remove_hops(&mut headers);
        }
        let method = parts.method.clone();
        Sent { method, headers, body: body.boxed_unsync(), upgrade, uri: parts.uri.clone() }
    }

    /// A session: only the headers of the upgrade are forwarded.
    pub(super) fn session(parts: &Parts, headers: &HeaderMap) -> Sent {
        Sent::new(parts, headers, Empty::new().map_err(|never| match never {}))
    }

    pub(super) fn is_upgrade(&self) -> bool {
        self.upgrade.is_some()
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// The host that the client requested.
    pub(super) fn host(&self) -> &str {
        self.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
    }

    /// Sets a header that the client did not send.
    pub(super) fn set_header(&mut self, name: HeaderName, value: Option<HeaderValue>) {
        if let Some(value) = value {
            self.headers.insert(name, value);
        }
    }

    /// Sends the request to a backend, with another path.
    pub(crate) async fn send_to(self, backend: &ProxyBackend, path: &str) -> Result<Answer, String> {
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = path.parse().map_err(|_| format!("invalid path {path:?}"))?;
        *request.headers_mut() = self.headers;
        let answer = backend.send(request).await?;
        Ok(match self.upgrade {
            Some(upgrade) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => {
                join_connections(upgrade, answer)
            }
            _ => forward_response(answer),
        })
    }
}

/// Removes hop-by-hop headers, and a length that is not that of the body.
pub(crate) fn remove_hops(headers: &mut HeaderMap) {
    if headers.contains_key(TRANSFER_ENCODING) {
        headers.remove(CONTENT_LENGTH);
    }
    for name in [CONNECTION, KEEP_ALIVE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
}

/// A response without its hop-by-hop headers.
fn forward_response(answer: Response<Incoming>) -> Answer {
    let (mut parts, body) = answer.into_parts();
    remove_hops(&mut parts.headers);
    Response::from_parts(parts, streamed(body))
}

/// A body as a stream, which ends if the connection breaks.
pub(crate) fn streamed(body: Incoming) -> ResponseBody {
    let frames = BodyStream::new(body).take_while(|frame| std::future::ready(frame.is_ok()));
    let data = |frame: hyper::body::Frame<Bytes>| frame.into_data().ok();
    let bytes = frames.filter_map(move |frame| std::future::ready(frame.ok().and_then(data)));
    ResponseBody::Stream(bytes.boxed())
}

/// The response that switches protocols; then bytes are copied in both directions.
fn join_connections(client: OnUpgrade, answer: Response<Incoming>) -> Answer {
    let (parts, body) = answer.into_parts();
    let server = hyper::upgrade::on(Response::from_parts(parts.clone(), body));
    tokio::spawn(async move {
        let (client, server) = match tokio::try_join!(client, server) {
            Ok(both) => both,
            Err(err) => return tracing::debug!(%err, "cannot upgrade session"),
        };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // An error ends the session like an ordinary end.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let mut switched = Response::new(ResponseBody::Empty);
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switched.headers_mut() = parts.headers;
    switched
}

/// The status of a session request without an upgrade.
pub(super) fn not_upgraded() -> Status {
    Status::bad_request("Upgrade request required")
}
