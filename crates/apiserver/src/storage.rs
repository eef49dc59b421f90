//! The form of objects in etcd, which upstream's API servers read and write too: protobuf or JSON for built-in kinds, JSON for
//! custom resources. Pure.
//!
//! Stored objects have no resourceVersion. Any stored version is read; the storage version of this server is written, as
//! upstream does. Definitions of custom resources and APIServices are always JSON, and upstream writes definitions in version
//! `v1beta1`.

mod definitions;
mod encrypted;
mod range_allocation;
mod rewritten;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use corten_api::conform::{Extent, conform};
use corten_api::schema::StructRef;
use corten_api::{Value, convert, encoded, json, meta, protobuf, resources};
use corten_registry::{self as registry, Rules};
use corten_store::{NewValue, Revision, Translation};

use crate::crd;

pub use encrypted::EncryptedForms;
pub use rewritten::{is_same_object, rewritten};

const ROOT: &str = "/registry/";
/// The prefix of the records of living servers, and the resource whose form they have.
const SERVER_RECORDS: (&str, &str) = ("masterleases", "endpoints");
/// Values that upstream encrypts begin with this.
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// The format of built-in kinds in etcd (`--storage-media-type`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum StorageMediaType {
    #[default]
    Protobuf,
    Json,
}

impl StorageMediaType {
    /// Parses a media type.
    pub fn parse(text: &str) -> Result<StorageMediaType, String> {
        match text {
            "application/vnd.kubernetes.protobuf" => Ok(StorageMediaType::Protobuf),
            "application/json" => Ok(StorageMediaType::Json),
            other => Err(format!(
                "{other:?} is not supported; use application/vnd.kubernetes.protobuf or application/json"
            )),
        }
    }
}

/// The stored forms of all kinds.
pub struct StoredForms {
    media_type: StorageMediaType,
    /// By storage prefix.
    built_in: HashMap<&'static str, BuiltIn>,
}

/// A built-in kind.
struct BuiltIn {
    rules: &'static Rules,
    schema: StructRef,
    kind: String,
    api_version: String,
    always_json: bool,
}

impl StoredForms {
    pub fn new(media_type: StorageMediaType) -> Arc<StoredForms> {
        let mut built_in = HashMap::new();
        for rules in registry::all().iter().filter(|rules| rules.stored && rules.stored_as.is_none()) {
            let stored = resources::all().iter().find(|r| {
                r.group == rules.group && r.name == rules.resource && r.version == rules.storage_version
            });
            let Some((stored, schema)) = stored.and_then(|stored| Some((stored, stored.schema()?))) else {
                continue;
            };
            let always_json = matches!(rules.group, crd::GROUP | "apiregistration.k8s.io");
            let (kind, api_version) = (stored.kind.to_string(), stored.api_version());
            let mut insert = |prefix| {
                let (schema, kind, api_version) = (schema.clone(), kind.clone(), api_version.clone());
                built_in.insert(prefix, BuiltIn { rules, schema, kind, api_version, always_json });
            };
            insert(rules.storage_prefix);
            if rules.resource == SERVER_RECORDS.1 {
                insert(SERVER_RECORDS.0);
            }
        }
        Arc::new(StoredForms { media_type, built_in })
    }

    /// The built-in kind of a key; `None` for custom resources.
    fn built_in(&self, key: &str) -> Option<&BuiltIn> {
        let rest = key.strip_prefix(ROOT)?;
        let mut slashes = rest.match_indices('/').map(|(at, _)| at);
        let (first, second) = (slashes.next()?, slashes.next());
        let in_two_parts = second.and_then(|end| self.built_in.get(&rest[..end]));
        in_two_parts.or_else(|| self.built_in.get(&rest[..first]))
    }
}

impl Translation for StoredForms {
    fn store(&self, key: &str, value: &NewValue) -> Result<Vec<u8>, String> {
        let is_json = self.media_type == StorageMediaType::Json;
        if range_allocation::is_key(key) && !is_json {
            return range_allocation::to_protobuf(&value.bytes);
        }
        let mut tree = json::parse(&value.bytes).map_err(|error| error.to_string())?;
        tree.remove(&["metadata", "resourceVersion"]);
        match self.built_in(key) {
            Some(built_in) if !is_json && !built_in.always_json => {
                let mut stored = Vec::with_capacity(value.bytes.len());
                let written = protobuf::encode_object(&built_in.schema, &tree, &mut stored);
                written.map_err(|error| error.to_string())?;
                Ok(stored)
            }
            _ => {
                let mut stored = json::write_to_string(&tree).into_bytes();
                stored.push(b'\n');
                Ok(stored)
            }
        }
    }

    fn load(&self, key: &str, stored: &Bytes, revision: Revision) -> Result<Bytes, String> {
        if stored.starts_with(ENCRYPTED) {
            return Err("identity transformer tried to read encrypted data".to_owned());
        }
        if range_allocation::is_key(key) && stored.starts_with(&protobuf::MAGIC) {
            return range_allocation::of_protobuf(stored).map(Bytes::from);
        }
        let mut tree = if stored.starts_with(&protobuf::MAGIC) {
            protobuf::decode_object(stored).map_err(|error| error.to_string())?
        } else {
            json::parse(stored).map_err(|error| error.to_string())?
        };
        let (mut kind, mut api_version) = (meta::kind(&tree).to_owned(), meta::api_version(&tree).to_owned());
        if let Some(built_in) = self.built_in(key) {
            built_in.read(&mut tree, &api_version)?;
            (kind, api_version) = (built_in.kind.clone(), built_in.api_version.clone());
        } else if range_allocation::is_key(key) {
            return Ok(stored.clone());
        }
        let text = encoded::encode(&tree, &kind, &api_version);
        let mut bytes = text.bytes;
        bytes.splice(text.revision_at..text.revision_at, revision.to_string().into_bytes());
        Ok(bytes.into())
    }

    /// True if the format or the version is another one than is written.
    fn is_stale(&self, key: &str, stored: &Bytes) -> bool {
        let is_protobuf = stored.starts_with(&protobuf::MAGIC);
        let wants_protobuf = self.media_type == StorageMediaType::Protobuf;
        let Some(built_in) = self.built_in(key) else {
            return is_protobuf != (wants_protobuf && range_allocation::is_key(key));
        };
        if is_protobuf != (wants_protobuf && !built_in.always_json) {
            return true;
        }
        let written = built_in.api_version.as_str();
        if is_protobuf {
            return protobuf::decode_envelope(stored).is_ok_and(|found| found.api_version != *written);
        }
        json::parse(stored).is_ok_and(|tree| meta::api_version(&tree) != written)
    }
}

impl BuiltIn {
    /// Brings an object of any version to the storage version of this server, with its defaults.
    fn read(&self, tree: &mut Value, api_version: &str) -> Result<(), String> {
        if self.rules.group == crd::GROUP && api_version == definitions::OLD_VERSION {
            definitions::convert(tree, &self.api_version);
        } else if api_version != self.api_version {
            let converted = convert::convert(&self.kind, api_version, &self.api_version, tree);
            converted.map_err(|error| error.to_string())?;
        }
        conform(tree, &self.schema, Extent::Whole, &mut Vec::new()).map_err(|error| error.to_string())?;
        (self.rules.default)(tree);
        Ok(())
    }
}
