//! Discovery at `/`, `/api`, `/apis` and below: groups, versions and resources.

use corten_api::discovery::{self, AggregatedVersion, Document};
use corten_api::resources::Resource;
use corten_api::{Status, Value};
use http::HeaderMap;

use super::{Health, tagged};
use crate::negotiate::{self, View};
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
    let wanted = negotiate::wanted(headers, query.get("pretty"), false, negotiate::Forms::ALL)?;
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let plain = |value: Value| Ok(respond::tree(200, &value, wanted));
    let known = |value: Option<Value>, group: &str| match value {
        Some(value) => plain(value),
        None if server.backend.catalog.has_built_in_group(group) => Err(Status::unknown_path()),
        None => Ok(respond::text(404, "404 page not found\n")),
    };
    match segments.as_slice() {
        [""] => {
            let own = OWN_PATHS.into_iter().map(str::to_owned).chain(Health::paths());
            let own = own.chain(merged.iter().flat_map(|merged| merged.paths()));
            plain(discovery::root_paths(served, own))
        }
        ["api"] => match aggregated_version(wanted.view) {
            Some(version) => Ok(document(headers, version, &discovery::aggregated_api(served, version))),
            None => plain(discovery::api_versions(served, &server.advertised)),
        },
        ["apis"] => match aggregated_version(wanted.view) {
            Some(version) => {
                let whole = merged.map(|merged| merged.aggregated(version));
                let whole = whole.unwrap_or_else(|| discovery::aggregated_apis(served, version));
                Ok(document(headers, version, &whole))
            }
            None => {
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

fn aggregated_version(view: View) -> Option<AggregatedVersion> {
    match view {
        View::Discovery("v2") => Some(AggregatedVersion::V2),
        View::Discovery(_) => Some(AggregatedVersion::V2Beta1),
        _ => None,
    }
}

fn document(headers: &HeaderMap, version: AggregatedVersion, document: &Document) -> Answer {
    tagged(headers, &document.etag, || respond::bytes(200, version.content_type(), document.body.clone()))
}
