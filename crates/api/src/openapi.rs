//! The server's OpenAPI documents: version 3, one document per group and version, and
//! version 2, one document in JSON or in protobuf.
//!
//! Documents are functions of the served resources and the schema table. They are large and rarely requested,
//! so nothing is cached: each is written item by item into bytes, and its hash is derived from
//! its inputs rather than from the bytes, so that an index needs no document. Texts come from
//! `Descriptions`. Custom resources are described by `CustomVersion`; the server merges the documents of other servers.

mod custom;
mod documents;
mod names;
mod operations;
mod parameters;
mod protobuf;
mod render;
mod schemas;
mod stream;

pub use custom::CustomVersion;
pub use documents::{Foreign, Format, OpenApi};
pub use names::type_name;
pub use stream::V2Stream;

/// The descriptions in the documents.
pub trait Descriptions {
    /// The description of a type such as `io.k8s.api.core.v1.Pod`.
    fn of_type(&self, openapi_name: &str) -> Option<String>;

    fn of_field(&self, openapi_name: &str, field: &str) -> Option<String>;

    /// Differs whenever a text differs; part of every document's hash.
    fn revision(&self) -> &str {
        ""
    }
}

/// No descriptions.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoDescriptions;

impl Descriptions for NoDescriptions {
    fn of_type(&self, _: &str) -> Option<String> {
        None
    }

    fn of_field(&self, _: &str, _: &str) -> Option<String> {
        None
    }
}

/// The OpenAPI version of a piece: they differ in references, defaults and operations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dialect {
    V2,
    V3,
}

impl Dialect {
    fn reference(self, name: &str) -> String {
        match self {
            Dialect::V2 => format!("#/definitions/{name}"),
            Dialect::V3 => format!("#/components/schemas/{name}"),
        }
    }
}

#[cfg(test)]
mod tests;
