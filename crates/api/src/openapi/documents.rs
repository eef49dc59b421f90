//! Whole documents, put together piece by piece, and their hashes.
//!
//! At most one path or one definition is in memory as a tree at any time. Version 2 is written by `stream`.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest, Sha256};

use super::custom::CustomVersion;
use super::operations::{self, PathItem};
use super::protobuf::ProtobufSinkV3;
use super::schemas::{self, Schemas};
use super::stream::V2Stream;
use super::{Descriptions, Dialect, custom, names, render};
use crate::discovery;
use crate::resources::{Resource, api_version};
use crate::schema::{self, StructRef};
use crate::{Value, json, value};

/// Documents outside the groups.
const ROOTS: &[&str] = &[".well-known/openid-configuration", "api", "apis", "openid/v1/jwks", "version"];

/// Part of every hash: raised when the same table is written differently.
const FORMAT: u32 = 2;

/// The inputs of the server's documents.
#[derive(Clone, Copy)]
pub struct OpenApi<'a> {
    /// In order of priority.
    pub served: &'a [&'a Resource],
    /// The version of the API, `1.37`.
    pub version: &'a str,
    pub descriptions: &'a dyn Descriptions,
    /// In order of group, version and name.
    pub custom: &'a [Arc<CustomVersion>],
    /// The documents of other servers, for version 2.
    pub foreign: Option<&'a Foreign>,
}

/// A version 2 document of other servers, as JSON texts by name. Its names conflict with no own one.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Foreign {
    pub paths: Vec<(String, String)>,
    pub definitions: Vec<(String, String)>,
    pub parameters: Vec<(String, String)>,
    /// Differs whenever a text differs.
    pub hash: String,
}

impl OpenApi<'_> {
    /// `/openapi/v3`: the path of each document, with its hash; and the paths and URLs of documents of other servers.
    pub fn v3_index(&self, foreign: impl Iterator<Item = (String, String)>) -> Vec<u8> {
        let mut custom: BTreeMap<String, Vec<&CustomVersion>> = BTreeMap::new();
        for version in self.custom {
            custom.entry(version.document()).or_default().push(version);
        }
        let entry = |path: String| {
            let shown = custom.get(&path).map(Vec::as_slice).unwrap_or_default();
            let url = format!("/openapi/v3/{path}?hash={}", self.hash_of(&path, shown));
            (path.into(), value!({"serverRelativeURL": url}))
        };
        let foreign = foreign.map(|(path, url)| (path.into(), value!({"serverRelativeURL": url})));
        let paths: crate::Map = self.v3_paths().into_iter().map(entry).chain(foreign).collect();
        let mut out = Vec::new();
        json::write(&mut out, &value!({"paths": paths}));
        out
    }

    /// The paths of the documents of version 3: `api/v1`, `apis/apps`, `version`.
    pub fn v3_paths(&self) -> Vec<String> {
        let mut paths = self.built_in_paths();
        paths.extend(self.custom.iter().map(|version| version.document()));
        paths.sort();
        paths.dedup();
        paths
    }

    pub(super) fn built_in_paths(&self) -> Vec<String> {
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
        let shown = self.custom_in(path);
        let exists = !shown.is_empty() || self.built_in_paths().iter().any(|known| known == path);
        exists.then(|| self.hash_of(path, &shown))
    }

    /// The versions of CRDs that a version 3 document shows.
    fn custom_in(&self, path: &str) -> Vec<&CustomVersion> {
        self.custom.iter().map(|version| &**version).filter(|version| version.is_in(path)).collect()
    }

    /// The hash of the version 2 document, in either format.
    pub fn v2_hash(&self) -> String {
        self.hash_of("", &self.custom.iter().map(|version| &**version).collect::<Vec<_>>())
    }

    /// Over all inputs of the document. A document shows types of many groups, so the whole
    /// table counts; of the resources, those it shows.
    fn hash_of(&self, path: &str, custom: &[&CustomVersion]) -> String {
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
        for version in custom {
            digest.update(format!("{version:?}"));
        }
        if let Some(foreign) = self.foreign.filter(|_| path.is_empty()) {
            digest.update(&foreign.hash);
        }
        format!("{:X}", Bytes::copy_from_slice(&digest.finalize()))
    }

    /// The version 3 document at `/openapi/v3/{path}`.
    pub fn v3_document(&self, path: &str, format: Format) -> Option<Vec<u8>> {
        self.v3_built_in(path, format).or_else(|| self.v3_custom(path, format))
    }

    fn v3_built_in(&self, path: &str, format: Format) -> Option<Vec<u8>> {
        let items = self.v3_items(path)?;
        let resource = self.served.iter().find(|r| document_of(r) == path);
        let own: Vec<(&str, &str)> =
            resource.map(|r| (r.group.as_str(), r.version.as_str())).into_iter().collect();
        let schemas = Schemas { dialect: Dialect::V3, descriptions: self.descriptions, versions: &own };
        let roots: BTreeMap<String, StructRef> = items.iter().flat_map(render::roots).collect();
        let mut sink = format.v3_sink(&self.info());
        for (name, definition) in schemas::reachable(roots.into_values()) {
            sink.schema(&name, &schemas.definition(&name, &definition));
        }
        sink.security(&security_schemes());
        for item in &items {
            sink.path(&item.path, &render::path_item(item, Dialect::V3));
        }
        Some(sink.finish())
    }

    fn v3_custom(&self, path: &str, format: Format) -> Option<Vec<u8>> {
        let versions = self.custom_in(path);
        let mut items: Vec<PathItem> = versions.iter().flat_map(|version| custom::paths(version)).collect();
        if items.is_empty() {
            return None;
        }
        items.sort_by(|a, b| a.path.cmp(&b.path));
        let known = names::client_versions();
        let schemas = Schemas { dialect: Dialect::V3, descriptions: self.descriptions, versions: &known };
        let roots = items.iter().flat_map(render::roots).chain(custom::metadata_types());
        let roots: BTreeMap<String, StructRef> = roots.collect();
        let mut sink = format.v3_sink(&value!({"title": "Kubernetes CRD Swagger", "version": "v0.1.0"}));
        for (name, schema) in
            versions.iter().flat_map(|v| custom::definitions(v, Dialect::V3, self.descriptions))
        {
            sink.schema(&name, &schema);
        }
        for (name, definition) in schemas::reachable(roots.into_values()) {
            sink.schema(&name, &schemas.definition(&name, &definition));
        }
        for item in &items {
            sink.path(&item.path, &render::path_item(item, Dialect::V3));
        }
        Some(sink.finish())
    }

    pub(super) fn v3_items(&self, path: &str) -> Option<Vec<PathItem>> {
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
            operations::of_version(&first.group, &first.version).into_iter().collect();
        items.extend(resources.flat_map(|resource| operations::of_resource(resource)));
        items.sort_by(|a, b| a.path.cmp(&b.path));
        Some(items)
    }

    /// The version 2 document as a whole. Servers write it in pieces (`V2Stream`).
    pub fn v2_document(&self, format: Format) -> Vec<u8> {
        let mut stream = V2Stream::new(self, format);
        std::iter::from_fn(|| stream.next_piece(self)).flatten().collect()
    }

    pub(super) fn info(&self) -> Value {
        value!({"title": "Kubernetes", "version": (self.version)})
    }
}

/// The version 3 document that shows a resource.
fn document_of(resource: &Resource) -> String {
    let root = if resource.group.is_empty() { "api" } else { "apis" };
    format!("{root}/{}", api_version(&resource.group, &resource.version))
}

pub(super) fn security_schemes() -> Value {
    value!({"BearerToken": {
        "description": "Bearer Token authentication",
        "in": "header",
        "name": "authorization",
        "type": "apiKey",
    }})
}

/// The format of a document.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    /// A message of gnostic.
    Protobuf,
}

impl Format {
    fn v3_sink(self, info: &Value) -> Box<dyn V3Sink> {
        match self {
            Format::Json => Box::new(JsonSinkV3::new(info)),
            Format::Protobuf => Box::new(ProtobufSinkV3::new(info)),
        }
    }
}

/// Receives version 3: first schemas, then security schemes if there are any, then paths.
pub(super) trait V3Sink {
    fn schema(&mut self, name: &str, value: &Value);
    fn security(&mut self, schemes: &Value);
    fn path(&mut self, path: &str, item: &Value);
    fn finish(self: Box<Self>) -> Vec<u8>;
}

/// Version 3 as JSON text.
struct JsonSinkV3 {
    schemas: Vec<u8>,
    security: Vec<u8>,
    paths: Vec<u8>,
    head: Vec<u8>,
}

impl JsonSinkV3 {
    fn new(info: &Value) -> Self {
        let mut head = b"{\"openapi\":\"3.0.0\",\"info\":".to_vec();
        json::write(&mut head, info);
        JsonSinkV3 { schemas: Vec::new(), security: Vec::new(), paths: Vec::new(), head }
    }
}

impl V3Sink for JsonSinkV3 {
    fn schema(&mut self, name: &str, value: &Value) {
        member(&mut self.schemas, name, value);
    }

    fn security(&mut self, schemes: &Value) {
        json::write(&mut self.security, schemes);
    }

    fn path(&mut self, path: &str, item: &Value) {
        member(&mut self.paths, path, item);
    }

    fn finish(self: Box<Self>) -> Vec<u8> {
        let mut out = self.head;
        out.extend_from_slice(b",\"components\":{");
        if !self.schemas.is_empty() {
            out.extend_from_slice(b"\"schemas\":{");
            out.extend_from_slice(&self.schemas);
            out.push(b'}');
        }
        if !self.schemas.is_empty() && !self.security.is_empty() {
            out.push(b',');
        }
        if !self.security.is_empty() {
            out.extend_from_slice(b"\"securitySchemes\":");
            out.extend_from_slice(&self.security);
        }
        out.extend_from_slice(b"},\"paths\":{");
        out.extend_from_slice(&self.paths);
        out.extend_from_slice(b"}}");
        out
    }
}

/// Appends a member of an object.
fn member(out: &mut Vec<u8>, key: &str, value: &Value) {
    if !out.is_empty() {
        out.push(b',');
    }
    json::write_string(out, key);
    out.push(b':');
    json::write(out, value);
}
