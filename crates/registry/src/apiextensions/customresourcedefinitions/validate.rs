//! Validation of a custom resource definition: names, versions, schemas, conversion.

use std::collections::{HashMap, HashSet};

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};
use corten_customresources::Schema;
use corten_customresources::defaults::{are_pruned, validate_defaults};
use corten_customresources::rules::{StoredExpressions, validate_rules};

use super::openapi::{Place, divisible_item, validate_list_keys, validate_schema};
use super::schema::{any, flag, is_set, of};
use super::versions::{
    agreed, has_status, may_keep_fields, refuse_without_schema, shared, validate_columns,
    validate_selectable_fields, validate_subresources,
};
use super::{conversion, shown, structural};
use crate::prepare::same;
use crate::table::condition_true;
use crate::validation::repeats::Repeats;
use crate::validation::text::{list, member, text};
use crate::validation::url;

const SPEC: Field<'static> = Field::new("spec");
const VERSIONS: Field<'static> = SPEC.child("versions");
const STORED_VERSIONS: Field<'static> = Field::new("status").child("storedVersions");
const APPROVAL: &str = "api-approved.kubernetes.io";
const WARNING_MAX_LENGTH: usize = 256;

/// Invalid values that a stored definition may keep.
#[derive(Default)]
pub(super) struct Leeway<'v> {
    /// Versions without a schema.
    schemas: bool,
    /// Unknown types.
    pub(super) types: bool,
    /// Defaults with unknown fields.
    defaults: bool,
    /// Items of sets that are not atomic.
    pub(super) set_items: bool,
    /// Keys of lists that may be missing.
    pub(super) list_keys: bool,
    pub(super) review_versions: bool,
    /// Expressions of rules.
    expressions: StoredExpressions,
    old_versions: &'v [Value],
    old_versions_by_name: HashMap<&'v str, &'v Value>,
}

impl<'v> Leeway<'v> {
    fn of(old: &'v Value) -> Leeway<'v> {
        let versions = list(spec(old), "versions");
        let schemas = || versions.iter().filter_map(|version| of(member(version, "schema")));
        let has = |asked: &dyn Fn(&Value) -> bool| schemas().any(|schema| any(schema, &mut |s| asked(s)));
        Leeway {
            schemas: schemas().count() < versions.len(),
            types: has(&|schema| {
                let types = ["", "array", "boolean", "integer", "number", "object", "string"];
                !types.contains(&text(schema, "type"))
            }),
            defaults: schemas().filter_map(|s| Schema::compile_unpruned(s).ok()).any(|s| !are_pruned(&s)),
            set_items: has(&|schema| divisible_item(schema).is_some()),
            list_keys: has(&|schema| {
                let mut errors = ErrorList::new();
                validate_list_keys(schema, &Field::ROOT, &mut errors);
                !errors.is_empty()
            }),
            review_versions: !conversion::understands_reviews(spec(old)),
            expressions: schemas().fold(StoredExpressions::default(), |mut expressions, schema| {
                expressions.add(schema);
                expressions
            }),
            old_versions: versions,
            // Of equal names, the first counts.
            old_versions_by_name: versions
                .iter()
                .rev()
                .map(|version| (text(version, "name"), version))
                .collect(),
        }
    }
}

impl Leeway<'_> {
    /// Returns true if the stored definition has the same schema for a version: its rules may cost too much.
    fn keeps_schema(&self, version: &Value) -> bool {
        let old = self.old_versions_by_name.get(text(version, "name"));
        old.is_some_and(|old| same(old, version, &["schema", "openAPIV3Schema"]))
    }
}

fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    validate_name(object, errors);
    validate_spec(spec(object), &Leeway::default(), errors);
    validate_status(object, errors);
    validate_stored_versions(object, errors);
    validate_approval(object, None, errors);
    if flag(spec(object), "preserveUnknownFields") {
        refuse_preserving(errors);
    }
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    validate_spec(spec(object), &Leeway::of(old), errors);
    let established = condition_true(old, "Established");
    for (path, always) in [
        (&["scope"][..], false),
        (&["names", "kind"][..], false),
        (&["group"][..], true),
        (&["names", "plural"][..], true),
    ] {
        if (established || always) && !same(spec(object), spec(old), path) {
            let value = spec(object).at(path).unwrap_or(&Value::Null);
            errors.invalid(format!("spec.{}", path.join(".")), value, "field is immutable");
        }
    }
    validate_status(object, errors);
    validate_stored_versions(object, errors);
    validate_approval(object, Some(old), errors);
    if flag(spec(object), "preserveUnknownFields") && !flag(spec(old), "preserveUnknownFields") {
        refuse_preserving(errors);
    }
}

pub(super) fn subresource(name: &str, object: &Value, _: &Value, errors: &mut ErrorList) {
    if name == "status" {
        validate_status(object, errors);
    }
}

fn refuse_preserving(errors: &mut ErrorList) {
    let why = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
    errors.invalid(SPEC.child("preserveUnknownFields"), &Value::from(true), why);
}

/// The name of a definition is that of its resource and group.
fn validate_name(object: &Value, errors: &mut ErrorList) {
    let plural = object.str_at(&["spec", "names", "plural"]).unwrap_or_default();
    for (key, field) in [("generateName", "metadata.generateName"), ("name", "metadata.name")] {
        let name = object.str_at(&["metadata", key]).unwrap_or_default();
        let is_it = name.strip_prefix(plural).and_then(|rest| rest.strip_prefix('.'));
        if !name.is_empty() && is_it != Some(text(spec(object), "group")) {
            let why = "must be spec.names.plural+\".\"+spec.group";
            errors.invalid(field, &Value::from(name), why);
        }
    }
}

/// Adds all errors of a text as one.
fn complain_once(text: &str, before: &str, complaints: &[String], at: &Field<'_>, errors: &mut ErrorList) {
    if !complaints.is_empty() {
        errors.invalid(at, &Value::from(text), format!("{before}{}", complaints.join(",")));
    }
}

fn validate_spec(spec: &Value, leeway: &Leeway<'_>, errors: &mut ErrorList) {
    let versions = list(spec, "versions");
    validate_group(text(spec, "group"), &SPEC.child("group"), errors);
    match text(spec, "scope") {
        "Cluster" | "Namespaced" => {}
        "" => errors.required(SPEC.child("scope"), ""),
        other => {
            let scope = Value::from(other);
            errors.not_supported(SPEC.child("scope"), &scope, &["Cluster", "Namespaced"]);
        }
    }
    for (i, _) in versions.iter().enumerate().filter(|(_, v)| of(member(v, "schema")).is_none()) {
        let at = VERSIONS.index(i);
        let at = at.child("schema");
        if !leeway.schemas {
            errors.required(at.child("openAPIV3Schema"), "");
        } else if versions.get(i).is_some_and(|version| flag(version, "served")) {
            errors.required(at.child("openAPIV3Schema"), "because otherwise all fields are pruned");
        }
    }
    let schemas = || versions.iter().filter_map(|version| of(member(version, "schema")));
    let has_default = |schema| any(schema, &mut |schema| member(schema, "default").is_some());
    if flag(spec, "preserveUnknownFields") && schemas().any(has_default) {
        let why = "must be false in order to use defaults in the schema";
        errors.invalid(SPEC.child("preserveUnknownFields"), &Value::from(true), why);
    }
    let agreed = agreed(versions);
    for (i, version) in versions.iter().enumerate() {
        let name = text(version, "name");
        let at = VERSIONS.index(i);
        complain_once(name, "", &names::dns1035_label(name), &at.child("name"), errors);
        validate_version(version, &agreed, leeway, &at, errors);
    }
    validate_version_set(spec, errors);
    validate_names(spec.get("names").unwrap_or(&Value::Null), true, &SPEC.child("names"), errors);
    validate_shared(versions, leeway, errors);
    conversion::validate(spec, leeway.review_versions, &SPEC.child("conversion"), errors);
}

fn validate_group(group: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if group.is_empty() {
        errors.required(at, "");
        return;
    }
    let complaints = names::dns1123_subdomain(group);
    if complaints.is_empty() && !group.contains('.') {
        errors.invalid(at, &Value::from(group), "should be a domain with at least one dot");
    }
    complain_once(group, "", &complaints, at, errors);
}

/// The part of a version that is its own.
fn validate_version(
    version: &Value,
    agreed: &[&str],
    leeway: &Leeway<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_deprecation(version, &at.child("deprecationWarning"), errors);
    let own = |key: &str| member(version, key).filter(|_| !agreed.contains(&key));
    let is_unchanged = leeway.keeps_schema(version);
    validate_validation(
        own("schema"),
        has_status(version),
        is_unchanged,
        leeway,
        &at.child("schema"),
        errors,
    );
    if let Some(subresources) = own("subresources") {
        validate_subresources(subresources, &at.child("subresources"), errors);
    }
    let columns = own("additionalPrinterColumns").and_then(Value::as_array).unwrap_or_default();
    validate_columns(columns, &at.child("additionalPrinterColumns"), errors);
    let fields = own("selectableFields").and_then(Value::as_array).unwrap_or_default();
    let at = at.child("selectableFields");
    let why = "may only be set when `version.schema.openAPIV3Schema` is not included";
    if fields.is_empty() || refuse_without_schema(own("schema"), why, &at, errors) {
        return;
    }
    let schema = of(own("schema")).unwrap_or(&Value::Null);
    let any_number = may_keep_fields(version, leeway.old_versions);
    validate_selectable_fields(fields, schema, any_number, &at, errors);
}

/// The part that all versions share.
fn validate_shared(versions: &[Value], leeway: &Leeway<'_>, errors: &mut ErrorList) {
    let schema = shared(versions, "schema");
    let any_status = versions.iter().any(has_status);
    // Upstream takes the first version for that of the shared schema.
    let is_unchanged = versions.first().is_some_and(|version| leeway.keeps_schema(version));
    validate_validation(schema, any_status, is_unchanged, leeway, &SPEC.child("validation"), errors);
    if let Some(subresources) = shared(versions, "subresources") {
        validate_subresources(subresources, &SPEC.child("subresources"), errors);
    }
    let columns = shared(versions, "additionalPrinterColumns").and_then(Value::as_array).unwrap_or_default();
    validate_columns(columns, &SPEC.child("additionalPrinterColumns"), errors);
    let fields = shared(versions, "selectableFields").and_then(Value::as_array).unwrap_or_default();
    let at = SPEC.child("selectableFields");
    let why = "may only be set when validations.schema is included";
    if fields.is_empty() || refuse_without_schema(schema, why, &at, errors) {
        return;
    }
    let any_number = versions.iter().all(|version| may_keep_fields(version, leeway.old_versions));
    validate_selectable_fields(fields, of(schema).unwrap_or(&Value::Null), any_number, &at, errors);
}

fn validate_deprecation(version: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(warning) = member(version, "deprecationWarning") else { return };
    let text = warning.as_str().unwrap_or_default();
    let mut refuse = |why: String| errors.invalid(at, warning, why);
    if !flag(version, "deprecated") {
        refuse("can only be set for deprecated versions".to_owned());
        return;
    }
    if text.len() > WARNING_MAX_LENGTH {
        refuse(format!("must be <= {WARNING_MAX_LENGTH} characters long"));
    }
    if text.is_empty() {
        refuse("must not be an empty string".to_owned());
    }
    if let Some((i, _)) = text.char_indices().find(|(_, c)| c.is_control()) {
        refuse(format!(
            "must only contain printable UTF-8 characters; non-printable character found at index {i}"
        ));
    }
}

fn validate_validation(
    validation: Option<&Value>,
    has_status: bool,
    is_unchanged: bool,
    leeway: &Leeway<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let Some(schema) = of(validation) else { return };
    let before = errors.0.len();
    if has_status {
        validate_root_with_status(schema, at, errors);
    }
    if flag(schema, "nullable") {
        errors.forbidden(at.child("openAPIV3Schema.nullable"), "nullable cannot be true at the root");
    }
    let at = at.child("openAPIV3Schema");
    let unsupported = structural::unsupported(schema);
    let structural_errors = errors.0.len();
    if unsupported.is_none() {
        structural::validate_structural(schema, &at, errors);
    }
    let compiled = Schema::compile_unpruned(schema).ok().filter(|_| errors.0.len() == structural_errors);
    if let Some(compiled) = &compiled {
        validate_defaults(compiled, !leeway.defaults, &at, errors);
    }
    let found = errors.0.len();
    validate_schema(schema, Place::ROOT, leeway, &at, errors);
    if let Some(compiled) = compiled.filter(|_| found == structural_errors && errors.0.len() == found) {
        validate_rules(&compiled, &leeway.expressions, is_unchanged, &at, errors);
    }
    if let Some(why) = unsupported.filter(|_| errors.0.len() == before) {
        errors.invalid(at, &Value::from(""), why);
    }
}

/// An empty schema is one that is set, where there is room for a single one.
fn is_forbidden(key: &str, value: &Value) -> bool {
    let single = matches!(key, "not" | "additionalProperties" | "additionalItems");
    if single { !value.is_null() } else { is_set(value) }
}

/// With a status subresource, the root schema is split, so keywords that apply to the whole object are refused.
fn validate_root_with_status(schema: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const ALLOWED: &str = "Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs Example XPreserveUnknownFields XValidations";
    const FORBIDDEN: [&str; 20] = [
        "id",
        "$schema",
        "$ref",
        "nullable",
        "default",
        "enum",
        "maxProperties",
        "minProperties",
        "allOf",
        "oneOf",
        "anyOf",
        "not",
        "additionalProperties",
        "patternProperties",
        "dependencies",
        "additionalItems",
        "definitions",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-int-or-string",
        "x-kubernetes-map-type",
    ];
    let kind = text(schema, "type");
    if !matches!(kind, "" | "object") {
        let why = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        errors.invalid(at.child("openAPIV3Schema.type"), &Value::from(kind), why);
    } else if FORBIDDEN.iter().any(|key| schema.get(key).is_some_and(|value| is_forbidden(key, value))) {
        let why = format!(
            "only [{ALLOWED}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.invalid_shown(at.child("openAPIV3Schema"), shown::schema(schema), why);
    }
}

/// One version is stored, and all names are unique.
fn validate_version_set(spec: &Value, errors: &mut ErrorList) {
    let versions = list(spec, "versions");
    let repeats = Repeats::of(versions, |version| text(version, "name"));
    if (0..versions.len()).any(|i| repeats.at(i)) {
        errors.invalid_shown(VERSIONS, shown_versions(spec), "must contain unique version names");
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        let why = "must have exactly one version marked as storage version";
        errors.invalid_shown(VERSIONS, shown_versions(spec), why);
    }
    let first = versions.first().map(|version| text(version, "name"));
    if let Some(first) = first.filter(|first| !first.is_empty()) {
        complain_once(first, "", &names::dns1035_label(first), &SPEC.child("version"), errors);
    }
}

/// Versions as upstream prints them: without the parts that they share.
fn shown_versions(spec: &Value) -> String {
    let Some(versions) = spec.get("versions").and_then(Value::as_array) else { return "null".to_owned() };
    let agreed = agreed(versions);
    let versions: Vec<String> = versions.iter().map(|version| shown::version(version, &agreed)).collect();
    format!("[{}]", versions.join(","))
}

fn validate_status(object: &Value, errors: &mut ErrorList) {
    let names = object.at(&["status", "acceptedNames"]).unwrap_or(&Value::Null);
    validate_names(names, false, &Field::new("status").child("acceptedNames"), errors);
}

/// Names of the resource. The accepted ones may still be missing.
fn validate_names(resource: &Value, required: bool, at: &Field<'_>, errors: &mut ErrorList) {
    const KEYS: [&str; 4] = ["plural", "singular", "kind", "listKind"];
    for key in KEYS.into_iter().filter(|key| required && text(resource, key).is_empty()) {
        errors.required(at.child(key), "");
    }
    for key in KEYS {
        let name = text(resource, key);
        let (before, complaints) = match key {
            _ if name.is_empty() => continue,
            "plural" | "singular" => ("", names::dns1035_label(name)),
            _ => {
                let before = "may have mixed case, but should otherwise match: ";
                (before, names::dns1035_label(&name.to_lowercase()))
            }
        };
        complain_once(name, before, &complaints, &at.child(key), errors);
    }
    validate_labels(list(resource, "shortNames"), &at.child("shortNames"), errors);
    let kind = text(resource, "kind");
    if !kind.is_empty() && kind == text(resource, "listKind") {
        errors.invalid(at.child("listKind"), &Value::from(kind), "kind and listKind may not be the same");
    }
    validate_labels(list(resource, "categories"), &at.child("categories"), errors);
}

fn validate_labels(labels: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    for (i, label) in labels.iter().enumerate() {
        let label = label.as_str().unwrap_or_default();
        complain_once(label, "", &names::dns1035_label(label), &at.index(i), errors);
    }
}

/// Every version that objects may be stored in still exists.
fn validate_stored_versions(object: &Value, errors: &mut ErrorList) {
    let stored = object.items_at(&["status", "storedVersions"]);
    if stored.is_empty() {
        errors.invalid_shown(STORED_VERSIONS, "null", "must have at least one stored version");
        return;
    }
    let versions = list(spec(object), "versions");
    let known: HashSet<&str> = versions.iter().map(|version| text(version, "name")).collect();
    let mut stored_names: HashSet<&str> = stored.iter().filter_map(Value::as_str).collect();
    for version in versions {
        let name = text(version, "name");
        // A name that two versions share is found by the first only.
        if !stored_names.remove(name) && flag(version, "storage") {
            let why = format!("must have the storage version {name}");
            errors.invalid(STORED_VERSIONS, &Value::from(stored.to_vec()), why);
        }
    }
    for (i, stored) in stored.iter().enumerate() {
        let name = stored.as_str().unwrap_or_default();
        if !known.contains(name) {
            let why = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.invalid(STORED_VERSIONS.index(i), stored, why);
        }
    }
}

/// The approval of a resource in a group of the Kubernetes community.
#[derive(PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

fn approval(object: &Value) -> Approval {
    match object.str_at(&["metadata", "annotations", APPROVAL]).unwrap_or_default() {
        "" => Approval::Missing,
        text if text.starts_with("unapproved") => Approval::Bypassed,
        text => match url::parse(text) {
            Ok(url) if !url.host.is_empty() && !url.scheme.is_empty() => Approval::Approved,
            _ => Approval::Invalid,
        },
    }
}

fn validate_approval(object: &Value, old: Option<&Value>, errors: &mut ErrorList) {
    let group = text(spec(object), "group");
    let is_protected = ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')));
    let state = approval(object);
    if !is_protected || old.is_some_and(|old| approval(old) == state) {
        return;
    }
    const ANNOTATIONS: Field<'static> = Field::new("metadata").child("annotations");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    let must = format!("protected groups must have approval annotation \"{APPROVAL}\"");
    match state {
        Approval::Approved | Approval::Bypassed => {}
        Approval::Missing => errors.required(ANNOTATIONS.key(APPROVAL), format!("{must}, {see}")),
        Approval::Invalid => {
            let said = object.at(&["metadata", "annotations", APPROVAL]).unwrap_or(&Value::Null);
            let why = format!("{must} with either a URL or a reason starting with \"unapproved\", {see}");
            errors.invalid(ANNOTATIONS.key(APPROVAL), said, why);
        }
    }
}
