//! Entry points of this crate's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use http::header::{ACCEPT, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Method};

pub use crate::aggregation::fuzz::documents as aggregated_documents;
use crate::authentication::subprotocol;
pub use crate::connect::links::fuzz::page;
use crate::negotiate;
use crate::request::{self, Query};
pub use crate::resource_metrics::fuzz::metrics;
use crate::verbs::list::decode_continue;

/// A path with a query, and the headers of a request.
pub fn request(path: &str, header: &[u8]) {
    let (path, query) = path.split_once('?').unwrap_or((path, ""));
    let query = Query::parse(Some(query));
    for method in [Method::GET, Method::POST, Method::DELETE] {
        let _ = request::parse(&method, path, query.flag("watch"));
    }
    let _ = (query.int("limit"), query.text("labelSelector"), query.all("fieldManager").count());
    let _ = decode_continue(query.text("continue"), "/registry/pods/");
    let Ok(value) = HeaderValue::from_bytes(header) else { return };
    let headers = HeaderMap::from_iter([
        (ACCEPT, value.clone()),
        (SEC_WEBSOCKET_PROTOCOL, value),
        (UPGRADE, HeaderValue::from_static("websocket")),
        (CONNECTION, HeaderValue::from_static("Upgrade")),
    ]);
    let _ = (
        negotiate::wanted(&headers, None, true, negotiate::Forms::ALL),
        negotiate::wanted_watch(&headers, negotiate::Forms::ALL),
    );
    let _ = subprotocol::token(&headers);
}
