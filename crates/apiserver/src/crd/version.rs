//! One version of a custom resource: its compiled type, and the rules that built-in resources have in the registry.
//!
//! A version is compiled from its definition's text when it is first used and dropped later (`compiled_types`): most
//! definitions of a cluster are used rarely, and a compiled schema is many times as large as what serving a list needs.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use corten_api::names::{self, NameRule};
use corten_api::schema::StructRef;
use corten_api::status::ErrorList;
use corten_api::{Map, Status, Str, Value, json, managed, meta, value};
use corten_customresources::Version as CompiledVersion;
use corten_customresources::columns::{Columns, Header};
use corten_customresources::metadata::Malformed;
use corten_customresources::scale::Scale;
use jiff::Timestamp;
use tokio::time::Instant;

use super::compiled_types::{CompiledTypes, Slot};
use super::definition::{Definition, VersionInfo};
use crate::column_descriptions;

/// An unused version is dropped after this time.
pub(super) const IDLE: Duration = Duration::from_secs(300);

/// A validation that takes longer is not done on a thread of the runtime again.
const SLOW: Duration = Duration::from_millis(10);

/// One version of a custom resource.
pub(crate) struct Version {
    /// The definition's text.
    text: Bytes,
    /// The position among the definition's versions.
    position: usize,
    kind: Str,
    list_kind: Str,
    namespaced: bool,
    pub(super) info: VersionInfo,
    pub(super) api_version: String,
    compiled: Arc<Slot>,
    /// True if the validation of an object took long: the rest are validated on threads for large requests.
    slow: AtomicBool,
}

/// The compiled type of a version.
pub(crate) struct Compiled {
    rules: CompiledVersion,
    api_version: String,
    kind: Str,
    typed: OnceLock<StructRef>,
}

impl Version {
    pub(super) fn new(definition: &Definition, position: usize, types: &Arc<CompiledTypes>) -> Version {
        let info = definition.versions[position].clone();
        Version {
            text: definition.text.clone(),
            position,
            kind: definition.names.kind.clone(),
            list_kind: definition.names.list_kind.clone(),
            namespaced: definition.namespaced,
            api_version: format!("{}/{}", definition.group, info.name),
            info,
            // Most of a definition are the schemas of its versions.
            compiled: types.slot(definition.text.len() / definition.versions.len().max(1)),
            slow: AtomicBool::new(false),
        }
    }

    pub(crate) fn list_kind(&self) -> &str {
        &self.list_kind
    }

    pub(crate) fn deprecation_warning(&self) -> Option<&str> {
        self.info.deprecation_warning.as_deref()
    }

    /// The compiled type.
    pub(crate) fn compiled(&self) -> Arc<Compiled> {
        self.compiled.get(|| self.compile())
    }

    /// True if the validation of an object took long.
    pub(crate) fn is_slow(&self) -> bool {
        self.slow.load(Ordering::Relaxed)
    }

    /// Validates, and remembers if that took long.
    fn timed(&self, validate: impl FnOnce()) {
        let started = Instant::now();
        validate();
        if started.elapsed() > SLOW {
            self.slow.store(true, Ordering::Relaxed);
        }
    }

    fn compile(&self) -> Compiled {
        let definition = json::parse(&self.text).unwrap_or_default();
        let versions = definition.items_at(&["spec", "versions"]);
        let version = versions.get(self.position).unwrap_or(&Value::Null);
        let compiled = CompiledVersion::compile(&definition, version).unwrap_or_else(|err| {
            // Validation accepts structural schemas only; another server may have stored this one.
            tracing::warn!(crd = meta::name(&definition), %err, "cannot compile schema; keeping objects as they are");
            CompiledVersion::without_schema(version)
        });
        Compiled {
            rules: compiled,
            api_version: self.api_version.clone(),
            kind: self.kind.clone(),
            typed: OnceLock::new(),
        }
    }

    /// The schema as the definition has it.
    pub(super) fn open_api_schema(&self) -> Option<Value> {
        let definition = json::parse(&self.text).ok()?;
        let version = definition.items_at(&["spec", "versions"]).get(self.position)?;
        version.at(&["schema", "openAPIV3Schema"]).cloned()
    }

    /// Decodes an object of a request: metadata, pruning, defaults. `unknown` receives findings of strict validation.
    pub(crate) fn decode(&self, object: &mut Value, unknown: &mut Vec<String>) -> Result<(), Status> {
        let compiled = self.compiled();
        let mut paths = Vec::new();
        let decoded = compiled.rules.decode(object, Malformed::Refused, Some(&mut paths));
        decoded.map_err(Status::bad_request)?;
        unknown.extend(paths.into_iter().map(|path| format!("unknown field \"{path}\"")));
        self.set_defaults(object)
    }

    /// Decodes an object that server-side apply has merged: like `decode`, except that nulls are kept for validation.
    pub(crate) fn decode_applied(&self, object: &mut Value) -> Result<(), Status> {
        let decoded = self.compiled().rules.decode_applied(object);
        decoded.map_err(Status::bad_request)?;
        self.set_defaults(object)
    }

    /// Brings a valid object to the form in which it is stored: without nulls, with all defaults, and with the numbers that
    /// its text is parsed to. Validation sees `1.0` as it was sent, because upstream refuses it where rules read integers.
    pub(super) fn complete(&self, object: &mut Value) -> Result<(), Status> {
        self.compiled().rules.prune_nulls(object);
        self.set_defaults(object)?;
        object.normalize_numbers();
        Ok(())
    }

    fn set_defaults(&self, object: &mut Value) -> Result<(), Status> {
        let too_large = |_| Status::too_large("the object with its defaults is too large");
        self.compiled().rules.set_defaults(object).map_err(too_large)
    }

    /// Prunes an object that was converted to this version.
    pub(super) fn prune(&self, object: &mut Value) -> Result<(), Status> {
        let decoded = self.compiled().rules.decode(object, Malformed::Refused, None);
        decoded.map_err(Status::bad_request)
    }

    /// Brings a stored object to the form that requests see: fields that the schema no longer has are pruned, new defaults
    /// are set if `may_grow` is true. Never fails: what cannot be brought to that form stays as it is.
    pub(super) fn normalize(&self, object: &mut Value, may_grow: bool) {
        let compiled = self.compiled();
        if let Err(err) = compiled.rules.decode(object, Malformed::Dropped, None) {
            tracing::warn!(kind = %self.kind, name = meta::name(object), %err, "cannot decode stored custom resource");
        }
        if !may_grow {
            tracing::warn!(kind = %self.kind, name = meta::name(object), "new defaults of stored custom resources take too much memory; showing object as stored");
        } else if compiled.rules.set_defaults(object).is_err() {
            tracing::warn!(kind = %self.kind, name = meta::name(object), "defaults of stored custom resource are too large");
        }
        object.normalize_numbers();
        // Objects of very old servers have none.
        if object.int_at(&["metadata", "generation"]).unwrap_or(0) == 0 {
            object.set(&["metadata", "generation"], 1);
        }
    }

    /// Prepares a new object.
    pub(crate) fn prepare_create(&self, object: &mut Value) {
        if self.info.has_status {
            object.remove(&["status"]);
        }
        object.set(&["metadata", "generation"], 1);
    }

    /// Prepares a new state: an endpoint changes its own part of the object and restores the rest.
    pub(crate) fn prepare_update(&self, subresource: &str, object: &mut Value, old: &Value) {
        if subresource == "status" {
            return restore_all_but_status(object, old);
        }
        if self.info.has_status {
            restore(object, old, &["status"]);
        }
        restore(object, old, &["metadata", "generation"]);
        if !equal_without_metadata(object, old) {
            let generation = old.int_at(&["metadata", "generation"]).unwrap_or(0);
            object.set(&["metadata", "generation"], generation + 1);
        }
    }

    /// The fields that no manager owns through an endpoint.
    pub(crate) fn reset_fields(&self, subresource: &str) -> Option<managed::Filter> {
        let paths: &[&[&str]] = match subresource {
            "" if self.info.has_status => &[&["status"]],
            "status" => &[&["metadata"], &["spec"]],
            _ => return None,
        };
        Some(managed::Filter::Exclude(managed::Set::of_fields(paths)))
    }

    /// All errors of a new object.
    pub(crate) fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        let rule = NameRule::DnsSubdomain;
        names::validate_object_meta(metadata(object), self.namespaced, rule, "metadata", errors);
        let compiled = self.compiled();
        self.timed(|| compiled.rules.validate_create(object, errors));
    }

    /// All errors of a new state; `warnings` receives those that are tolerated because the old state had them.
    pub(crate) fn validate_update(
        &self,
        subresource: &str,
        object: &Value,
        old: &Value,
        errors: &mut ErrorList,
        warnings: &mut Vec<String>,
    ) {
        names::validate_object_meta(metadata(object), self.namespaced, NameRule::Any, "metadata", errors);
        // Upstream checks these once for every kind, and once more for custom resources.
        for _ in 0..2 {
            names::validate_object_meta_update(metadata(object), metadata(old), "metadata", errors);
        }
        let compiled = self.compiled();
        self.timed(|| match subresource {
            "status" => compiled.rules.validate_status_update_warning(object, old, errors, warnings),
            _ => compiled.rules.validate_update_warning(object, old, errors, warnings),
        });
    }

    /// The columns of the table form.
    pub(crate) fn columns(&self) -> Value {
        definitions(&self.compiled().rules.columns)
    }

    /// The cells of an object's row.
    pub(crate) fn row(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.compiled().rules.columns.cells(object, now)
    }

    /// True if lists and watches may select by a field.
    pub(crate) fn selects_by(&self, field: &str) -> bool {
        self.info.selectable_fields.iter().any(|path| path.strip_prefix('.').unwrap_or(path) == field)
    }
}

impl Compiled {
    #[cfg(test)]
    pub(super) fn for_tests() -> Compiled {
        Compiled {
            rules: CompiledVersion::without_schema(&Value::object()),
            api_version: String::new(),
            kind: Str::default(),
            typed: OnceLock::new(),
        }
    }

    /// The type for field management.
    pub(crate) fn typed(&self) -> &StructRef {
        self.typed.get_or_init(|| self.rules.typed(&self.api_version, &self.kind))
    }

    pub(crate) fn scale(&self) -> Option<&Scale> {
        self.rules.scale.as_ref()
    }
}

/// The row and the columns of a custom resource's `Scale`.
pub(crate) fn scale_row(scale: &Value, now: Timestamp) -> (Vec<Value>, Value) {
    let columns = Columns::of_scale();
    (columns.cells(scale, now), definitions(&columns))
}

/// Columns as tables list them.
fn definitions(columns: &Columns) -> Value {
    let column = |header: Header| {
        let of_metadata = header.metadata_field.and_then(column_descriptions::of_metadata);
        let description = of_metadata.unwrap_or(header.description);
        value!({
            "name": (header.name), "type": (header.kind), "format": (header.format),
            "description": (description), "priority": (header.priority),
        })
    };
    Value::Array(columns.headers().into_iter().map(column).collect())
}

fn metadata(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// Makes the value at a path equal to that of the old object, including its absence.
fn restore(object: &mut Value, old: &Value, path: &[&str]) {
    match old.at(path) {
        Some(value) => object.set(path, value.clone()),
        None => drop(object.remove(path)),
    }
}

fn restore_all_but_status(object: &mut Value, old: &Value) {
    let status = object.remove(&["status"]);
    let managed_fields = object.remove(&["metadata", "managedFields"]);
    *object = old.clone();
    match status {
        Some(status) => object.set(&["status"], status),
        None => drop(object.remove(&["status"])),
    }
    match managed_fields {
        Some(fields) => object.set(&["metadata", "managedFields"], fields),
        None => drop(object.remove(&["metadata", "managedFields"])),
    }
}

fn equal_without_metadata(a: &Value, b: &Value) -> bool {
    let parts = |value: &Value| -> Map {
        let members = value.as_object().into_iter().flat_map(Map::iter);
        members.filter(|(key, _)| *key != "metadata").map(|(k, v)| (k.clone(), v.clone())).collect()
    };
    parts(a) == parts(b)
}
