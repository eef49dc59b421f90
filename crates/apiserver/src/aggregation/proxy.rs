//! Forwards requests to aggregated API servers, upgrade requests too.
//!
//! The request is authenticated and authorized already. Errors are plain text, as the aggregator of upstream sends them.
//! A redirect is neither followed nor forwarded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use corten_api::Status;
use corten_auth::User;
use futures_util::StreamExt;
use http::header::{HOST, HeaderName, HeaderValue, LOCATION, UPGRADE, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::BodyExt;
use hyper::body::Body;
use tokio::time::Instant;

use super::{Entry, identity};
use crate::body::ResponseBody;
use crate::call::Backend;
use crate::connect::{Failure, ProxyBackend, Sent, remove_hops, streamed};
use crate::in_flight;
use crate::request::RequestInfo;
use crate::respond::{self, Answer};

/// The timeout of discovery requests: clients make one for each group version.
const DISCOVERY: Duration = Duration::from_secs(5);
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// Forwards a request as a user.
pub(crate) async fn forward<B>(
    backend: &Backend,
    entry: &Entry,
    parts: &Parts,
    info: &RequestInfo,
    user: &Arc<User>,
    body: B,
) -> Result<Answer, Status>
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    let target = &entry.target;
    if !target.is_available.load(Ordering::Acquire) || target.is_loop(&parts.headers) {
        return Ok(error(503, "service unavailable"));
    }
    if let Some(why) = target.invalid() {
        return Ok(error(500, why));
    }
    let to = match target.resolve(backend) {
        Ok(to) => to,
        Err(err) => {
            tracing::debug!(
                api_service = target.name,
                err,
                "cannot resolve service of aggregated API server"
            );
            return Ok(error(503, "service unavailable"));
        }
    };
    let mut headers = backend.authentication.without_credentials(&parts.headers);
    if identity::set(&mut headers, user).is_none() {
        return Ok(error(500, "the name of the user cannot be forwarded"));
    }
    target.mark(&mut headers);
    headers.remove(FORWARDED_FOR);
    let path = path_and_query(&info.path, parts.uri.query());
    if parts.method == Method::CONNECT {
        return Ok(error(405, "method not allowed"));
    }
    if is_upgrade(&parts.headers) {
        return Ok(upgrade(entry, parts, headers, to, &path, body).await);
    }
    remove_hops(&mut headers);
    headers.remove(HOST);
    let mut request = Request::builder()
        .method(parts.method.clone())
        .uri(format!("https://{to}{path}"))
        .body(body.map_err(Into::into).boxed_unsync())
        .map_err(|why| Status::bad_request(why.to_string()))?;
    *request.headers_mut() = headers;
    let until = deadline(info, backend.limits.request_timeout).map(|limit| Instant::now() + limit);
    let sent = target.send(request, to);
    let response = match until {
        None => sent.await,
        Some(until) => match tokio::time::timeout_at(until, sent).await {
            Ok(response) => response,
            Err(_) if is_discovery(info) => Err("context deadline exceeded".to_owned()),
            Err(_) => return Err(Status::timeout("request did not complete within the allotted timeout", 0)),
        },
    };
    let response = match response {
        Ok(response) => response,
        Err(why) => return Ok(error(503, &format!("error trying to reach service: {why}"))),
    };
    let (mut parts, body) = response.into_parts();
    if parts.status == StatusCode::SWITCHING_PROTOCOLS {
        return Ok(error(
            503,
            "error trying to reach service: backend switched protocols without being asked to",
        ));
    }
    if is_redirect(parts.status, &parts.headers) {
        return Ok(refused_redirect());
    }
    remove_hops(&mut parts.headers);
    Ok(http::Response::from_parts(parts, until_deadline(streamed(body), until)))
}

/// Joins the client's connection with one to the aggregated server.
async fn upgrade<B>(
    entry: &Entry,
    parts: &Parts,
    mut headers: HeaderMap,
    to: SocketAddr,
    path: &str,
    body: B,
) -> Answer
where
    B: Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Failure>,
{
    if let Ok(host) = HeaderValue::from_str(&to.to_string()) {
        headers.insert(HOST, host);
    }
    let tls = match entry.target.sessions() {
        Ok(tls) => tls,
        Err(why) => return error(500, &why),
    };
    let host = entry.target.host();
    let backend = ProxyBackend { host, port: to.port(), resolved: vec![to], tls: Some(tls) };
    let sent = Sent::new(parts, &headers, body.map_err(Into::into));
    match sent.send_to(&backend, path).await {
        Err(why) => error(503, &why),
        // A server that neither upgrades nor fails: a redirect among others.
        Ok(answer)
            if answer.status() != StatusCode::SWITCHING_PROTOCOLS && answer.status().as_u16() < 400 =>
        {
            error(503, &format!("invalid upgrade response: status code {}", answer.status().as_u16()))
        }
        Ok(answer) => answer,
    }
}

fn is_upgrade(headers: &HeaderMap) -> bool {
    let connection = headers.get_all(http::header::CONNECTION).iter().filter_map(|value| value.to_str().ok());
    headers.contains_key(UPGRADE)
        && connection.into_iter().any(|v| v.to_ascii_lowercase().contains("upgrade"))
}

/// True for `/apis/GROUP/VERSION`.
fn is_discovery(info: &RequestInfo) -> bool {
    info.resource.is_none() && info.path.trim_matches('/').split('/').count() == 3
}

/// The time for a whole request; `None` for long-running ones.
fn deadline(info: &RequestInfo, most: Duration) -> Option<Duration> {
    match (in_flight::is_long_running(info), is_discovery(info)) {
        (true, _) => None,
        (false, true) => Some(DISCOVERY),
        (false, false) => Some(most),
    }
}

/// A body that ends at the deadline: a server that never ends its response must not hold a client's request.
fn until_deadline(body: ResponseBody, until: Option<Instant>) -> ResponseBody {
    match (body, until) {
        (ResponseBody::Stream(stream), Some(until)) => {
            ResponseBody::Stream(stream.take_until(tokio::time::sleep_until(until)).boxed())
        }
        (body, _) => body,
    }
}

fn is_redirect(code: StatusCode, headers: &HeaderMap) -> bool {
    code.is_redirection() && headers.contains_key(LOCATION)
}

fn refused_redirect() -> Answer {
    respond::text(502, "the backend attempted to redirect this request, which is not permitted")
}

/// An error as Go's `http.Error` writes it.
fn error(code: u16, message: &str) -> Answer {
    let mut answer = respond::text(code, format!("{message}\n"));
    answer.headers_mut().insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    answer
}

/// The path that was authorized, encoded again, with the query.
fn path_and_query(path: &str, query: Option<&str>) -> String {
    let path = encoded_path(path);
    match query {
        Some(query) => format!("{path}?{query}"),
        None => path,
    }
}

/// A path, percent-encoded.
pub(crate) fn encoded_path(path: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~/$&+,:;=@!'()*".contains(&byte);
    let mut out: String = String::with_capacity(path.len());
    for byte in path.bytes() {
        match is_plain(byte) {
            true => out.push(char::from(byte)),
            false => out.push_str(&format!("%{byte:02X}")),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_authorized_path_is_forwarded() {
        for (path, query, expected) in [
            ("/apis/g/v1/things/a:b", None, "/apis/g/v1/things/a:b"),
            ("/apis/g/v1/things/a b%", Some("watch=1"), "/apis/g/v1/things/a%20b%25?watch=1"),
            ("/apis/g/v1/things/ä?x#y", None, "/apis/g/v1/things/%C3%A4%3Fx%23y"),
        ] {
            assert_eq!(path_and_query(path, query), expected);
        }
    }

    #[test]
    fn deadlines() {
        let most = Duration::from_secs(60);
        for (path, watch, expected) in [
            ("/apis/g/v1", false, Some(DISCOVERY)),
            ("/apis/g/v1/", false, Some(DISCOVERY)),
            ("/apis/g/v1/things", false, Some(most)),
            ("/apis/g/v1/things", true, None),
        ] {
            let info = crate::request::parse(&Method::GET, path, watch).unwrap();
            assert_eq!(deadline(&info, most), expected, "{path} {watch}");
        }
    }
}
