//! OpenID discovery, with which other servers verify service-account tokens: the issuer's configuration and its keys.

use corten_api::{Status, json};
use corten_auth::authentication::discovery::{self, CONFIGURATION_PATH, KEYS_PATH};
use http::header::{ACCEPT, CACHE_CONTROL, HeaderValue};
use http::{HeaderMap, Method};

use crate::Server;
use crate::respond::{self, Answer};

const KEY_SET: &str = "application/jwk-set+json";

/// Handles one of the two paths; an issuer that is not a URL has neither.
pub(super) fn answer(
    server: &Server,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<Answer, Status> {
    let issuer = &server.backend.authentication.issuer;
    if !discovery::is_discoverable(&issuer.name) || !matches!(path, CONFIGURATION_PATH | KEYS_PATH) {
        return Ok(respond::text(404, "404 page not found\n"));
    }
    if *method != Method::GET {
        return Err(Status::method_not_allowed());
    }
    let (content_type, document) = match path {
        KEYS_PATH => (KEY_SET, discovery::key_set(&issuer.keys)),
        _ => {
            let own = || format!("https://{}{KEYS_PATH}", server.advertised);
            let keys_uri = issuer.keys_uri.clone().unwrap_or_else(own);
            ("application/json", discovery::configuration(&issuer.name, &keys_uri, &issuer.keys))
        }
    };
    if !accepts(headers, content_type) {
        return Err(Status::no_representation(&[content_type]));
    }
    let mut answer = respond::bytes(200, content_type, json::write_to_string(&document).into_bytes());
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("public, max-age=3600"));
    Ok(answer)
}

fn accepts(headers: &HeaderMap, content_type: &str) -> bool {
    let Some(accept) = headers.get(ACCEPT).and_then(|value| value.to_str().ok()) else { return true };
    let mut ranges = accept.split(',').filter_map(|range| range.split(';').next()).map(str::trim);
    ranges.any(|range| matches!(range, "" | "*/*" | "application/*") || range == content_type)
}
