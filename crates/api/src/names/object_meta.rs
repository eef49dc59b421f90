//! Validation of `metadata`, at creation and on update.
//!
//! The tree is assumed to have its type's shape already; a field of another kind counts as absent.

use super::{NameRule, label_value, namespace_name, qualified_name};
use crate::by_content::{ByContent, set_of};
use crate::field::Field;
use crate::go;
use crate::schema::lookup;
use crate::status::ErrorList;
use crate::value::{Map, Value};

/// All annotations of an object together, keys and values.
pub const TOTAL_ANNOTATION_SIZE_LIMIT: usize = 256 * 1024;
const FIELD_MANAGER_MAX_LENGTH: usize = 128;
const SUBRESOURCE_MAX_LENGTH: usize = 256;
const IMMUTABLE: &str = "field is immutable";
const ORPHAN_DEPENDENTS: &str = "orphan";
const DELETE_DEPENDENTS: &str = "foregroundDeletion";

/// Validates the metadata of an object to be created, after its name was generated.
pub fn validate_object_meta(
    meta: &Value,
    namespaced: bool,
    name_rule: NameRule,
    path: &str,
    errors: &mut ErrorList,
) {
    let at = &Field::new(path);
    let generate_name = text(meta, "generateName");
    if !generate_name.is_empty() {
        invalid(errors, &at.child("generateName"), generate_name, name_rule.check_prefix(generate_name));
    }
    match text(meta, "name") {
        "" => errors.required(at.child("name"), "name or generateName is required"),
        name => invalid(errors, &at.child("name"), name, name_rule.check(name)),
    }
    match (namespaced, text(meta, "namespace")) {
        (true, "") => errors.required(at.child("namespace"), ""),
        (true, name) => invalid(errors, &at.child("namespace"), name, namespace_name(name)),
        (false, "") => {}
        (false, _) => errors.forbidden(at.child("namespace"), "not allowed on this type"),
    }
    validate_generation(meta, at, errors);
    validate_labels(meta.get("labels"), &at.child("labels"), errors);
    validate_annotations(meta.get("annotations"), &at.child("annotations"), errors);
    validate_owner_references(meta.get("ownerReferences"), &at.child("ownerReferences"), errors);
    validate_finalizers(meta.get("finalizers"), &at.child("finalizers"), errors);
    validate_managed_fields(meta.get("managedFields"), &at.child("managedFields"), errors);
}

/// Validates the metadata of an object against its previous one.
pub fn validate_object_meta_update(new: &Value, old: &Value, path: &str, errors: &mut ErrorList) {
    let at = &Field::new(path);
    if old.get("deletionTimestamp").is_some_and(|at| !at.is_null()) {
        validate_no_new_finalizers(new, old, at, errors);
    }
    if text(new, "resourceVersion").is_empty() {
        let field = at.child("resourceVersion");
        errors.invalid(field, &Value::from(""), "must be specified for an update");
    }
    validate_generation(new, at, errors);
    let generation = |meta: &Value| meta.int_at(&["generation"]).unwrap_or(0);
    if generation(new) < generation(old) {
        let field = at.child("generation");
        errors.invalid(field, &Value::Int(generation(new)), "must not be decremented");
    }
    for field in ["name", "namespace", "uid"] {
        if text(new, field) != text(old, field) {
            errors.invalid(at.child(field), &Value::from(text(new, field)), IMMUTABLE);
        }
    }
    for field in ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        let of = |meta: &Value| meta.get(field).cloned().unwrap_or_default();
        if of(new) != of(old) {
            errors.invalid(at.child(field), &of(new), IMMUTABLE);
        }
    }
    validate_labels(new.get("labels"), &at.child("labels"), errors);
    validate_annotations(new.get("annotations"), &at.child("annotations"), errors);
    validate_owner_references(new.get("ownerReferences"), &at.child("ownerReferences"), errors);
    validate_managed_fields(new.get("managedFields"), &at.child("managedFields"), errors);
}

fn text<'v>(value: &'v Value, field: &str) -> &'v str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}

fn entries(map: Option<&Value>) -> impl Iterator<Item = (&str, &str)> {
    static EMPTY: Map = Map::new();
    let map = map.and_then(Value::as_object).unwrap_or(&EMPTY);
    map.iter().map(|(key, value)| (key.as_str(), value.as_str().unwrap_or_default()))
}

fn items(list: Option<&Value>) -> &[Value] {
    list.and_then(Value::as_array).unwrap_or_default()
}

fn invalid(errors: &mut ErrorList, field: &Field<'_>, bad: &str, complaints: Vec<String>) {
    for complaint in complaints {
        errors.invalid(field, &Value::from(bad), complaint);
    }
}

fn validate_generation(meta: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(generation) = meta.int_at(&["generation"]).filter(|generation| *generation < 0) {
        let field = at.child("generation");
        errors.invalid(field, &Value::Int(generation), "must be greater than or equal to 0");
    }
}

pub fn validate_labels(labels: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    for (key, value) in entries(labels) {
        invalid(errors, at, key, qualified_name(key));
        invalid(errors, at, value, label_value(value));
    }
}

pub fn validate_annotations(annotations: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let mut total = 0;
    for (key, value) in entries(annotations) {
        // Upper case is allowed in the prefix too.
        let complaints = if key.bytes().any(|byte| byte.is_ascii_uppercase()) || !key.is_ascii() {
            qualified_name(&key.to_lowercase())
        } else {
            qualified_name(key)
        };
        invalid(errors, at, key, complaints);
        total += key.len() + value.len();
    }
    if total > TOTAL_ANNOTATION_SIZE_LIMIT {
        errors.too_long(at, TOTAL_ANNOTATION_SIZE_LIMIT);
    }
}

pub fn validate_owner_references(references: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let mut controller: Option<&Value> = None;
    for (i, reference) in items(references).iter().enumerate() {
        validate_owner_reference(reference, &at.index(i), errors);
        if reference.bool_at(&["controller"]) != Some(true) {
            continue;
        }
        let Some(first) = controller else {
            controller = Some(reference);
            continue;
        };
        let name = |reference| format!("{}/{}", text(reference, "kind"), text(reference, "name"));
        let why = format!(
            "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
            name(first),
            name(reference)
        );
        // Each error shows the whole list.
        if errors.is_full() {
            return;
        }
        match lookup("meta/v1", "OwnerReference") {
            Some(schema) => errors.invalid_shown(at, go::json_of_list(items(references), &schema), why),
            None => errors.invalid(at, references.unwrap_or(&Value::Null), why),
        }
    }
}

fn validate_owner_reference(reference: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let api_version = text(reference, "apiVersion");
    let version = match api_version.split_once('/') {
        None => api_version,
        Some((_, version)) if version.contains('/') => "",
        Some((_, version)) => version,
    };
    if api_version.is_empty() {
        errors.required(at.child("apiVersion"), "must not be empty");
    } else if version.is_empty() {
        let field = at.child("apiVersion");
        errors.invalid(field, &Value::from(api_version), "must be <group>/<version> or <version>");
    }
    for field in ["kind", "name", "uid"] {
        if text(reference, field).is_empty() {
            errors.required(at.child(field), "must not be empty");
        }
    }
    // Events expire by themselves: they own nothing.
    if matches!(api_version, "v1" | "/v1") && text(reference, "kind") == "Event" {
        errors.invalid(at, reference, "/v1, Kind=Event is disallowed from being an owner");
    }
}

pub fn validate_finalizer_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    invalid(errors, at, name, qualified_name(name));
}

fn validate_finalizers(finalizers: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let names = || items(finalizers).iter().filter_map(Value::as_str);
    names().for_each(|name| validate_finalizer_name(name, at, errors));
    if names().any(|name| name == ORPHAN_DEPENDENTS) && names().any(|name| name == DELETE_DEPENDENTS) {
        errors.invalid(
            at,
            finalizers.unwrap_or(&Value::Null),
            format!("finalizer {ORPHAN_DEPENDENTS} and {DELETE_DEPENDENTS} cannot be both set"),
        );
    }
}

fn validate_no_new_finalizers(new: &Value, old: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let before = set_of(items(old.get("finalizers")));
    let mut added: Vec<&str> = items(new.get("finalizers"))
        .iter()
        .filter(|name| !before.contains(&ByContent(name)))
        .filter_map(Value::as_str)
        .collect();
    added.sort_unstable();
    added.dedup();
    if added.is_empty() {
        return;
    }
    let added: Vec<String> = added.into_iter().map(crate::status::quoted).collect();
    errors.forbidden(
        at.child("finalizers"),
        format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        ),
    );
}

pub fn validate_managed_fields(managed: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    for (i, entry) in items(managed).iter().enumerate() {
        let at = at.index(i);
        match text(entry, "operation") {
            "Apply" | "Update" => {}
            "" => errors.required(at.child("operation"), "must not be empty"),
            other => {
                let field = at.child("operation");
                errors.not_supported(field, &Value::from(other), &["Apply", "Update"]);
            }
        }
        let fields_type = text(entry, "fieldsType");
        if !matches!(fields_type, "" | "FieldsV1") {
            let field = at.child("fieldsType");
            errors.invalid(field, &Value::from(fields_type), "must be `FieldsV1`");
        }
        validate_field_manager(text(entry, "manager"), &at.child("manager"), errors);
        if text(entry, "subresource").len() > SUBRESOURCE_MAX_LENGTH {
            errors.too_long(at.child("subresource"), SUBRESOURCE_MAX_LENGTH);
        }
    }
}

/// A field manager's name: short enough and printable. An absent one is valid.
pub fn validate_field_manager(manager: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if manager.len() > FIELD_MANAGER_MAX_LENGTH {
        errors.too_long(at, FIELD_MANAGER_MAX_LENGTH);
    }
    let bad = Value::from(manager);
    for (position, c) in manager.char_indices().filter(|(_, c)| !is_print(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {position})", c as u32);
        errors.invalid(at, &bad, detail);
    }
}

/// Go's `unicode.IsPrint`, but for code points that are not assigned.
fn is_print(c: char) -> bool {
    match c {
        ' ' => true,
        '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' => false,
        '\u{e000}'..='\u{f8ff}' | '\u{feff}' | '\u{fffe}' | '\u{ffff}' => false,
        c => !c.is_control() && !c.is_whitespace(),
    }
}
