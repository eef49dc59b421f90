//! Steps of preparation that many resources share, and their order for a request.
//!
//! The rule behind all of them: an endpoint changes its own part of an object and restores the rest. Nothing here reads
//! another object.

use std::collections::HashMap;
use std::sync::OnceLock;

use corten_api::conform::{Extent, conform};
use corten_api::schema::{Kind, StructRef};
use corten_api::{Value, resources};

use crate::rules::{Path, Request, Rules};

impl Rules {
    /// All preparation of a new object before validation.
    pub fn prepare_for_create(&self, object: &mut Value, request: &Request<'_>) {
        if self.generation.initial > 0 {
            object.set(&["metadata", "generation"], self.generation.initial);
        }
        (self.prepare_create)(object, request);
        self.fill_status(object);
    }

    /// All preparation of a changed object before validation. The main endpoint is the empty
    /// subresource.
    pub fn prepare_for_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        request: &Request<'_>,
    ) {
        copy(object, old, &["metadata", "generation"]);
        if subresource.is_empty() {
            (self.prepare_update)(object, old, request);
        } else {
            (self.prepare_subresource)(subresource, object, old, request);
        }
        if subresource != "status" && self.generation.counts.iter().any(|path| !same(object, old, path)) {
            let generation = old.int_at(&["metadata", "generation"]).unwrap_or(0);
            object.set(&["metadata", "generation"], generation + 1);
        }
    }

    /// A newly created status has the zeroes that its type always encodes.
    fn fill_status(&self, object: &mut Value) {
        let Some(status) = object.get_mut("status") else { return };
        let Some(schema) = self.schema() else { return };
        if let Some(Kind::Struct(inner)) = schema.field("status").map(|f| &f.kind) {
            // A new status conforms to its type; other errors are found by decoding.
            let _ = conform(status, inner, Extent::Whole, &mut Vec::new());
        }
    }

    /// The type of the stored form.
    pub fn schema(&self) -> Option<&'static StructRef> {
        static SCHEMAS: OnceLock<HashMap<(&str, &str, &str), StructRef>> = OnceLock::new();
        let schemas = SCHEMAS.get_or_init(|| {
            let known = resources::all().iter();
            known
                .filter_map(|r| Some(((r.group.as_str(), r.name.as_str(), r.version.as_str()), r.schema()?)))
                .collect()
        });
        let (group, resource) = self.stored_as.unwrap_or((self.group, self.resource));
        schemas.get(&(group, resource, self.storage_version))
    }
}

pub(crate) fn nothing_on_create(_: &mut Value, _: &Request<'_>) {}

pub(crate) fn nothing_on_update(_: &mut Value, _: &Value, _: &Request<'_>) {}

pub(crate) fn nothing_on_subresource(_: &str, _: &mut Value, _: &Value, _: &Request<'_>) {}

/// A new object has no status, whatever the client sent.
pub(crate) fn drop_status(object: &mut Value, _: &Request<'_>) {
    object.set(&["status"], Value::object());
}

/// The same where an absent status differs from an empty one.
pub(crate) fn remove_status(object: &mut Value, _: &Request<'_>) {
    object.remove(&["status"]);
}

/// The main endpoint keeps the status.
pub(crate) fn keep_status(object: &mut Value, old: &Value, _: &Request<'_>) {
    copy(object, old, &["status"]);
}

/// The status endpoint keeps the spec.
pub(crate) fn status_keeps_spec(sub: &str, object: &mut Value, old: &Value, _: &Request<'_>) {
    if sub == "status" {
        copy(object, old, &["spec"]);
    }
}

/// The status endpoint keeps the spec and the user's part of the metadata.
pub(crate) fn status_keeps_spec_and_metadata(sub: &str, object: &mut Value, old: &Value, _: &Request<'_>) {
    if sub == "status" {
        copy(object, old, &["spec"]);
        keep_metadata(object, old);
    }
}

/// Restores all metadata but the fields of updates themselves (`managedFields`, `resourceVersion`).
pub(crate) fn keep_metadata(object: &mut Value, old: &Value) {
    for key in [
        "deletionTimestamp",
        "generation",
        "selfLink",
        "labels",
        "annotations",
        "finalizers",
        "ownerReferences",
    ] {
        copy(object, old, &["metadata", key]);
    }
}

/// Makes the value at `path` equal to that of `old`, including its absence.
pub(crate) fn copy(object: &mut Value, old: &Value, path: &[&str]) {
    match old.at(path) {
        Some(value) => object.set(path, value.clone()),
        None => {
            object.remove(path);
        }
    }
}

/// Returns true if two objects agree at a path; null counts as absent.
pub(crate) fn same(a: &Value, b: &Value, path: &[&str]) -> bool {
    let present = |value: Option<&Value>| value.is_some_and(|v| !v.is_null());
    match (a.at(path), b.at(path)) {
        (Some(a), Some(b)) => a == b,
        (a, b) => !present(a) && !present(b),
    }
}

const STATUS: &[Path] = &[&["status"]];
const SPEC: &[Path] = &[&["spec"]];
const SPEC_AND_METADATA: &[Path] = &[&["metadata"], &["spec"]];

pub(crate) fn resets_nothing(_: &str) -> &'static [Path] {
    &[]
}

/// The reset fields of [`status_keeps_spec`].
pub(crate) fn resets_spec_or_status(sub: &str) -> &'static [Path] {
    match sub {
        "" => STATUS,
        "status" => SPEC,
        _ => &[],
    }
}

/// The reset fields of [`status_keeps_spec_and_metadata`].
pub(crate) fn resets_spec_and_metadata_or_status(sub: &str) -> &'static [Path] {
    match sub {
        "" => STATUS,
        "status" => SPEC_AND_METADATA,
        _ => &[],
    }
}
