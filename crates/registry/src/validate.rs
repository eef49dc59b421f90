//! The order of an object's validation: its metadata, then the rules of its resource.
//!
//! Validation never changes an object. It reports all errors, in upstream's words and order, and never stops
//! at the first error unless upstream does.

use corten_api::names::NameRule;
use corten_api::status::ErrorList;
use corten_api::{Value, meta, names};

use crate::rules::Rules;
use crate::validation::declarative;
use crate::validation::text::validate_generate_name;

impl Rules {
    /// All errors of a new object that was prepared.
    pub fn validate_for_create(&self, namespaced: bool, object: &Value, errors: &mut ErrorList) {
        if self.metadata_if_valid {
            (self.validate_create)(object, errors);
            if errors.is_empty() {
                self.validate_new_metadata(namespaced, object, errors);
            }
        } else {
            self.validate_new_metadata(namespaced, object, errors);
            (self.validate_create)(object, errors);
        }
        self.dedup(errors);
    }

    fn validate_new_metadata(&self, namespaced: bool, object: &Value, errors: &mut ErrorList) {
        // Objects that are never stored have no metadata to validate.
        if self.stored {
            names::validate_object_meta(metadata(object), namespaced, self.name, "metadata", errors);
            self.validate_finalizers(object, errors);
        }
    }

    /// All errors of a new state that was prepared, given the old one. The main endpoint is
    /// the empty subresource.
    pub fn validate_for_update(
        &self,
        subresource: &str,
        namespaced: bool,
        object: &Value,
        old: &Value,
        errors: &mut ErrorList,
    ) {
        names::validate_object_meta(metadata(object), namespaced, NameRule::PathSegment, "metadata", errors);
        names::validate_object_meta_update(metadata(object), metadata(old), "metadata", errors);
        self.validate_finalizers(object, errors);
        match subresource {
            "" => {
                if self.prefix_on_update {
                    validate_generate_name(object, self.name, errors);
                }
                self.repeat_metadata_errors(object, old, errors);
                (self.validate_update)(object, old, errors);
            }
            name => {
                self.repeat_metadata_errors(object, old, errors);
                (self.validate_subresource)(name, object, old, errors);
            }
        }
        self.dedup(errors);
    }

    /// Kinds that upstream also validates declaratively report no error twice: all but those of other API servers.
    fn dedup(&self, errors: &mut ErrorList) {
        if !self.repeats_errors() {
            errors.dedup();
        }
        declarative::move_last(self.group, self.resource, errors);
    }

    /// Gives errors the paths that upstream reports for a request in a version.
    pub fn name_fields_in_version(&self, version: &str, errors: &mut ErrorList) {
        declarative::name_fields_in_version(self.group, self.resource, version, errors);
    }

    fn repeats_errors(&self) -> bool {
        matches!(self.group, "apiextensions.k8s.io" | "apiregistration.k8s.io")
    }

    /// Upstream compares the metadata for all kinds and once more for each; most report the errors only once.
    fn repeat_metadata_errors(&self, object: &Value, old: &Value, errors: &mut ErrorList) {
        if self.repeats_errors() {
            names::validate_object_meta_update(metadata(object), metadata(old), "metadata", errors);
        }
    }

    /// Most built-in kinds require qualified finalizers.
    fn validate_finalizers(&self, object: &Value, errors: &mut ErrorList) {
        let names = meta::finalizers(object).enumerate();
        for (i, name) in names.filter(|(_, name)| self.qualified_finalizers && !is_finalizer(name)) {
            let why = "name is neither a standard finalizer name nor is it fully qualified";
            errors.invalid(format!("metadata.finalizers[{i}]"), &Value::from(name), why);
        }
    }
}

fn metadata(object: &Value) -> &Value {
    object.get("metadata").unwrap_or(&Value::Null)
}

/// Returns true for a qualified finalizer, or a standard one.
pub(crate) fn is_finalizer(name: &str) -> bool {
    name.contains('/') || matches!(name, "orphan" | "foregroundDeletion" | "kubernetes")
}
