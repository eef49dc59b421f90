//! The server's description of itself in OpenAPI: version 3, one document per group and version, and
//! version 2, one document in JSON or in protobuf.
//!
//! Documents are functions of the served resources and the schema table. They are large and rarely asked
//! for, so nothing is kept: each is written item by item straight into bytes, and its hash is derived from
//! what it is made of rather than from the bytes, so that an index costs no document. Texts come from
//! `Descriptions`. What other servers and custom resources add is merged by the server.

mod documents;
mod names;
mod operations;
mod parameters;
mod protobuf;
mod render;
mod schemas;

pub use documents::OpenApi;
pub use names::type_name;

/// The prose of the documents.
pub trait Descriptions {
    /// What a type such as `io.k8s.api.core.v1.Pod` is for.
    fn of_type(&self, openapi_name: &str) -> Option<String>;

    fn of_field(&self, openapi_name: &str, field: &str) -> Option<String>;

    /// Differs when any text does; part of every document's hash.
    fn revision(&self) -> &str {
        ""
    }
}

/// No prose at all.
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

/// Which OpenAPI a piece is written for: they differ in references, defaults and operations.
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
