//! The order in which an object is validated: its metadata, then what its resource says.
//!
//! Validation only looks. It says everything that is wrong, in upstream's words and order, and never stops
//! at the first complaint unless upstream does.

use corten_api::names::NameRule;
use corten_api::status::ErrorList;
use corten_api::{Value, meta, names};

use crate::rules::Rules;

impl Rules {
    /// Everything that is wrong with a new object that was prepared.
    pub fn validate_for_create(&self, namespaced: bool, object: &Value, errors: &mut ErrorList) {
        // What is answered and forgotten has no metadata to speak of.
        if self.stored {
            names::validate_object_meta(metadata(object), namespaced, self.name, "metadata", errors);
            self.validate_finalizers(object, errors);
        }
        (self.validate_create)(object, errors);
    }

    /// Everything that is wrong with a new state that was prepared, given the old one. The main endpoint is
    /// the empty subresource.
    pub fn validate_for_update(
        &self,
        subresource: &str,
        namespaced: bool,
        object: &Value,
        old: &Value,
        errors: &mut ErrorList,
    ) {
        names::validate_object_meta(metadata(object), namespaced, NameRule::Any, "metadata", errors);
        names::validate_object_meta_update(metadata(object), metadata(old), "metadata", errors);
        self.validate_finalizers(object, errors);
        match subresource {
            "" => (self.validate_update)(object, old, errors),
            name => (self.validate_subresource)(name, object, old, errors),
        }
    }

    /// Most built-in kinds take finalizers that say whose they are.
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

/// Whether a name says whose finalizer it is, or is one of those everybody knows.
pub(crate) fn is_finalizer(name: &str) -> bool {
    name.contains('/') || matches!(name, "orphan" | "foregroundDeletion" | "kubernetes")
}
