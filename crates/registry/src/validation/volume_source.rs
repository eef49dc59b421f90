//! All kinds of volume sources of a pod, in upstream's order.

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, names};

use crate::validation::container::validate_pull_policy;
use crate::validation::csi::validate_csi_driver_name;
use crate::validation::env::{validate_field_ref, validate_resource_field_ref};
use crate::validation::fields::any_of;
use crate::validation::number::{given, in_range, int};
use crate::validation::path::{file_mode, local_descending, local_non_reserved, no_backsteps};
use crate::validation::pod_context::{PodContext, is};
use crate::validation::projected_volume::validate_projected;
use crate::validation::resources::amount;
use crate::validation::text::{complain, list, member, optional, required, text};
use crate::validation::tolerance;

type Check = fn(&PodContext<'_>, &Value, &Field<'_>, &mut ErrorList);

/// A kind of source, and its field in errors.
pub(crate) struct Source {
    pub(crate) key: &'static str,
    pub(crate) at: &'static str,
    /// The field of the error for a second source.
    pub(crate) forbidden_at: &'static str,
    pub(crate) check: Check,
}

const fn source(key: &'static str, check: Check) -> Source {
    Source { key, at: key, forbidden_at: key, check }
}

pub(crate) static SOURCES: [Source; 30] = [
    source("emptyDir", validate_empty_dir),
    source("hostPath", |_, source, at, errors| validate_host_path(source, at, errors)),
    source("gitRepo", |_, repo, at, errors| {
        need(repo, &["repository"], at, errors);
        local_descending(text(repo, "directory"), &at.child("directory"), errors);
    }),
    Source {
        at: "persistentDisk",
        ..source("gcePersistentDisk", |_, disk, at, errors| {
            need(disk, &["pdName"], at, errors);
            validate_partition(disk, at, errors);
        })
    },
    source("awsElasticBlockStore", |_, disk, at, errors| {
        need(disk, &["volumeID"], at, errors);
        validate_partition(disk, at, errors);
    }),
    source("secret", |_, secret, at, errors| {
        need(secret, &["secretName"], at, errors);
        validate_files(secret, at, errors);
    }),
    source("nfs", |_, source, at, errors| validate_nfs(source, at, errors)),
    source("iscsi", validate_iscsi),
    source("glusterfs", |_, source, at, errors| need(source, &["endpoints", "path"], at, errors)),
    source("flocker", |_, source, at, errors| validate_flocker(source, at, errors)),
    source("persistentVolumeClaim", |_, source, at, errors| need(source, &["claimName"], at, errors)),
    source("rbd", |_, source, at, errors| {
        need_monitors(source, at, errors);
        need(source, &["image"], at, errors);
    }),
    source("cinder", |_, source, at, errors| {
        need(source, &["volumeID"], at, errors);
        need_secret_name(source, at, errors);
    }),
    Source {
        forbidden_at: "cephFS",
        ..source("cephfs", |_, source, at, errors| need_monitors(source, at, errors))
    },
    source("quobyte", |_, source, at, errors| validate_quobyte(source, at, errors)),
    Source { forbidden_at: "downwarAPI", ..source("downwardAPI", validate_downward_api) },
    source("fc", |_, source, at, errors| validate_fc(source, at, errors)),
    source("flexVolume", |_, source, at, errors| validate_flex_volume(source, at, errors)),
    source("configMap", |_, map, at, errors| {
        need(map, &["name"], at, errors);
        validate_files(map, at, errors);
    }),
    source("azureFile", |_, source, at, errors| need(source, &["secretName", "shareName"], at, errors)),
    source("vsphereVolume", |_, source, at, errors| need(source, &["volumePath"], at, errors)),
    source("photonPersistentDisk", |_, source, at, errors| need(source, &["pdID"], at, errors)),
    source("portworxVolume", |_, source, at, errors| need(source, &["volumeID"], at, errors)),
    source("azureDisk", |_, source, at, errors| validate_azure_disk(source, at, errors)),
    source("storageos", validate_storage_os),
    source("projected", validate_projected),
    source("scaleIO", |_, source, at, errors| need(source, &["gateway", "system", "volumeName"], at, errors)),
    source("csi", validate_csi),
    // Its content is validated with the volume's name.
    source("ephemeral", |_, _, _, _| {}),
    source("image", |context, image, at, errors| {
        if text(image, "reference").is_empty() && !context.old(tolerance::empty_image_references) {
            errors.required(at.child("reference"), "");
        }
        validate_pull_policy(image, "pullPolicy", at, errors);
    }),
];

/// Required texts.
fn need(value: &Value, keys: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    for key in keys.iter().filter(|key| text(value, key).is_empty()) {
        errors.required(at.child(key), "");
    }
}

pub(crate) fn need_monitors(value: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if list(value, "monitors").is_empty() {
        errors.required(at.child("monitors"), "");
    }
}

fn need_secret_name(value: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(secret) = member(value, "secretRef") {
        need(secret, &["name"], &at.child("secretRef"), errors);
    }
}

fn validate_empty_dir(_: &PodContext<'_>, dir: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if member(dir, "sizeLimit").is_some_and(|limit| amount(limit).is_negative()) {
        errors.forbidden(at.child("sizeLimit"), "SizeLimit field must be a valid resource quantity");
    }
}

pub(crate) fn validate_host_path(path: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const TYPES: [&str; 8] =
        ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];
    match text(path, "path") {
        "" => errors.required(at.child("path"), ""),
        name => {
            no_backsteps(name, &at.child("path"), errors);
            any_of(path, "type", &TYPES, at, errors);
        }
    }
}

pub(crate) fn validate_partition(disk: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let partition = int(disk, "partition");
    if !(0..=255).contains(&partition) {
        let why = "must be between 1 and 255, inclusive";
        errors.invalid(at.child("partition"), &Value::from(partition), why);
    }
}

pub(crate) fn validate_nfs(nfs: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    need(nfs, &["server", "path"], at, errors);
    let path = text(nfs, "path");
    if !path.starts_with('/') {
        errors.invalid(at.child("path"), &Value::from(path), "must be an absolute path");
    }
}

fn validate_iscsi(_: &PodContext<'_>, iscsi: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    need(iscsi, &["targetPortal"], at, errors);
    match text(iscsi, "iqn") {
        "" => errors.required(at.child("iqn"), ""),
        name => validate_iscsi_name(name, &at.child("iqn"), errors),
    }
    in_range(int(iscsi, "lun"), 0, 255, &at.child("lun"), errors);
    let authenticated = is(iscsi, "chapAuthDiscovery") || is(iscsi, "chapAuthSession");
    if authenticated && member(iscsi, "secretRef").is_none() {
        errors.required(at.child("secretRef"), "");
    }
    if let Some(initiator) = iscsi.get("initiatorName").and_then(Value::as_str) {
        validate_iscsi_name(initiator, &at.child("initiatorname"), errors);
    }
}

fn validate_iscsi_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let why = match is_iscsi_name(name) {
        Some(true) => return,
        Some(false) => "must be valid format",
        None => "must be valid format starting with iqn, eui, or naa",
    };
    errors.invalid(at, &Value::from(name), why);
}

/// True if an iSCSI name is valid, by its first three letters; `None` for an unknown prefix.
pub(crate) fn is_iscsi_name(name: &str) -> Option<bool> {
    let alphanumeric = |rest: &str, length: usize| {
        rest.len() == length + 1 && rest.bytes().skip(1).all(|byte| byte.is_ascii_alphanumeric())
    };
    match name.split_at_checked(3)? {
        ("iqn", _) => Some(is_iqn(name)),
        ("eui", rest) => Some(alphanumeric(rest, 16)),
        ("naa", rest) => Some(alphanumeric(rest, 32)),
        _ => None,
    }
}

/// `iqn.2015-06.org.example:name`, at any position of the text.
fn is_iqn(name: &str) -> bool {
    let digits = |text: &str, range: std::ops::Range<usize>| {
        text.get(range).is_some_and(|part| part.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let fits = |rest: &str| {
        let dated = digits(rest, 0..4) && rest.get(4..5) == Some("-") && digits(rest, 5..7);
        let Some(rest) = rest.get(7..).and_then(|rest| rest.strip_prefix('.')).filter(|_| dated) else {
            return false;
        };
        let Some((authority, unique)) = rest.split_once(':') else { return false };
        let named = !authority.is_empty()
            && authority.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
        named
            && !unique.is_empty()
            && !unique.contains(|c: char| c.is_ascii_whitespace() || ",;*&$|".contains(c))
    };
    name.match_indices("iqn.").any(|(i, start)| name.get(i + start.len()..).is_some_and(fits))
}

pub(crate) fn validate_flocker(flocker: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let name = text(flocker, "datasetName");
    match (name.is_empty(), text(flocker, "datasetUUID").is_empty()) {
        (true, true) => errors.required(at, "one of datasetName and datasetUUID is required"),
        (false, false) => {
            let why = "datasetName and datasetUUID can not be specified simultaneously";
            errors.invalid(at, &Value::from("resource"), why);
        }
        _ => {}
    }
    if name.contains('/') {
        errors.invalid(at.child("datasetName"), &Value::from(name), "must not contain '/'");
    }
}

pub(crate) fn validate_quobyte(quobyte: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = text(quobyte, "registry");
    if registry.is_empty() {
        errors.required(at.child("registry"), PAIRS);
    } else if text(quobyte, "tenant").len() >= 65 {
        errors.required(at.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.invalid(at.child("registry"), &Value::from(registry), PAIRS);
        }
    }
    need(quobyte, &["volume"], at, errors);
}

fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_fits = bracketed.map_or(!host.contains([':', '[', ']']), |host| !host.contains(['[', ']']));
    host_fits && !port.contains(['[', ']'])
}

fn validate_downward_api(_: &PodContext<'_>, source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    file_mode(source, "defaultMode", at, errors);
    for file in list(source, "items") {
        validate_downward_file(file, at, errors);
    }
}

/// A file with a field of the pod. Upstream does not report which file it means.
pub(crate) fn validate_downward_file(file: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const FIELDS: [&str; 5] =
        ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];
    need(file, &["path"], at, errors);
    local_non_reserved(text(file, "path"), &at.child("path"), errors);
    match (member(file, "fieldRef"), member(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            validate_field_ref(field, &FIELDS, &at.child("fieldRef"), errors);
            if resource.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.invalid(at, &Value::from("resource"), why);
            }
        }
        (None, Some(field)) => {
            validate_resource_field_ref(field, true, &at.child("resourceFieldRef"), errors);
        }
        (None, None) => errors.required(at, "one of fieldRef and resourceFieldRef is required"),
    }
    file_mode(file, "mode", at, errors);
}

pub(crate) fn validate_fc(fc: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let targets = list(fc, "targetWWNs");
    match (targets.is_empty(), list(fc, "wwids").is_empty()) {
        (true, true) => {
            let why = "must specify either targetWWNs or wwids, but not both";
            errors.required(at.child("targetWWNs"), why);
        }
        (false, false) => {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            errors.invalid(at.child("targetWWNs"), &Value::from(targets.to_vec()), why);
        }
        _ => {}
    }
    match given(fc, "lun") {
        _ if targets.is_empty() => {}
        None => errors.required(at.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) => in_range(lun, 0, 255, &at.child("lun"), errors),
    }
}

pub(crate) fn validate_flex_volume(flex: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    need(flex, &["driver"], at, errors);
    let options = flex.get("options").and_then(Value::as_object);
    for (key, _) in options.into_iter().flat_map(Map::iter) {
        let namespace = key.split_once('/').map_or(key.as_str(), |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(at.child("options").key(key), &Value::from(key.clone()), why);
        }
    }
}

pub(crate) fn validate_azure_disk(disk: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    need(disk, &["diskName", "diskURI"], at, errors);
    any_of(disk, "cachingMode", &["None", "ReadOnly", "ReadWrite"], at, errors);
    any_of(disk, "kind", &["Dedicated", "Managed", "Shared"], at, errors);
    let uri = text(disk, "diskURI");
    let (begins, form) = match disk.get("kind").and_then(Value::as_str) {
        None => return,
        Some("Managed") => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        Some(_) => {
            ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
        }
    };
    if !uri.starts_with(begins) {
        errors.not_supported(at.child("diskURI"), &Value::from(uri), &[form]);
    }
}

fn validate_storage_os(_: &PodContext<'_>, source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    required(text(source, "volumeName"), names::dns1123_label, &at.child("volumeName"), errors);
    optional(text(source, "volumeNamespace"), names::dns1123_label, &at.child("volumeNamespace"), errors);
    need_secret_name(source, at, errors);
}

fn validate_csi(_: &PodContext<'_>, csi: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_csi_driver_name(text(csi, "driver"), &at.child("driver"), errors);
    let Some(secret) = member(csi, "nodePublishSecretRef") else { return };
    match text(secret, "name") {
        "" => errors.required(at.child("nodePublishSecretRef").child("name"), ""),
        name => complain(&at.child("name"), name, names::dns1123_subdomain(name), errors),
    }
}

/// The permissions of the files of a secret or config map, and its selected entries.
fn validate_files(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    file_mode(source, "defaultMode", at, errors);
    let at = at.child("items");
    for (i, item) in list(source, "items").iter().enumerate() {
        validate_key_to_path(item, &at.index(i), errors);
    }
}

pub(crate) fn validate_key_to_path(item: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    need(item, &["key", "path"], at, errors);
    local_non_reserved(text(item, "path"), &at.child("path"), errors);
    file_mode(item, "mode", at, errors);
}
