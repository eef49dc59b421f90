//! Whole documents, put together piece by piece, and their hashes.
//!
//! At most one path or one definition is in memory as a tree at any time. Version 2 is collected through
//! `Sink`, of which there is one for JSON and one for protobuf.

use std::collections::BTreeMap;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::operations::{self, Body, Content, PathItem};
use super::parameters::Parameter;
use super::protobuf::ProtobufSink;
use super::schemas::{self, Definition, Schemas};
use super::{Descriptions, Dialect, render};
use crate::discovery;
use crate::resources::{Resource, api_version};
use crate::schema::{self, StructRef};
use crate::{Value, json, value};

/// Documents outside the groups.
const ROOTS: &[&str] = &[".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

/// Part of every hash: to be raised when the same table comes to be written differently.
const FORMAT: u32 = 1;

/// Everything a description of the server is made of.
#[derive(Clone, Copy)]
pub struct OpenApi<'a> {
    /// In order of priority.
    pub served: &'a [&'a Resource],
    /// The server's version, `v1.37.0`.
    pub version: &'a str,
    pub descriptions: &'a dyn Descriptions,
}

/// Takes version 2 in pieces; every piece of one kind comes before the next kind.
pub(super) trait Sink {
    fn path(&mut self, path: &str, item: &Value);
    fn definition(&mut self, name: &str, schema: &Value);
    fn parameter(&mut self, name: &str, parameter: &Value);
}

impl OpenApi<'_> {
    /// `/openapi/v3`: where each document is, with its hash.
    pub fn v3_index(&self) -> Vec<u8> {
        let paths: crate::Map = self
            .v3_paths()
            .into_iter()
            .map(|path| {
                let url = format!("/openapi/v3/{path}?hash={}", self.hash_of(&path));
                (path.into(), value!({"serverRelativeURL": url}))
            })
            .collect();
        let mut out = Vec::new();
        json::write(&mut out, &value!({"paths": paths}));
        out
    }

    /// What version 3 has documents for: `api/v1`, `apis/apps`, `version`.
    pub fn v3_paths(&self) -> Vec<String> {
        let mut paths: Vec<String> = ROOTS.iter().map(|root| (*root).to_owned()).collect();
        for (group, versions) in discovery::groups(self.served) {
            let root = if group.is_empty() { "api".to_owned() } else { format!("apis/{group}") };
            paths.extend(versions.iter().map(|version| format!("{root}/{version}")));
            if !group.is_empty() {
                paths.push(root);
            }
        }
        paths.sort();
        paths
    }

    /// The hash of a version 3 document, which is also its entity tag; `None` if there is no such document.
    pub fn v3_hash(&self, path: &str) -> Option<String> {
        self.v3_paths().iter().any(|known| known == path).then(|| self.hash_of(path))
    }

    /// The hash of the version 2 document, in either format.
    pub fn v2_hash(&self) -> String {
        self.hash_of("")
    }

    /// Over everything that the document is made of. A document shows types of many groups, so that all
    /// of the table counts; of the resources, those it shows.
    fn hash_of(&self, path: &str) -> String {
        let mut digest = Sha256::new();
        digest.update(FORMAT.to_le_bytes());
        digest.update(schema::fingerprint());
        for part in [self.version, self.descriptions.revision(), path] {
            digest.update(part);
            digest.update([0]);
        }
        for resource in self.served.iter().filter(|r| path.is_empty() || document_of(r) == path) {
            digest.update(format!("{resource:?}"));
        }
        format!("{:X}", Bytes::copy_from_slice(&digest.finalize()))
    }

    /// The version 3 document at `/openapi/v3/{path}`.
    pub fn v3_document(&self, path: &str) -> Option<Vec<u8>> {
        let items = self.v3_items(path)?;
        let own: Vec<(&str, &str)> = self
            .served
            .iter()
            .filter(|r| document_of(r) == path)
            .take(1)
            .map(|r| (r.group, r.version))
            .collect();
        let mut out = Vec::new();
        out.extend_from_slice(b"{\"openapi\":\"3.0.0\",\"info\":");
        json::write(&mut out, &self.info());
        out.extend_from_slice(b",\"components\":{\"schemas\":");
        let schemas = Schemas { dialect: Dialect::V3, descriptions: self.descriptions, versions: &own };
        object(&mut out, definitions(&items).iter(), |(name, definition)| {
            (name.clone(), schemas.definition(name, definition))
        });
        out.extend_from_slice(b",\"securitySchemes\":");
        json::write(&mut out, &security_schemes());
        out.extend_from_slice(b"},\"paths\":");
        object(&mut out, items.iter(), |item| (item.path.clone(), render::path_item(item, Dialect::V3)));
        out.push(b'}');
        Some(out)
    }

    fn v3_items(&self, path: &str) -> Option<Vec<PathItem>> {
        if ROOTS.contains(&path) {
            return operations::of_root(path).map(|item| vec![item]);
        }
        let groups = discovery::groups(self.served);
        if let Some((group, _)) = groups.iter().find(|(g, _)| path.strip_prefix("apis/") == Some(g)) {
            return operations::of_group(group).map(|item| vec![item]);
        }
        let mut resources = self.served.iter().filter(|r| document_of(r) == path).peekable();
        let first = resources.peek()?;
        let mut items: Vec<PathItem> =
            operations::of_version(first.group, first.version).into_iter().collect();
        items.extend(resources.flat_map(|resource| operations::of_resource(resource)));
        items.sort_by(|a, b| a.path.cmp(&b.path));
        Some(items)
    }

    /// The version 2 document, as JSON.
    pub fn v2_json(&self) -> Vec<u8> {
        let mut sink = JsonSink { out: Vec::new(), section: None };
        sink.out.extend_from_slice(b"{\"swagger\":\"2.0\",\"info\":");
        json::write(&mut sink.out, &self.info());
        self.write_v2(&mut sink);
        sink.end_section();
        sink.out.extend_from_slice(b",\"securityDefinitions\":");
        json::write(&mut sink.out, &security_schemes());
        sink.out.extend_from_slice(b",\"security\":[{\"BearerToken\":[]}]}");
        sink.out
    }

    /// The version 2 document, as the protobuf message that older clients ask for.
    pub fn v2_protobuf(&self) -> Vec<u8> {
        let mut sink = ProtobufSink::new(&self.info(), &security_schemes());
        self.write_v2(&mut sink);
        sink.finish()
    }

    fn write_v2(&self, sink: &mut dyn Sink) {
        let mut reached = BTreeMap::new();
        let mut shared: BTreeMap<String, Parameter> = BTreeMap::new();
        for document in self.v3_paths() {
            for item in self.v3_items(&document).unwrap_or_default() {
                sink.path(&item.path, &render::path_item(&item, Dialect::V2));
                reached.extend(roots(&item));
                let parameters = item.operations.iter().flat_map(|o| &o.parameters).filter(|p| p.shared());
                shared.extend(parameters.map(|parameter| (parameter.shared_name(), *parameter)));
            }
        }
        let versions: Vec<(&str, &str)> = discovery::groups(self.served)
            .into_iter()
            .flat_map(|(group, versions)| versions.into_iter().map(move |version| (group, version)))
            .collect();
        let schemas = Schemas { dialect: Dialect::V2, descriptions: self.descriptions, versions: &versions };
        for (name, definition) in schemas::reachable(reached.into_values()) {
            sink.definition(&name, &schemas.definition(&name, &definition));
        }
        for (name, parameter) in shared {
            sink.parameter(&name, &render::parameter(&parameter, Dialect::V2));
        }
    }

    fn info(&self) -> Value {
        value!({"title": "Kubernetes", "version": (self.version)})
    }
}

/// The version 3 document that shows a resource.
fn document_of(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", api_version(resource.group, resource.version))
}

fn security_schemes() -> Value {
    value!({"BearerToken": {
        "description": "Bearer token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }})
}

/// The types that a path speaks of directly, by package and name.
fn roots(item: &PathItem) -> impl Iterator<Item = ((String, String), StructRef)> {
    item.operations.iter().flat_map(|operation| {
        let body = match &operation.body {
            Body::None => None,
            Body::Required(of) | Body::Optional(of) | Body::Patch(of) => Some(of),
        };
        let content = match &operation.content {
            Content::Text => None,
            Content::Object(of) => Some(of),
        };
        let both = body.into_iter().chain(content);
        both.map(|of| ((of.package.to_string(), of.name.to_string()), of.clone()))
    })
}

fn definitions(items: &[PathItem]) -> BTreeMap<String, Definition> {
    let reached: BTreeMap<_, _> = items.iter().flat_map(roots).collect();
    schemas::reachable(reached.into_values())
}

/// Writes a JSON object whose values are made as they are needed.
fn object<T>(out: &mut Vec<u8>, items: impl Iterator<Item = T>, entry: impl Fn(T) -> (String, Value)) {
    out.push(b'{');
    for (i, item) in items.enumerate() {
        if i > 0 {
            out.push(b',');
        }
        let (key, value) = entry(item);
        json::write_string(out, &key);
        out.push(b':');
        json::write(out, &value);
    }
    out.push(b'}');
}

/// Version 2 as JSON text.
struct JsonSink {
    out: Vec<u8>,
    section: Option<&'static str>,
}

impl JsonSink {
    fn entry(&mut self, section: &'static str, key: &str, value: &Value) {
        if self.section == Some(section) {
            self.out.push(b',');
        } else {
            self.end_section();
            self.section = Some(section);
            self.out.push(b',');
            json::write_string(&mut self.out, section);
            self.out.extend_from_slice(b":{");
        }
        json::write_string(&mut self.out, key);
        self.out.push(b':');
        json::write(&mut self.out, value);
    }

    fn end_section(&mut self) {
        if self.section.take().is_some() {
            self.out.push(b'}');
        }
    }
}

impl Sink for JsonSink {
    fn path(&mut self, path: &str, item: &Value) {
        self.entry("paths", path, item);
    }

    fn definition(&mut self, name: &str, schema: &Value) {
        self.entry("definitions", name, schema);
    }

    fn parameter(&mut self, name: &str, parameter: &Value) {
        self.entry("parameters", name, parameter);
    }
}
