//! All kinds of volume sources, in upstream's order. Exactly one is set.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::csi::validate_csi_driver_name;
use crate::validation::number::{in_range, int};
use crate::validation::path::no_backsteps;
use crate::validation::pod_context::is;
use crate::validation::text::{complain, member, optional, require, required, text};
use crate::validation::volume_source::{
    is_iscsi_name, need_monitors, validate_azure_disk, validate_fc, validate_flex_volume, validate_flocker,
    validate_host_path, validate_nfs, validate_partition, validate_quobyte,
};

type Check = fn(&Value, &Field<'_>, &mut ErrorList);

/// A kind of source, and its field in errors.
struct Source {
    key: &'static str,
    at: &'static str,
    /// The field of the error for a second source.
    forbidden_at: &'static str,
    check: Check,
}

const fn source(key: &'static str, check: Check) -> Source {
    Source { key, at: key, forbidden_at: key, check }
}

const SOURCES: [Source; 22] = [
    source("hostPath", validate_host_path),
    Source {
        at: "persistentDisk",
        ..source("gcePersistentDisk", |s, at, e| validate_disk(s, "pdName", at, e))
    },
    source("awsElasticBlockStore", |s, at, e| validate_disk(s, "volumeID", at, e)),
    source("glusterfs", validate_glusterfs),
    source("flocker", validate_flocker),
    source("nfs", validate_nfs),
    source("rbd", |s, at, e| {
        need_monitors(s, at, e);
        require(s, &["image"], at, e);
    }),
    source("quobyte", validate_quobyte),
    Source { forbidden_at: "cephFS", ..source("cephfs", need_monitors) },
    source("iscsi", validate_iscsi),
    source("cinder", |s, at, e| {
        require(s, &["volumeID"], at, e);
        require_secret(s, at, e);
    }),
    source("fc", validate_fc),
    source("flexVolume", validate_flex_volume),
    source("azureFile", validate_azure_file),
    source("vsphereVolume", |s, at, e| require(s, &["volumePath"], at, e)),
    source("photonPersistentDisk", |s, at, e| require(s, &["pdID"], at, e)),
    source("portworxVolume", |s, at, e| require(s, &["volumeID"], at, e)),
    source("azureDisk", validate_azure_disk),
    source("scaleIO", |s, at, e| require(s, &["gateway", "system", "volumeName"], at, e)),
    source("local", validate_path),
    source("storageos", validate_storage_os),
    source("csi", validate_csi),
];

/// The sources of a volume; `name` is the volume's, and a local one needs an affinity.
pub(super) fn validate(spec: &Value, name: &str, has_affinity: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let mut found = false;
    for source in SOURCES {
        let Some(value) = member(spec, source.key) else { continue };
        // A second source that is a flexVolume has always been accepted.
        if found && source.key != "flexVolume" {
            errors.forbidden(at.child(source.forbidden_at), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        if source.key == "iscsi" {
            validate_portal_length(value, name, &at.child(source.at), errors);
        }
        (source.check)(value, &at.child(source.at), errors);
        if source.key == "local" && !has_affinity {
            errors.required(at.child("nodeAffinity"), "Local volume requires node affinity");
        }
    }
    if !found {
        errors.required(at, "must specify a volume type");
    }
}

fn validate_path(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match text(source, "path") {
        "" => errors.required(at.child("path"), ""),
        path => no_backsteps(path, &at.child("path"), errors),
    }
}

fn validate_disk(source: &Value, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &[name], at, errors);
    validate_partition(source, at, errors);
}

fn validate_glusterfs(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &["endpoints", "path"], at, errors);
    let at = at.child("endpointsNamespace");
    match source.str_at(&["endpointsNamespace"]) {
        None => {}
        Some("") => {
            let why = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.invalid(at, &Value::from(""), why);
        }
        Some(namespace) => complain(&at, namespace, names::namespace_name(namespace), errors),
    }
}

fn require_secret(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(secret) = member(source, "secretRef") {
        require(secret, &["name", "namespace"], &at.child("secretRef"), errors);
    }
}

/// The initiator name consists of the volume's name and the portal.
fn validate_portal_length(source: &Value, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST: usize = 64;
    let portal = text(source, "targetPortal");
    if member(source, "initiatorName").is_some() && name.len() + 1 + portal.len() > MOST {
        let why = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
        errors.invalid(at.child("targetportal"), &Value::from(portal), why);
    }
}

fn validate_iscsi(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const FORMAT: &str = "must be valid format";
    require(source, &["targetPortal"], at, errors);
    match text(source, "iqn") {
        "" => errors.required(at.child("iqn"), ""),
        name if is_iscsi_name(name) == Some(true) => {}
        name => errors.invalid(at.child("iqn"), &Value::from(name), FORMAT),
    }
    in_range(int(source, "lun"), 0, 255, &at.child("lun"), errors);
    let authenticates = is(source, "chapAuthDiscovery") || is(source, "chapAuthSession");
    match member(source, "secretRef") {
        None if authenticates => errors.required(at.child("secretRef"), ""),
        Some(secret) => require(secret, &["name"], &at.child("secretRef"), errors),
        None => {}
    }
    if let Some(name) = source.str_at(&["initiatorName"]).filter(|name| is_iscsi_name(name) != Some(true)) {
        errors.invalid(at.child("initiatorname"), &Value::from(name), FORMAT);
    }
}

fn validate_azure_file(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &["secretName", "shareName"], at, errors);
    if source.str_at(&["secretNamespace"]) == Some("") {
        errors.required(at.child("secretNamespace"), "");
    }
}

fn validate_storage_os(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    required(text(source, "volumeName"), names::dns1123_label, &at.child("volumeName"), errors);
    optional(text(source, "volumeNamespace"), names::dns1123_label, &at.child("volumeNamespace"), errors);
    require_secret(source, at, errors);
}

fn validate_csi(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(text(source, "driver"), &at.child("driver"), errors);
    require(source, &["volumeHandle"], at, errors);
    let secrets = [
        "controllerPublishSecretRef",
        "controllerExpandSecretRef",
        "nodePublishSecretRef",
        "nodeExpandSecretRef",
    ];
    for key in secrets {
        let Some(secret) = member(source, key) else { continue };
        let at = at.child(key);
        required(text(secret, "name"), names::dns1123_subdomain, &at.child("name"), errors);
        required(text(secret, "namespace"), names::dns1123_label, &at.child("namespace"), errors);
    }
}
