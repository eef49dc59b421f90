//! Validation of claims and their updates: mostly immutable, but for expansion once they are bound.

use corten_api::quantity::Quantity;
use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::{copy, same};
use crate::validation::diff;
use crate::validation::fields::{IMMUTABLE, entries, part};
use crate::validation::internal_form::pretty;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::resources::{amount, is_native, spelled, validate_quantity};
use crate::validation::text::{complain, list, member, text};
use crate::validation::volume_claim::validate_volume_claim_spec;

const SPEC: Field<'static> = Field::new("spec");
const STATUS: Field<'static> = Field::new("status");
const STORAGE: &str = "storage";
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const CLASS_ANNOTATED: &[&str] = &["metadata", "annotations", CLASS_ANNOTATION];
const ATTRIBUTES_CLASS: &str = "volumeAttributesClassName";
const REQUESTED: &[&str] = &["resources", "requests", STORAGE];

pub(super) fn create(claim: &Value, errors: &mut ErrorList) {
    let options = LabelSelectorOptions::default();
    validate_volume_claim_spec(part(claim, "spec"), options, false, &SPEC, errors);
}

pub(super) fn update(claim: &Value, old: &Value, errors: &mut ErrorList) {
    let (spec, old_spec) = (part(claim, "spec"), part(old, "spec"));
    let has_group = |key: &str| old_spec.at(&[key, "apiGroup"]).is_some_and(|group| !group.is_null());
    let keeps_groups = has_group("dataSource") || has_group("dataSourceRef");
    validate_volume_claim_spec(spec, tolerated(old_spec), keeps_groups, &SPEC, errors);
    let from_annotation = is_class_from_annotation(claim, old);
    if !from_annotation {
        validate_annotation_is_kept(claim, old, errors);
    }
    validate_spec_is_kept(claim, old, from_annotation, errors);
    validate_size(spec, old, errors);
    if !same(spec, old_spec, &["volumeMode"]) {
        errors.invalid("volumeMode", part(spec, "volumeMode"), IMMUTABLE);
    }
    validate_attributes_class(spec, old, errors);
}

/// A stored selector is not validated again.
fn tolerated(old_spec: &Value) -> LabelSelectorOptions {
    let mut found = ErrorList::new();
    validate_label_selector(
        member(old_spec, "selector"),
        LabelSelectorOptions::default(),
        &Field::ROOT,
        &mut found,
    );
    LabelSelectorOptions { allow_invalid_values: !found.is_empty() }
}

/// Returns true if the class moves from the annotation, where it used to be, to the field.
fn is_class_from_annotation(claim: &Value, old: &Value) -> bool {
    let Some(annotated) = old.str_at(CLASS_ANNOTATED) else { return false };
    old.str_at(&["spec", "storageClassName"]).is_none()
        && claim.str_at(&["spec", "storageClassName"]) == Some(annotated)
        && claim.str_at(CLASS_ANNOTATED).is_none_or(|new| new == annotated)
}

fn validate_annotation_is_kept(claim: &Value, old: &Value, errors: &mut ErrorList) {
    let annotation = |claim: &Value| claim.str_at(CLASS_ANNOTATED).unwrap_or_default().to_owned();
    if annotation(claim) != annotation(old) {
        let metadata = Field::new("metadata");
        let at = metadata.child("annotations");
        errors.invalid(at.child(CLASS_ANNOTATION), &Value::from(annotation(claim)), IMMUTABLE);
    }
}

fn is_bound(claim: &Value) -> bool {
    claim.str_at(&["status", "phase"]) == Some("Bound")
}

/// The spec is immutable, but for fields that are set later and those that a bound claim may change.
fn validate_spec_is_kept(claim: &Value, old: &Value, from_annotation: bool, errors: &mut ErrorList) {
    const SPEC_TYPE: &str = "PersistentVolumeClaimSpec";
    let (mut new, mut kept) = (part(claim, "spec").clone(), part(old, "spec").clone());
    if text(&kept, "volumeName").is_empty() {
        copy(&mut kept, &new, &["volumeName"]);
    }
    let class = new.str_at(&["storageClassName"]).map(str::to_owned);
    let annotated = old.str_at(CLASS_ANNOTATED);
    let class_comes = kept.str_at(&["storageClassName"]).is_none()
        && class.is_some_and(|class| annotated.is_none_or(|annotated| annotated == class));
    if from_annotation || class_comes {
        copy(&mut new, &kept, &["storageClassName"]);
    }
    if is_bound(claim) {
        if new.at(&["resources", "requests"]).is_some() {
            copy(&mut new, &kept, REQUESTED);
        }
        copy(&mut new, &kept, &[ATTRIBUTES_CLASS]);
    }
    copy_equal_amounts(&mut new, &kept);
    let (before, shown) = (pretty(SPEC_TYPE, &kept), pretty(SPEC_TYPE, &new));
    if before != shown {
        let diff = diff::unified(&before, &shown);
        errors.forbidden(SPEC, format!("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{diff}"));
    }
}

/// Equal quantities count as unchanged, whatever their notation.
fn copy_equal_amounts(new: &mut Value, old: &Value) {
    for list in ["limits", "requests"] {
        for (name, kept) in entries(part(old, "resources"), list) {
            let path = ["resources", list, name];
            if new.at(&path).is_some_and(|value| amount(value) == amount(kept)) {
                new.set(&path, kept.clone());
            }
        }
    }
}

/// A claim whose expansion failed may shrink again, but not below its capacity.
fn validate_size(spec: &Value, old: &Value, errors: &mut ErrorList) {
    let size = |tree: &Value, path: &[&str]| tree.at(path).map_or(Quantity::ZERO, amount);
    let requested = size(spec, REQUESTED);
    let shrinks = requested < size(part(old, "spec"), REQUESTED);
    if shrinks && requested <= size(old, &["status", "capacity", STORAGE]) {
        let at = SPEC.child("resources");
        let requests = at.child("requests");
        errors.forbidden(requests.child(STORAGE), "field can not be less than status.capacity");
    }
}

/// An applied class can be replaced, not removed.
fn validate_attributes_class(spec: &Value, old: &Value, errors: &mut ErrorList) {
    let applied = member(part(old, "status"), "currentVolumeAttributesClassName").is_some();
    if !applied || same(spec, part(old, "spec"), &[ATTRIBUTES_CLASS]) {
        return;
    }
    let to = match spec.str_at(&[ATTRIBUTES_CLASS]) {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let why = format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.forbidden(SPEC.child(ATTRIBUTES_CLASS), why);
}

pub(super) fn status(claim: &Value, errors: &mut ErrorList) {
    if list(part(claim, "spec"), "accessModes").is_empty() {
        errors.required("Spec.accessModes", "");
    }
    let status = part(claim, "status");
    let at = STATUS.child("capacity");
    for (name, value) in entries(status, "capacity") {
        validate_basic(value, &at.key(name), errors);
    }
    let at = STATUS.child("allocatedResourceStatuses");
    for (name, value) in entries(status, "allocatedResourceStatuses") {
        validate_key(name, &at, errors);
        let known = [
            "ControllerResizeInProgress",
            "ControllerResizeInfeasible",
            "NodeResizeInProgress",
            "NodeResizeInfeasible",
            "NodeResizePending",
        ];
        if !known.contains(&value.as_str().unwrap_or_default()) {
            errors.not_supported(at, &Value::from(name), &known);
        }
    }
    let at = STATUS.child("allocatedResources");
    for (name, value) in entries(status, "allocatedResources") {
        if validate_key(name, &at, errors) && validate_basic(value, &at.key(name), errors) {
            validate_quantity(STORAGE, value, &at.key(name), errors);
        }
    }
}

fn validate_basic(value: &Value, at: &Field<'_>, errors: &mut ErrorList) -> bool {
    let whole = amount(value).value();
    if whole < 0 {
        errors.invalid(at, &Value::from(whole), "must be a valid resource quantity");
    }
    whole >= 0
}

/// The resource is `storage`, or an extended one.
fn validate_key(name: &str, at: &Field<'_>, errors: &mut ErrorList) -> bool {
    let before = errors.0.len();
    complain(at, name, names::qualified_name(name), errors);
    if errors.0.len() == before && is_native(name) && name != STORAGE {
        errors.not_supported(at, &Value::from(name), &[STORAGE]);
    }
    errors.0.len() == before
}

pub(super) fn warnings(claim: &Value) -> Vec<String> {
    let mut warnings = Vec::new();
    if claim.at(CLASS_ANNOTATED).is_some() {
        warnings.push(format!(
            "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
        ));
    }
    for list in ["requests", "limits"] {
        let Some(size) = claim.at(&["spec", "resources", list, STORAGE]) else { continue };
        if amount(size).milli_value() % 1000 != 0 {
            let size = spelled(size);
            let size = size.as_str().unwrap_or_default();
            warnings.push(format!(
                "spec.resources.{list}[{STORAGE}]: fractional byte value {size:?} is invalid, must be an integer"
            ));
        }
    }
    warnings
}
