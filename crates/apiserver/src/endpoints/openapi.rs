//! `/openapi/v2` and `/openapi/v3`: documents made when asked for and not kept.

use corten_api::Status;
use corten_api::openapi::{Descriptions, OpenApi};
use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue, LOCATION};

use super::tagged;
use crate::Server;
use crate::body::ResponseBody;
use crate::request::Query;
use crate::respond::{self, Answer};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V2_PROTOBUF_DOTTED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";

/// The prose of upstream's types, inflated one group at a time.
#[derive(Default)]
struct Prose(std::cell::RefCell<Option<(String, corten_descriptions::GroupDescriptions)>>);

impl Prose {
    fn look<T>(
        &self,
        type_name: &str,
        find: impl Fn(&corten_descriptions::GroupDescriptions) -> Option<T>,
    ) -> Option<T> {
        let group = corten_descriptions::group_of(type_name)?;
        let mut loaded = self.0.borrow_mut();
        if loaded.as_ref().is_none_or(|(name, _)| name != group) {
            *loaded = Some((group.to_owned(), corten_descriptions::of_group(group)));
        }
        loaded.as_ref().and_then(|(_, descriptions)| find(descriptions))
    }
}

impl Descriptions for Prose {
    fn of_type(&self, openapi_name: &str) -> Option<String> {
        self.look(openapi_name, |d| d.of_type(openapi_name).map(str::to_owned))
    }

    fn of_field(&self, openapi_name: &str, field: &str) -> Option<String> {
        self.look(openapi_name, |d| d.of_field(openapi_name, field).map(str::to_owned))
    }
}

pub(super) fn answer(
    server: &Server,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    let prose = Prose::default();
    let documents = OpenApi {
        served: server.backend.catalog.resources(),
        version: crate::version::GIT_VERSION,
        descriptions: &prose,
    };
    let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    if accept.split(',').all(|clause| !is_served(clause)) {
        return Ok(empty(http::StatusCode::NOT_ACCEPTABLE));
    }
    match path {
        "/openapi/v2" => Ok(v2(&documents, headers)),
        "/openapi/v3" => Ok(respond::bytes(200, "text/plain; charset=utf-8", documents.v3_index())),
        _ => {
            let name = path.strip_prefix("/openapi/v3/").ok_or_else(Status::unknown_path)?;
            v3(&documents, name, query, headers)
        }
    }
}

fn is_served(clause: &str) -> bool {
    let media_type = clause.split(';').next().unwrap_or_default().trim();
    let known = ["", "*/*", "application/*", "application/json", V2_PROTOBUF, V2_PROTOBUF_DOTTED];
    known.contains(&media_type) || media_type.starts_with("application/com.github.proto-openapi.spec.v3")
}

fn empty(status: http::StatusCode) -> Answer {
    let mut answer = http::Response::new(ResponseBody::Empty);
    *answer.status_mut() = status;
    answer
}

fn v2(documents: &OpenApi<'_>, headers: &HeaderMap) -> Answer {
    let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).unwrap_or_default();
    let protobuf = accept.contains(V2_PROTOBUF) || accept.contains(V2_PROTOBUF_DOTTED);
    let etag = format!("\"{}\"", documents.v2_hash());
    tagged(headers, &etag, || match protobuf {
        true => respond::bytes(200, V2_PROTOBUF_DOTTED, documents.v2_protobuf()),
        false => respond::bytes(200, "application/json", documents.v2_json()),
    })
}

fn v3(documents: &OpenApi<'_>, name: &str, query: &Query, headers: &HeaderMap) -> Result<Answer, Status> {
    let Some(hash) = documents.v3_hash(name) else { return Ok(empty(http::StatusCode::NOT_FOUND)) };
    if let Some(asked) = query.get("hash")
        && asked != hash
    {
        let mut answer = empty(http::StatusCode::MOVED_PERMANENTLY);
        if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{name}?hash={hash}")) {
            answer.headers_mut().insert(LOCATION, location);
        }
        return Ok(answer);
    }
    let body = documents.v3_document(name).ok_or_else(Status::unknown_path)?;
    let etag = format!("\"{hash}\"");
    let mut answer = tagged(headers, &etag, || respond::bytes(200, "application/json", body));
    let caching = if query.get("hash").is_some() { "public, immutable" } else { "no-cache, private" };
    answer.headers_mut().insert(http::header::CACHE_CONTROL, HeaderValue::from_static(caching));
    if query.get("hash").is_some() {
        let in_a_year = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(365 * 24);
        let expires = in_a_year.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(expires) = HeaderValue::from_str(&expires) {
            answer.headers_mut().insert(http::header::EXPIRES, expires);
        }
    }
    Ok(answer)
}
