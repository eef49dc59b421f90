//! Passes requests and answers on, and joins two connections that were upgraded.

use bytes::Bytes;
use corten_api::Status;
use futures_util::StreamExt;
use http::header::{CONNECTION, HOST, HeaderName, HeaderValue, TE, TRAILER, TRANSFER_ENCODING, UPGRADE};
use http::request::Parts;
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, BodyStream, Empty};
use hyper::body::{Body, Incoming};
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::backend::{Backend, Failure, Outgoing};
use crate::body::ResponseBody;
use crate::respond::Answer;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");

/// A request that is to be passed on.
pub(super) struct Sent {
    method: Method,
    headers: HeaderMap,
    body: Outgoing,
    upgrade: Option<OnUpgrade>,
    pub(super) uri: Uri,
}

impl Sent {
    pub(super) fn new(
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

    /// A session: nothing but the upgrade is passed on.
    pub(super) fn session(parts: &Parts, headers: &HeaderMap) -> Sent {
        Sent::new(parts, headers, Empty::new().map_err(|never| match never {}))
    }

    pub(super) fn is_upgrade(&self) -> bool {
        self.upgrade.is_some()
    }

    pub(super) fn method(&self) -> &Method {
        &self.method
    }

    /// Whom the client asked.
    pub(super) fn host(&self) -> &str {
        self.headers.get(HOST).and_then(|host| host.to_str().ok()).unwrap_or_default()
    }

    /// Says something that the client did not.
    pub(super) fn say(&mut self, name: HeaderName, value: Option<HeaderValue>) {
        if let Some(value) = value {
            self.headers.insert(name, value);
        }
    }

    /// Sends it to whoever answers, as a request for another path.
    pub(super) async fn to(self, backend: &Backend, path: &str) -> Result<Answer, String> {
        let mut request = Request::new(self.body);
        *request.method_mut() = self.method;
        *request.uri_mut() = path.parse().map_err(|_| format!("invalid path {path:?}"))?;
        *request.headers_mut() = self.headers;
        let answer = backend.send(request).await?;
        Ok(match self.upgrade {
            Some(upgrade) if answer.status() == StatusCode::SWITCHING_PROTOCOLS => joined(upgrade, answer),
            _ => passed(answer),
        })
    }
}

/// Connections' own headers are nobody else's.
fn remove_hops(headers: &mut HeaderMap) {
    for name in [CONNECTION, KEEP_ALIVE, TE, TRAILER, TRANSFER_ENCODING, UPGRADE] {
        headers.remove(name);
    }
}

/// An answer as it came.
fn passed(answer: Response<Incoming>) -> Answer {
    let (mut parts, body) = answer.into_parts();
    remove_hops(&mut parts.headers);
    Response::from_parts(parts, streamed(body))
}

/// A body as it comes. One that breaks off ends.
pub(super) fn streamed(body: Incoming) -> ResponseBody {
    let frames = BodyStream::new(body).take_while(|frame| std::future::ready(frame.is_ok()));
    let data = |frame: hyper::body::Frame<Bytes>| frame.into_data().ok();
    let bytes = frames.filter_map(move |frame| std::future::ready(frame.ok().and_then(data)));
    ResponseBody::Stream(bytes.boxed())
}

/// Says that the protocol is switched, and lets both ends speak once it is.
fn joined(client: OnUpgrade, answer: Response<Incoming>) -> Answer {
    let (parts, body) = answer.into_parts();
    let server = hyper::upgrade::on(Response::from_parts(parts.clone(), body));
    tokio::spawn(async move {
        let (client, server) = match tokio::try_join!(client, server) {
            Ok(both) => both,
            Err(error) => return tracing::debug!(%error, "a session could not be upgraded"),
        };
        let (mut client, mut server) = (TokioIo::new(client), TokioIo::new(server));
        // However a session ends, it has ended.
        let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
    });
    let mut switched = Response::new(ResponseBody::Empty);
    *switched.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    *switched.headers_mut() = parts.headers;
    switched
}

/// What a session's client hears that asked for none.
pub(super) fn not_upgraded() -> Status {
    Status::bad_request("Upgrade request required")
}
