//! Claims of storage: the specification that persistent volume claims and templates of them share.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::fields::any_of;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector, validate_labels};
use crate::validation::resources::{amount, spelled};
use crate::validation::text::{complain, list, member, optional, text};

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// A template of a claim: only labels and annotations of its metadata are used, so nothing else may be set.
pub(crate) fn validate_volume_claim_template(template: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(metadata) = member(template, "metadata") {
        let at = at.child("metadata");
        if let Some(annotations) = member(metadata, "annotations") {
            names::validate_annotations(Some(annotations), &at.child("annotations"), errors);
        }
        validate_labels(metadata.get("labels"), &at.child("labels"), errors);
        validate_no_other_metadata(metadata, &at, errors);
    }
    let spec = template.get("spec").unwrap_or(&Value::Null);
    let options = LabelSelectorOptions::default();
    validate_volume_claim_spec(spec, options, false, &at.child("spec"), errors);
}

/// `keeps_groups`: the groups of stored data sources are not validated again.
pub(crate) fn validate_volume_claim_spec(
    spec: &Value,
    options: LabelSelectorOptions,
    keeps_groups: bool,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let modes = list(spec, "accessModes");
    if modes.is_empty() {
        errors.required(at.child("accessModes"), "at least 1 access mode is required");
    }
    validate_label_selector(member(spec, "selector"), options, &at.child("selector"), errors);
    validate_access_modes(modes, &at.child("accessModes"), errors);
    validate_storage(spec, &at.child("resources").key("storage"), errors);
    optional(text(spec, "storageClassName"), names::dns1123_subdomain, &at.child("storageClassName"), errors);
    any_of(spec, "volumeMode", &["Block", "Filesystem"], at, errors);
    validate_data_sources(spec, keeps_groups, at, errors);
    let class = text(spec, "volumeAttributesClassName");
    optional(class, names::dns1123_subdomain, &at.child("volumeAttributesClassName"), errors);
}

pub(crate) fn validate_access_modes(modes: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    const SINGLE: &str = "ReadWriteOncePod";
    let texts = || modes.iter().map(|mode| mode.as_str().unwrap_or_default());
    for mode in texts().filter(|mode| !ACCESS_MODES.contains(mode)) {
        errors.not_supported(at, &Value::from(mode), &ACCESS_MODES);
    }
    let other = texts().any(|mode| mode != SINGLE && ACCESS_MODES.contains(&mode));
    if other && texts().any(|mode| mode == SINGLE) {
        errors.forbidden(at, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_storage(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match spec.at(&["resources", "requests", "storage"]) {
        None => errors.required(at, ""),
        Some(size) if amount(size).is_negative() || amount(size).is_zero() => {
            errors.invalid(at, &spelled(size), "must be greater than zero");
        }
        Some(_) => {}
    }
}

fn validate_data_sources(spec: &Value, keeps_groups: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let (source, reference) = (member(spec, "dataSource"), member(spec, "dataSourceRef"));
    if let Some(source) = source {
        validate_data_source(source, keeps_groups, &at.child("dataSource"), errors);
    }
    if let Some(reference) = reference {
        let at = at.child("dataSourceRef");
        validate_data_source(reference, keeps_groups, &at, errors);
        optional(text(reference, "namespace"), names::namespace_name, &at.child("namespace"), errors);
    }
    let (Some(source), Some(reference)) = (source, reference) else { return };
    let same =
        ["apiGroup", "kind", "name"].into_iter().all(|key| member(source, key) == member(reference, key));
    let why = if !text(reference, "namespace").is_empty() {
        "may not be specified when dataSourceRef.namespace is specified"
    } else if !same {
        "must match dataSourceRef"
    } else {
        return;
    };
    // Upstream prints the path of the source in its internal form, which is empty.
    errors.invalid_shown(at, "{}", why);
}

fn validate_data_source(source: &Value, keeps_groups: bool, at: &Field<'_>, errors: &mut ErrorList) {
    for key in ["name", "kind"] {
        if text(source, key).is_empty() {
            errors.required(at.child(key), "");
        }
    }
    let (group, kind) = (text(source, "apiGroup"), text(source, "kind"));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(at, &Value::from(kind), why);
    }
    if !group.is_empty() && !keeps_groups {
        complain(&at.child("apiGroup"), group, names::dns1123_subdomain(group), errors);
    }
}

/// The metadata of a template has labels and annotations only. Paths have the names of upstream's Go fields.
pub(crate) fn validate_no_other_metadata(metadata: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let fields = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    for (key, shown) in fields {
        if member(metadata, key).is_some() {
            errors.forbidden(at.child(shown), "cannot be set");
        }
    }
}
