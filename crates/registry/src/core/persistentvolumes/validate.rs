//! Validation of volumes and their updates.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::sources;
use crate::prepare::{copy, same};
use crate::validation::diff;
use crate::validation::fields::{IMMUTABLE, any_of, entries, part};
use crate::validation::internal_form;
use crate::validation::node_labels::expression_warnings;
use crate::validation::node_selector::{NodeSelectorValues, has_invalid_values, validate_node_selector};
use crate::validation::resources::{amount, spelled};
use crate::validation::text::{complain, list, member, text};
use crate::validation::volume_claim::validate_access_modes;

const SPEC: Field<'static> = Field::new("spec");
const METADATA: Field<'static> = Field::new("metadata");
const MOUNT_OPTIONS: &str = "volume.beta.kubernetes.io/mount-options";
const INLINE: &str = "may not be specified in the context of inline volumes";

pub(super) fn create(volume: &Value, errors: &mut ErrorList) {
    validate(volume, NodeSelectorValues::Checked, errors);
    validate_mount_options(volume, errors);
}

/// The volume as a whole, twice as upstream does, then the immutable fields.
pub(super) fn update(volume: &Value, old: &Value, errors: &mut ErrorList) {
    let terms = old.items_at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]);
    let values = match terms.iter().any(has_invalid_values) {
        true => NodeSelectorValues::Unchecked,
        false => NodeSelectorValues::Checked,
    };
    validate(volume, values, errors);
    validate_mount_options(volume, errors);
    validate(volume, values, errors);
    validate_source_is_kept(volume, old, errors);
    let (spec, old) = (part(volume, "spec"), part(old, "spec"));
    if !same(spec, old, &["volumeMode"]) {
        errors.invalid("volumeMode", part(spec, "volumeMode"), IMMUTABLE);
    }
    if member(old, "nodeAffinity").is_some() && !is_same_affinity(spec, old) {
        let shown = internal_form::compact("VolumeNodeAffinity", part(spec, "nodeAffinity"));
        let why = "field is immutable, except for updating from beta label to GA";
        errors.invalid_shown("nodeAffinity", shown, why);
    }
    let class = "volumeAttributesClassName";
    if member(old, class).is_some() && member(spec, class).is_none() {
        errors.forbidden(SPEC.child(class), "update from non-nil value to nil is forbidden");
    }
}

fn validate(volume: &Value, values: NodeSelectorValues, errors: &mut ErrorList) {
    let spec = part(volume, "spec");
    validate_access(spec, &SPEC, errors);
    validate_capacity(spec, errors);
    let policies = ["Delete", "Recycle", "Retain"];
    let policy = text(spec, "persistentVolumeReclaimPolicy");
    if !policy.is_empty() {
        any_of(spec, "persistentVolumeReclaimPolicy", &policies, &SPEC, errors);
    }
    let affinity = member(spec, "nodeAffinity");
    if let Some(affinity) = affinity {
        validate_affinity(affinity, values, errors);
    }
    let name = volume.str_at(&["metadata", "name"]).unwrap_or_default();
    sources::validate(spec, name, affinity.is_some(), &SPEC, errors);
    if policy == "Recycle" && is_root(spec.str_at(&["hostPath", "path"]).unwrap_or_default()) {
        let why = "may not be 'recycle' for a hostPath mount of '/'";
        errors.forbidden(SPEC.child("persistentVolumeReclaimPolicy"), why);
    }
    let class = text(spec, "storageClassName");
    if !class.is_empty() {
        complain(&SPEC.child("storageClassName"), class, names::dns1123_subdomain(class), errors);
    }
    any_of(spec, "volumeMode", &["Block", "Filesystem"], &SPEC, errors);
    validate_attributes_class(spec, errors);
}

fn validate_access(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (modes, at) = (list(spec, "accessModes"), at.child("accessModes"));
    if modes.is_empty() {
        errors.required(at, "");
    }
    validate_access_modes(modes, &at, errors);
}

/// The capacity is `storage` and nothing else.
fn validate_capacity(spec: &Value, errors: &mut ErrorList) {
    let at = SPEC.child("capacity");
    let count = entries(spec, "capacity").count();
    if count == 0 {
        errors.required(at, "");
    }
    if count != 1 || spec.at(&["capacity", "storage"]).is_none() {
        errors.not_supported(at, part(spec, "capacity"), &["storage"]);
    }
    for (name, value) in entries(spec, "capacity") {
        let (at, amount) = (at.key(name), amount(value));
        if amount.value() < 0 {
            errors.invalid(at, &Value::from(amount.value()), "must be a valid resource quantity");
        }
        if amount.is_negative() || amount.is_zero() {
            errors.invalid(at, &spelled(value), "must be greater than zero");
        }
    }
}

fn validate_affinity(affinity: &Value, values: NodeSelectorValues, errors: &mut ErrorList) {
    let at = SPEC.child("nodeAffinity");
    match member(affinity, "required") {
        Some(required) => validate_node_selector(required, values, &at.child("required"), errors),
        None => errors.required(at.child("required"), "must specify required node constraints"),
    }
}

/// Returns true if a path is the root of a file system, in any spelling.
fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/').filter(|part| !matches!(*part, "" | ".")) {
        depth = if part == ".." { depth.saturating_sub(1) } else { depth + 1 };
    }
    path.starts_with('/') && depth == 0
}

fn validate_attributes_class(spec: &Value, errors: &mut ErrorList) {
    let at = SPEC.child("volumeAttributesClassName");
    match spec.str_at(&["volumeAttributesClassName"]) {
        None => return,
        Some("") => errors.required(at, "an empty string is disallowed"),
        Some(class) => complain(&at, class, names::dns1123_subdomain(class), errors),
    }
    if member(spec, "csi").is_none() {
        errors.required(SPEC.child("csi"), "has to be specified when using volumeAttributesClassName");
    }
}

/// Mount options in the older annotation, which not every source supports.
fn validate_mount_options(volume: &Value, errors: &mut ErrorList) {
    const KNOWN: [&str; 13] = [
        "gcePersistentDisk",
        "awsElasticBlockStore",
        "glusterfs",
        "nfs",
        "rbd",
        "quobyte",
        "iscsi",
        "cinder",
        "cephfs",
        "azureFile",
        "vsphereVolume",
        "azureDisk",
        "photonPersistentDisk",
    ];
    let spec = part(volume, "spec");
    let annotated = volume.at(&["metadata", "annotations", MOUNT_OPTIONS]).is_some();
    if annotated && !KNOWN.iter().any(|source| member(spec, source).is_some()) {
        let at = METADATA.child("annotations");
        errors.forbidden(at.child(MOUNT_OPTIONS), "may not specify mount options for this volume type");
    }
}

/// The source is immutable, but for a secret that was not needed before.
fn validate_source_is_kept(volume: &Value, old: &Value, errors: &mut ErrorList) {
    const SOURCE: &str = "PersistentVolumeSource";
    const EXPAND: &[&str] = &["csi", "controllerExpandSecretRef"];
    let (spec, old) = (part(volume, "spec"), part(old, "spec"));
    let mut shown = internal_form::pretty(SOURCE, spec);
    let before = internal_form::pretty(SOURCE, old);
    if shown == before {
        return;
    }
    if member(old, "csi").is_some() && member(spec, "csi").is_some() && old.at(EXPAND).is_none() {
        let mut spec = spec.clone();
        copy(&mut spec, old, EXPAND);
        shown = internal_form::pretty(SOURCE, &spec);
    }
    if shown != before {
        let diff = diff::unified(&before, &shown);
        let why = format!("spec.persistentvolumesource is immutable after creation\n{diff}");
        errors.forbidden(SPEC.child("persistentvolumesource"), why);
    }
}

/// Returns true if only deprecated labels changed, to their replacements.
fn is_same_affinity(spec: &Value, old: &Value) -> bool {
    const TERMS: &[&str] = &["nodeAffinity", "required", "nodeSelectorTerms"];
    let (new_terms, old_terms) = (spec.items_at(TERMS), old.items_at(TERMS));
    let is_same = |new: &Value, old: &Value| {
        let (news, olds) = (list(new, "matchExpressions"), list(old, "matchExpressions"));
        same(new, old, &["matchFields"])
            && news.len() == olds.len()
            && news.iter().zip(olds).all(|(new, old)| is_same_expression(new, old))
    };
    part(spec, "nodeAffinity") == part(old, "nodeAffinity")
        || member(spec, "nodeAffinity").is_some()
            && new_terms.len() == old_terms.len()
            && new_terms.iter().zip(old_terms).all(|(new, old)| is_same(new, old))
}

fn is_same_expression(new: &Value, old: &Value) -> bool {
    let replaced = match text(old, "key") {
        "failure-domain.beta.kubernetes.io/zone" => "topology.kubernetes.io/zone",
        "failure-domain.beta.kubernetes.io/region" => "topology.kubernetes.io/region",
        "beta.kubernetes.io/os" => "kubernetes.io/os",
        "beta.kubernetes.io/arch" => "kubernetes.io/arch",
        "beta.kubernetes.io/instance-type" => "node.kubernetes.io/instance-type",
        key => key,
    };
    let key = text(new, "key");
    (key == replaced || key == text(old, "key"))
        && same(new, old, &["operator"])
        && list(new, "values") == list(old, "values")
}

/// A volume that is described where it is attached: it must be a CSI volume.
pub(crate) fn validate_inline(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    for key in ["claimRef", "capacity"] {
        let there = member(spec, key).is_some() && (key != "capacity" || entries(spec, key).next().is_some());
        if there {
            errors.forbidden(at.child(key), INLINE);
        }
    }
    if member(spec, "csi").is_none() {
        errors.required(at.child("csi"), "has to be specified in the context of inline volumes");
    }
    validate_access(spec, at, errors);
    if !matches!(text(spec, "persistentVolumeReclaimPolicy"), "" | "Retain") {
        let why = "may only be Retain in the context of inline volumes";
        errors.forbidden(at.child("persistentVolumeReclaimPolicy"), why);
    }
    if member(spec, "nodeAffinity").is_some() {
        errors.forbidden(at.child("nodeAffinity"), INLINE);
    }
    sources::validate(spec, "", false, at, errors);
    if !text(spec, "storageClassName").is_empty() {
        errors.forbidden(at.child("storageClassName"), INLINE);
    }
    if spec.str_at(&["volumeMode"]).is_some_and(|mode| mode != "Filesystem") {
        let why = "may not specify volumeMode other than Filesystem in the context of inline volumes";
        errors.forbidden(at.child("volumeMode"), why);
    }
}

pub(super) fn warnings(volume: &Value) -> Vec<String> {
    let (mut warnings, spec) = (Vec::new(), part(volume, "spec"));
    let annotations = [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        (MOUNT_OPTIONS, "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    for (key, message) in annotations {
        if volume.at(&["metadata", "annotations", key]).is_some() {
            warnings.push(format!("metadata.annotations[{key}]: {message}"));
        }
    }
    if text(spec, "persistentVolumeReclaimPolicy") == "Recycle" {
        let warning = "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.";
        warnings.push(warning.to_owned());
    }
    let affinity = SPEC.child("nodeAffinity");
    let required = affinity.child("required");
    let at = required.child("nodeSelectorTerms");
    let terms = spec.items_at(&["nodeAffinity", "required", "nodeSelectorTerms"]);
    for (i, term) in terms.iter().enumerate() {
        expression_warnings(term, &at.index(i), &mut warnings);
    }
    let gone = [
        ("cephfs", "cephfs", "deprecated in v1.28, non-functional in v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
        ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
        ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
        ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
        ("rbd", "rbd", "deprecated in v1.28, non-functional in v1.31+"),
    ];
    for (_, shown, message) in gone.into_iter().filter(|(key, ..)| member(spec, key).is_some()) {
        warnings.push(format!("{}: {message}", SPEC.child(shown)));
    }
    warnings
}
