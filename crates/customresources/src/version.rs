//! One version of a CustomResourceDefinition, compiled: everything that requests for its resources need.

use std::sync::OnceLock;

use corten_api::Value;
use corten_api::schema::StructRef;
use corten_api::status::ErrorList;

use crate::columns::Columns;
use crate::decode::{self, Options};
use crate::defaults::{self, TooLarge};
use crate::metadata::Malformed;
use crate::rules::Rules;
use crate::scale::Scale;
use crate::schema::Schema;
use crate::selectable::Selectable;
use crate::{list_types, metadata, typed, validate};

/// A compiled version.
#[derive(Debug)]
pub struct Version {
    pub schema: Schema,
    pub columns: Columns,
    pub selectable: Selectable,
    pub scale: Option<Scale>,
    /// True if there is a `status` subresource.
    pub has_status: bool,
    /// `spec.preserveUnknownFields` of the definition.
    preserve_unknown_fields: bool,
    /// Compiled when an object is first validated.
    rules: OnceLock<Rules>,
}

impl Version {
    /// Compiles a version (an item of `spec.versions`) of a definition. The error is upstream's text for a schema that
    /// cannot be structural.
    pub fn compile(definition: &Value, version: &Value) -> Result<Version, String> {
        let schema = version.at(&["schema", "openAPIV3Schema"]).filter(|schema| schema.as_object().is_some());
        let subresources = version.get("subresources").unwrap_or(&Value::Null);
        Ok(Version {
            schema: schema.map_or_else(|| Ok(Schema::empty()), Schema::compile)?,
            columns: Columns::of_version(version),
            selectable: Selectable::of_version(version),
            scale: Scale::of_version(version),
            has_status: subresources.get("status").is_some_and(|status| !status.is_null()),
            preserve_unknown_fields: definition.bool_at(&["spec", "preserveUnknownFields"]) == Some(true),
            rules: OnceLock::new(),
        })
    }

    /// A version whose schema cannot be compiled: objects are kept as they are.
    pub fn without_schema(version: &Value) -> Version {
        let subresources = version.get("subresources").unwrap_or(&Value::Null);
        Version {
            schema: Schema::empty(),
            columns: Columns::of_version(version),
            selectable: Selectable::of_version(version),
            scale: Scale::of_version(version),
            has_status: subresources.get("status").is_some_and(|status| !status.is_null()),
            preserve_unknown_fields: true,
            rules: OnceLock::new(),
        }
    }

    /// Decodes the body of a request or a stored object, see `decode`.
    pub fn decode(
        &self,
        object: &mut Value,
        malformed: Malformed,
        unknown: Option<&mut Vec<String>>,
    ) -> Result<(), String> {
        let preserve_unknown_fields = self.preserve_unknown_fields;
        let options = Options { malformed, preserve_unknown_fields, ..Options::REQUEST };
        decode::decode(object, &self.schema, options, unknown)
    }

    /// Decodes an object that server-side apply has merged. Upstream does not remove its nulls: validation refuses those
    /// of fields that are not nullable.
    pub fn decode_applied(&self, object: &mut Value) -> Result<(), String> {
        let preserve_unknown_fields = self.preserve_unknown_fields;
        let options = Options { preserve_unknown_fields, keep_nulls: true, ..Options::REQUEST };
        decode::decode(object, &self.schema, options, None)
    }

    /// Removes fields that are null, may not be, and have no default.
    pub fn prune_nulls(&self, object: &mut Value) {
        if !self.preserve_unknown_fields {
            defaults::prune_nulls(object, &self.schema);
        }
    }

    /// Sets the defaults of absent fields.
    pub fn set_defaults(&self, object: &mut Value) -> Result<(), TooLarge> {
        defaults::set_defaults(object, &self.schema)
    }

    /// The type for field management.
    pub fn typed(&self, group_version: &str, kind: &str) -> StructRef {
        typed::resource_type(&self.schema, group_version, kind, self.preserve_unknown_fields)
    }

    /// Validates a new object, except for its own metadata, whose errors come first in `errors`.
    pub fn validate_create(&self, object: &Value, errors: &mut ErrorList) {
        validate::validate_schema(object, &self.schema, errors);
        self.validate_scale(object, errors);
        metadata::validate(object, &self.schema, errors);
        list_types::validate(object, &self.schema, errors);
        self.rules().validate_create(object, &self.schema, errors);
    }

    /// Validates a changed object, except for its own metadata. Errors that it had before are tolerated.
    pub fn validate_update(&self, object: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_update_warning(object, old, errors, &mut Vec::new());
    }

    /// Validates a changed object like `validate_update`; `warnings` receives the tolerated errors of rules.
    pub fn validate_update_warning(
        &self,
        object: &Value,
        old: &Value,
        errors: &mut ErrorList,
        warnings: &mut Vec<String>,
    ) {
        validate::validate_schema_update(object, old, &self.schema, errors);
        self.validate_scale(object, errors);
        metadata::validate(object, &self.schema, errors);
        self.validate_lists(object, old, errors);
        self.rules().validate_update(object, old, &self.schema, errors, warnings);
    }

    /// Validates an object whose status was changed, except for its own metadata.
    pub fn validate_status_update(&self, object: &Value, old: &Value, errors: &mut ErrorList) {
        self.validate_status_update_warning(object, old, errors, &mut Vec::new());
    }

    /// Validates a status like `validate_status_update`; `warnings` receives the tolerated errors of rules.
    pub fn validate_status_update_warning(
        &self,
        object: &Value,
        old: &Value,
        errors: &mut ErrorList,
        warnings: &mut Vec<String>,
    ) {
        validate::validate_status_update(object, old, &self.schema, errors);
        if let Some(scale) = &self.scale {
            scale.validate_status(object, errors);
        }
        self.validate_lists(object, old, errors);
        self.rules().validate_update(object, old, &self.schema, errors, warnings);
    }

    fn rules(&self) -> &Rules {
        self.rules.get_or_init(|| Rules::compile(&self.schema))
    }

    fn validate_scale(&self, object: &Value, errors: &mut ErrorList) {
        if let Some(scale) = &self.scale {
            scale.validate_spec(object, errors);
            scale.validate_status(object, errors);
        }
    }

    /// Lists are validated if those of the old object were valid.
    fn validate_lists(&self, object: &Value, old: &Value, errors: &mut ErrorList) {
        if list_types::is_valid(old, &self.schema) {
            list_types::validate(object, &self.schema, errors);
        }
    }
}
