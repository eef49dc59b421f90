//! Discovery at `/`, `/api`, `/apis` and below: groups, versions and resources.

use corten_api::discovery::{self, Document};
use corten_api::resources::Resource;
use corten_api::{Status, Value};
use http::HeaderMap;

use super::tagged;
use crate::negotiate::{self, DiscoveryForms, Format, View};
use crate::request::Query;
use crate::respond::{self, Answer};
use crate::{Server, aggregation};

/// The server's own paths besides those of health, as the root lists them.
const OWN_PATHS: [&str; 10] = [
    "/.well-known/openid-configuration",
    "/flagz",
    "/metrics",
    "/metrics/slis",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/",
    "/openid/v1/jwks",
    "/statusz",
    "/version",
];

pub(super) fn answer(
    server: &Server,
    path: &str,
    query: &Query,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    let mut resources = server.backend.catalog.resources();
    let aggregated = server.backend.aggregation.used();
    if let Some(table) = &aggregated {
        resources.retain(|resource| !table.hides(&resource.group, &resource.version));
    }
    let served: Vec<&Resource> = resources.iter().map(|resource| &**resource).collect();
    let served = served.as_slice();
    let merged = aggregated.as_ref().map(|table| aggregation::discovery(server, table, served));
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let wanted = match segments.as_slice() {
        [""] => negotiate::Wanted { format: Format::Json, view: View::Object, pretty: false },
        steps => {
            let forms = DiscoveryForms {
                aggregated: matches!(steps, ["api" | "apis"]),
                routed: !matches!(steps, ["apis"] | ["apis", _]),
            };
            negotiate::wanted_discovery(headers, query.get("pretty"), forms)?
        }
    };
    let plain = |value: Value| Ok(respond::tree(200, &value, wanted));
    let known = |value: Option<Value>, group: &str| match value {
        Some(value) => plain(value),
        None if server.backend.catalog.has_built_in_group(group) => Err(Status::unknown_path()),
        None => Ok(respond::text(404, "404 page not found\n")),
    };
    match segments.as_slice() {
        [""] => {
            let own = OWN_PATHS.into_iter().map(str::to_owned).chain(server.health.paths());
            let own = own.chain(merged.iter().flat_map(|merged| merged.paths()));
            plain(discovery::root_paths(served, own))
        }
        ["api"] => match wanted.view {
            View::Discovery => Ok(document(headers, &discovery::aggregated_api(served))),
            _ => plain(discovery::api_versions(served, &server.advertised)),
        },
        ["apis"] => match wanted.view {
            View::Discovery => {
                let whole = merged.map(|merged| merged.aggregated());
                let whole = whole.unwrap_or_else(|| discovery::aggregated_apis(served));
                Ok(document(headers, &whole))
            }
            _ => {
                plain(merged.map_or_else(|| discovery::api_group_list(served), |merged| merged.group_list()))
            }
        },
        ["api", version] => known(discovery::api_resource_list(served, "", version), ""),
        ["apis", group] => {
            let found = merged.and_then(|merged| merged.group(group));
            known(found.or_else(|| discovery::api_group(served, group)), group)
        }
        ["apis", group, version] => known(discovery::api_resource_list(served, group, version), group),
        _ => Err(Status::unknown_path()),
    }
}

fn document(headers: &HeaderMap, document: &Document) -> Answer {
    let content_type = discovery::AGGREGATED_CONTENT_TYPE;
    tagged(headers, &document.etag, || respond::bytes(200, content_type, document.body.clone()))
}
