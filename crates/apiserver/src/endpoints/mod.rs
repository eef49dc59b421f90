//! Everything that is not a resource: discovery, OpenAPI, health, metrics, version.

mod discovery;
mod health;
mod openapi;

use corten_api::Status;
use http::header::{CACHE_CONTROL, ETAG, HeaderValue, IF_NONE_MATCH, VARY};
use http::{HeaderMap, Method};

pub(crate) use health::Health;

use crate::Server;
use crate::body::ResponseBody;
use crate::negotiate;
use crate::request::Query;
use crate::respond::{self, Answer};

/// Answers a path that names no resource.
pub(crate) fn answer(
    server: &Server,
    method: &Method,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    let trimmed = if path.len() > 1 { path.trim_end_matches('/') } else { path };
    let reads = matches!(*method, Method::GET | Method::HEAD);
    let mut segments = trimmed.split('/').skip(1);
    match segments.next().unwrap_or_default() {
        "healthz" | "livez" | "readyz" => Ok(server.health.answer(trimmed, query)),
        "version" if trimmed == "/version" && reads => {
            Ok(respond::tree(200, &crate::version::info(), pretty_json()))
        }
        "metrics" if trimmed == "/metrics" => {
            let text = server.metrics.render(&server.backend, &server.lanes);
            Ok(respond::bytes(200, "text/plain; version=0.0.4; charset=utf-8", text.into_bytes()))
        }
        "openapi" => openapi::answer(server, trimmed, query, headers),
        "" => discovery::answer(server, trimmed, query, headers),
        "api" | "apis" if reads => discovery::answer(server, trimmed, query, headers),
        "api" | "apis" | "version" if !reads => Err(Status::method_not_allowed()),
        _ => Ok(respond::text(404, "404 page not found\n")),
    }
}

fn pretty_json() -> negotiate::Wanted {
    negotiate::Wanted { format: negotiate::Format::Json, view: negotiate::View::Object, pretty: true }
}

/// A document that clients keep as long as its tag stays the same.
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
