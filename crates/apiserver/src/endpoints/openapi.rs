//! `/openapi/v2` and `/openapi/v3`: documents are generated for each request and not cached.

use std::sync::Arc;

use corten_api::Status;
use corten_api::openapi::{CustomVersion, Descriptions, Foreign, Format, OpenApi, V2Stream};
use corten_api::resources::Resource;
use http::HeaderMap;
use http::header::{ACCEPT, HeaderValue, LOCATION};

use super::tagged;
use crate::body::{Pieces, ResponseBody};
use crate::request::Query;
use crate::respond::{self, Answer};
use crate::{Server, aggregation};

const JSON: &str = "application/json";
const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V2_PROTOBUF_DOTTED: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";
const V3_PROTOBUF_DOTTED: &str = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf";

/// The descriptions of upstream's types, decompressed one group at a time.
#[derive(Default)]
struct Prose(std::cell::RefCell<Option<(String, corten_descriptions::GroupDescriptions)>>);

impl Prose {
    fn lookup<T>(
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
        self.lookup(openapi_name, |d| d.of_type(openapi_name).map(str::to_owned))
    }

    fn of_field(&self, openapi_name: &str, field: &str) -> Option<String> {
        self.lookup(openapi_name, |d| d.of_field(openapi_name, field).map(str::to_owned))
    }

    /// Texts may change with each release.
    fn revision(&self) -> &str {
        crate::version::GIT_VERSION
    }
}

/// The state of the server that the documents of one request show.
struct Inputs {
    served: Vec<&'static Resource>,
    custom: Arc<[Arc<CustomVersion>]>,
    /// The version 2 documents of aggregated servers.
    foreign: Option<Arc<Foreign>>,
    descriptions: Prose,
}

impl Inputs {
    fn of(server: &Server) -> Self {
        let catalog = &server.backend.catalog;
        let mut inputs = Inputs {
            served: catalog.built_in().to_vec(),
            custom: catalog.custom_versions(),
            foreign: None,
            descriptions: Prose::default(),
        };
        if let Some(table) = server.backend.aggregation.used() {
            inputs.served.retain(|resource| !table.hides(&resource.group, &resource.version));
            let shown = inputs.custom.iter().filter(|custom| !table.hides(&custom.group, &custom.version));
            inputs.custom = shown.cloned().collect();
        }
        inputs
    }

    fn documents(&self) -> OpenApi<'_> {
        OpenApi {
            served: &self.served,
            version: crate::version::API_VERSION,
            descriptions: &self.descriptions,
            custom: &self.custom,
            foreign: self.foreign.as_deref(),
        }
    }
}

pub(super) fn answer(
    server: &Server,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    let mut inputs = Inputs::of(server);
    if path == "/openapi/v2" {
        inputs.foreign = aggregation::merged(&server.backend.aggregation, &inputs.documents());
    }
    let documents = inputs.documents();
    match path {
        "/openapi/v2" => Ok(v2(inputs, headers)),
        "/openapi/v3" => {
            let table = server.backend.aggregation.used();
            let foreign = table.iter().flat_map(|table| aggregation::index_entries(table));
            Ok(respond::bytes(200, "text/plain; charset=utf-8", documents.v3_index(foreign)))
        }
        _ => {
            let name = path.strip_prefix("/openapi/v3/").ok_or_else(Status::unknown_path)?;
            Ok(v3(&documents, name, query, headers))
        }
    }
}

/// A media type that is served, its format, and the media type of the response.
type Offer = (&'static str, Format, &'static str);

const V2_OFFERS: [Offer; 3] = [
    (JSON, Format::Json, JSON),
    (V2_PROTOBUF_DOTTED, Format::Protobuf, V2_PROTOBUF_DOTTED),
    (V2_PROTOBUF, Format::Protobuf, V2_PROTOBUF_DOTTED),
];
const V3_OFFERS: [Offer; 3] = [
    (JSON, Format::Json, JSON),
    (V3_PROTOBUF_DOTTED, Format::Protobuf, V3_PROTOBUF_DOTTED),
    (V3_PROTOBUF, Format::Protobuf, V3_PROTOBUF_DOTTED),
];

/// The first offer that the client's most wanted acceptable clause matches.
fn choose(headers: &HeaderMap, offers: &[Offer]) -> Option<(Format, &'static str)> {
    let accept = headers.get(ACCEPT).and_then(|v| v.to_str().ok()).filter(|text| !text.is_empty());
    let mut clauses: Vec<(&str, f32)> = accept.unwrap_or("*/*").split(',').map(clause).collect();
    let wildcards = |media_type: &str| media_type.matches('*').count();
    clauses.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| wildcards(a.0).cmp(&wildcards(b.0))));
    let matching = |wanted: &str| {
        let fits = |offer: &&Offer| matches!(wanted, "*/*" | "application/*") || wanted == offer.0;
        offers.iter().find(fits).map(|(_, format, content_type)| (*format, *content_type))
    };
    clauses.iter().find_map(|(wanted, _)| matching(wanted))
}

/// The media type and the weight of a clause.
fn clause(text: &str) -> (&str, f32) {
    let mut parts = text.split(';').map(str::trim);
    let media_type = parts.next().unwrap_or_default();
    let weight = parts.find_map(|parameter| parameter.strip_prefix("q=")?.parse().ok());
    (media_type, weight.unwrap_or(1.0))
}

fn empty(status: http::StatusCode) -> Answer {
    let mut answer = http::Response::new(ResponseBody::Empty);
    *answer.status_mut() = status;
    answer
}

/// Version 2 is made piece by piece while it is sent: with custom resources it may be large.
fn v2(inputs: Inputs, headers: &HeaderMap) -> Answer {
    let Some((format, content_type)) = choose(headers, &V2_OFFERS) else {
        return empty(http::StatusCode::NOT_ACCEPTABLE);
    };
    let etag = format!("\"{}\"", inputs.documents().v2_hash());
    tagged(headers, &etag, || {
        let mut stream = V2Stream::new(&inputs.documents(), format);
        let pieces = Pieces::new(move || stream.next_piece(&inputs.documents()));
        respond::bytes(200, content_type, ResponseBody::Pieces(pieces))
    })
}

fn v3(documents: &OpenApi<'_>, name: &str, query: &Query, headers: &HeaderMap) -> Answer {
    let Some(hash) = documents.v3_hash(name) else { return empty(http::StatusCode::NOT_FOUND) };
    let Some((format, content_type)) = choose(headers, &V3_OFFERS) else {
        return empty(http::StatusCode::NOT_ACCEPTABLE);
    };
    if let Some(asked) = query.get("hash")
        && asked != hash
    {
        let mut answer = empty(http::StatusCode::MOVED_PERMANENTLY);
        if let Ok(location) = HeaderValue::from_str(&format!("/openapi/v3/{name}?hash={hash}")) {
            answer.headers_mut().insert(LOCATION, location);
        }
        return answer;
    }
    let etag = format!("\"{hash}\"");
    // Nothing is made for a client that has it already.
    let mut answer = tagged(headers, &etag, || match documents.v3_document(name, format) {
        Some(body) => respond::bytes(200, content_type, body),
        None => empty(http::StatusCode::NOT_FOUND),
    });
    let caching = if query.get("hash").is_some() { "public, immutable" } else { "no-cache, private" };
    answer.headers_mut().insert(http::header::CACHE_CONTROL, HeaderValue::from_static(caching));
    if query.get("hash").is_some() {
        let in_a_year = jiff::Timestamp::now() + jiff::SignedDuration::from_hours(365 * 24);
        let expires = in_a_year.strftime("%a, %d %b %Y %H:%M:%S GMT").to_string();
        if let Ok(expires) = HeaderValue::from_str(&expires) {
            answer.headers_mut().insert(http::header::EXPIRES, expires);
        }
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_clause_wins() {
        let check = |accept: &str, expected: Option<(Format, &'static str)>| {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_str(accept).unwrap());
            assert_eq!(choose(&headers, &V2_OFFERS), expected, "{accept}");
        };
        let json = Some((Format::Json, JSON));
        let protobuf = Some((Format::Protobuf, V2_PROTOBUF_DOTTED));
        check("", json);
        check("*/*", json);
        check("application/*", json);
        check("application/json", json);
        check(V2_PROTOBUF, protobuf);
        check(&format!("{V2_PROTOBUF_DOTTED}, application/json"), protobuf);
        check(&format!("{V2_PROTOBUF_DOTTED};q=0.5, application/json"), json);
        check(&format!("*/*, {V2_PROTOBUF}"), protobuf);
        check("text/html, */*;q=0.1", json);
        check("text/html", None);
        assert_eq!(choose(&HeaderMap::new(), &V3_OFFERS), json);
    }
}
