//! The entry point of the fuzz target for documents of aggregated API servers.

use std::sync::Arc;

use corten_api::openapi::{Format, NoDescriptions, OpenApi, V2Stream};
use corten_api::{Value, json};

use super::openapi::{Spec, merge, own_hash};
use super::{discovery, watch};

/// A document that may be discovery, an index, an OpenAPI document or a watch event.
pub fn documents(body: &[u8]) {
    let _ = discovery::in_aggregated(body, "g", "v1");
    let _ = discovery::in_resource_list(body);
    let _ = own_hash(body, "apis/g/v1");
    let _ = watch::event(body);
    let Ok(spec) = Spec::parse(body, "/apis/g/v1/") else { return };
    let spec = Arc::new(spec);
    let merged = merge(Value::object(), &[spec.clone(), spec], String::new());
    let documents = OpenApi {
        served: &[],
        version: "1.37",
        descriptions: &NoDescriptions,
        custom: &[],
        foreign: Some(&merged),
    };
    for format in [Format::Json, Format::Protobuf] {
        let mut stream = V2Stream::new(&documents, format);
        let written: Vec<u8> = std::iter::from_fn(|| stream.next_piece(&documents)).flatten().collect();
        assert!(format != Format::Json || json::parse(&written).is_ok());
    }
}
