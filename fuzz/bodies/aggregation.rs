//! Documents of aggregated API servers: discovery, OpenAPI documents and their index, watch events.

pub(crate) fn check(data: &[u8]) {
    corten_apiserver::fuzz::aggregated_documents(data);
}
