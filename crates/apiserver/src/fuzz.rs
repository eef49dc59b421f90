//! Entry points of this crate's private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use bytes::Bytes;
use corten_store::{NewValue, Translation};
use http::header::{ACCEPT, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};
use http::{HeaderMap, HeaderValue, Method};

pub use crate::aggregation::fuzz::documents as aggregated_documents;
use crate::authentication::subprotocol;
pub use crate::connect::links::fuzz::page;
use crate::negotiate;
use crate::request::{self, Query};
pub use crate::resource_metrics::fuzz::metrics;
use crate::storage::{StorageMediaType, StoredForms};
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

/// A value of etcd.
///
/// # Panics
///
/// If a value that was read is not written in a form that can be read.
pub fn stored_form(kind: usize, stored: &[u8]) {
    const KEYS: [&str; 8] = [
        "/registry/pods/n/a",
        "/registry/configmaps/n/a",
        "/registry/services/specs/n/a",
        "/registry/minions/a",
        "/registry/ranges/servicenodeports",
        "/registry/apiextensions.k8s.io/customresourcedefinitions/a",
        "/registry/horizontalpodautoscalers/n/a",
        "/registry/example.com/widgets/n/a",
    ];
    let key = KEYS[kind % KEYS.len()];
    for media_type in [StorageMediaType::Protobuf, StorageMediaType::Json] {
        let forms = StoredForms::new(media_type);
        let Ok(loaded) = forms.load(key, &Bytes::copy_from_slice(stored), 7) else { continue };
        let Ok(again) = forms.store(key, &NewValue::from(loaded.to_vec())) else { continue };
        assert!(forms.load(key, &again.into(), 7).is_ok(), "{key}");
    }
}
