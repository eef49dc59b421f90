//! The non-resource endpoints: discovery, OpenAPI, health, metrics, version.

mod discovery;
mod health;
mod oidc;
mod openapi;
mod status;

use corten_api::Status;
use corten_serving::http::METRICS_CONTENT_TYPE;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Method};

pub(crate) use health::Health;

use crate::Server;
use crate::body::ResponseBody;
use crate::negotiate;
use crate::request::Query;
use crate::respond::{self, Answer};

/// True if the response takes long to build, however short its request is: it is built off the runtime's threads.
pub(crate) fn is_large(path: &str) -> bool {
    path.starts_with("/openapi/")
}

/// True if a path is one of the health checks.
pub(crate) fn is_health(path: &str) -> bool {
    ["/healthz", "/livez", "/readyz"].iter().any(|endpoint| path.starts_with(endpoint))
}

/// Handles a non-resource path.
pub(crate) fn answer(
    server: &Server,
    method: &Method,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    let trimmed = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    let reads = *method == Method::GET;
    let mut segments = trimmed.split('/').skip(1);
    match segments.next().unwrap_or_default() {
        "healthz" | "livez" | "readyz" => Ok(server.health.answer(path, query)),
        "statusz" if path == "/statusz" => Ok(respond::text(200, status::page(server))),
        "flagz" if path == "/flagz" => Ok(respond::text(200, status::flags(server))),
        "version" if trimmed == "/version" && reads => {
            negotiate::require_json(headers)?;
            Ok(respond::tree(200, &crate::version::info(), pretty_json()))
        }
        "metrics" if path == "/metrics/slis" => {
            Ok(respond::bytes(200, METRICS_CONTENT_TYPE, server.health.metrics().into_bytes()))
        }
        "metrics" if path == "/metrics" => {
            let text = server.metrics.render(&server.backend, &server.lanes, &server.encryption);
            Ok(respond::bytes(200, METRICS_CONTENT_TYPE, text.into_bytes()))
        }
        ".well-known" | "openid" => oidc::answer(server, method, trimmed, headers),
        "openapi" => openapi::answer(server, trimmed, query, headers),
        "" => discovery::answer(server, trimmed, query, headers),
        "index.html" if path == "/index.html" => discovery::answer(server, "/", query, headers),
        // As upstream, the list of groups ignores the method.
        "api" | "apis" if reads || (trimmed == "/apis" && *method != Method::HEAD) => {
            discovery::answer(server, trimmed, query, headers)
        }
        "api" | "apis" | "version" if !reads => Err(Status::method_not_allowed()),
        _ => Ok(respond::text(404, "404 page not found\n")),
    }
}

fn pretty_json() -> negotiate::Wanted {
    negotiate::Wanted { format: negotiate::Format::Json, view: negotiate::View::Object, pretty: true }
}

/// A document with an ETag; a 304 if the client has the current one.
fn tagged(headers: &HeaderMap, etag: &str, make: impl FnOnce() -> Answer) -> Answer {
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|v| v.to_str().ok());
    let unchanged = known.flat_map(|v| v.split(',')).any(|tag| tag.trim().trim_start_matches("W/") == etag);
    let mut answer = if unchanged {
        let mut answer = http::Response::new(ResponseBody::Empty);
        *answer.status_mut() = http::StatusCode::NOT_MODIFIED;
        answer
    } else {
        make()
    };
    let answer_headers = answer.headers_mut();
    if let Ok(etag) = HeaderValue::from_str(etag) {
        answer_headers.insert(ETAG, etag);
    }
    answer_headers.insert(VARY, HeaderValue::from_static("Accept"));
    answer_headers.insert(CACHE_CONTROL, HeaderValue::from_static("public"));
    answer
}
