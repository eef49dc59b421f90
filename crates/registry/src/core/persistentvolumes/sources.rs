//! Every kind of source a volume can have, in the order upstream looks for them. Exactly one is given.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::csi::validate_csi_driver_name;
use crate::validation::fields::{any_of, entries, part};
use crate::validation::number::{given, in_range, int};
use crate::validation::path::no_backsteps;
use crate::validation::text::{complain, list, member, optional, require, required, text};

type Check = fn(&Value, &Field<'_>, &mut ErrorList);

/// A kind of source, and where complaints say it is.
struct Source {
    key: &'static str,
    at: &'static str,
    /// Where one too many is.
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
        require_monitors(s, at, e);
        require(s, &["image"], at, e);
    }),
    source("quobyte", validate_quobyte),
    Source { forbidden_at: "cephFS", ..source("cephfs", require_monitors) },
    source("iscsi", validate_iscsi),
    source("cinder", |s, at, e| {
        require(s, &["volumeID"], at, e);
        require_secret(s, at, e);
    }),
    source("fc", validate_fc),
    source("flexVolume", validate_flex),
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
        // A second one that is flexible has always been taken.
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

fn validate_host_path(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_path(source, at, errors);
    if !text(source, "path").is_empty() {
        let types = [
            "",
            "BlockDevice",
            "CharDevice",
            "Directory",
            "DirectoryOrCreate",
            "File",
            "FileOrCreate",
            "Socket",
        ];
        any_of(source, "type", &types, at, errors);
    }
}

fn validate_disk(source: &Value, name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &[name], at, errors);
    let partition = int(source, "partition");
    if partition != 0 {
        in_range(partition, 1, 255, &at.child("partition"), errors);
    }
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

fn validate_flocker(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let name = text(source, "datasetName");
    match (name.is_empty(), text(source, "datasetUUID").is_empty()) {
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

fn validate_nfs(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &["server", "path"], at, errors);
    let path = text(source, "path");
    if !path.starts_with('/') {
        errors.invalid(at.child("path"), &Value::from(path), "must be an absolute path");
    }
}

fn require_monitors(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if list(source, "monitors").is_empty() {
        errors.required(at.child("monitors"), "");
    }
}

fn require_secret(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(secret) = member(source, "secretRef") {
        require(secret, &["name", "namespace"], &at.child("secretRef"), errors);
    }
}

fn validate_quobyte(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    const MOST_TENANT: usize = 64;
    let (registry, registry_at) = (text(source, "registry"), at.child("registry"));
    if registry.is_empty() {
        errors.required(registry_at, PAIRS);
    } else if text(source, "tenant").len() > MOST_TENANT {
        errors.required(at.child("tenant"), "must be a UUID and may not exceed a length of 64 characters");
    } else {
        for _ in registry.split(',').filter(|pair| !is_host_and_port(pair)) {
            errors.invalid(registry_at, &Value::from(registry), PAIRS);
        }
    }
    require(source, &["volume"], at, errors);
}

fn is_host_and_port(pair: &str) -> bool {
    let Some((host, port)) = pair.rsplit_once(':') else { return false };
    let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    let host_fits = bracketed.map_or(!host.contains([':', '[', ']']), |host| !host.contains(['[', ']']));
    host_fits && !port.contains(['[', ']'])
}

/// The name an initiator is given is made of the volume's name and the portal.
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
        name if is_iscsi_name(name) => {}
        name => errors.invalid(at.child("iqn"), &Value::from(name), FORMAT),
    }
    in_range(int(source, "lun"), 0, 255, &at.child("lun"), errors);
    let authenticates =
        ["chapAuthDiscovery", "chapAuthSession"].iter().any(|key| part(source, key).as_bool() == Some(true));
    match member(source, "secretRef") {
        None if authenticates => errors.required(at.child("secretRef"), ""),
        Some(secret) => require(secret, &["name"], &at.child("secretRef"), errors),
        None => {}
    }
    if let Some(name) = source.str_at(&["initiatorName"]).filter(|name| !is_iscsi_name(name)) {
        errors.invalid(at.child("initiatorname"), &Value::from(name), FORMAT);
    }
}

/// Names are of one of three registries, each of which has a form of its own.
fn is_iscsi_name(name: &str) -> bool {
    let identifier = |prefix: &str, length: usize| {
        // Whatever stands between the two has always been taken.
        let rest = name.strip_prefix(prefix).and_then(|rest| rest.get(1..));
        rest.is_some_and(|id| id.len() == length && id.bytes().all(|byte| byte.is_ascii_alphanumeric()))
    };
    match name.get(..3) {
        Some("iqn") => is_iqn(name),
        Some("eui") => identifier("eui", 16),
        Some("naa") => identifier("naa", 32),
        _ => false,
    }
}

/// `iqn.yyyy-mm.reverse-domain:anything`
fn is_iqn(name: &str) -> bool {
    let Some((authority, rest)) = name.split_once(':') else { return false };
    let mut parts = authority.splitn(3, '.');
    let (Some("iqn"), Some(date), Some(domain)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let date_fits = date.len() == 7
        && date
            .bytes()
            .enumerate()
            .all(|(i, byte)| if i == 4 { byte == b'-' } else { byte.is_ascii_digit() });
    let domain_fits = !domain.is_empty()
        && domain.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'));
    let forbidden = |c: char| c.is_ascii_whitespace() || ",;*&$|".contains(c);
    date_fits && domain_fits && !rest.is_empty() && !rest.contains(forbidden)
}

fn validate_fc(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (targets, targets_at) = (list(source, "targetWWNs"), at.child("targetWWNs"));
    match (targets.is_empty(), list(source, "wwids").is_empty()) {
        (true, true) => {
            errors.required(targets_at, "must specify either targetWWNs or wwids, but not both");
        }
        (false, false) => {
            let why = "targetWWNs and wwids can not be specified simultaneously";
            errors.invalid(targets_at, part(source, "targetWWNs"), why);
        }
        _ => {}
    }
    match given(source, "lun") {
        _ if targets.is_empty() => {}
        None => errors.required(at.child("lun"), "lun is required if targetWWNs is specified"),
        Some(lun) => in_range(lun, 0, 255, &at.child("lun"), errors),
    }
}

fn validate_flex(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &["driver"], at, errors);
    for (key, _) in entries(source, "options") {
        let namespace = key.split_once('/').map_or(key, |(namespace, _)| namespace);
        let namespace = format!(".{}", namespace.to_lowercase());
        if namespace.ends_with(".kubernetes.io") || namespace.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            errors.invalid(at.child("options").key(key), &Value::from(key), why);
        }
    }
}

fn validate_azure_file(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &["secretName", "shareName"], at, errors);
    if source.str_at(&["secretNamespace"]) == Some("") {
        errors.required(at.child("secretNamespace"), "");
    }
}

fn validate_azure_disk(source: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    require(source, &["diskName", "diskURI"], at, errors);
    any_of(source, "cachingMode", &["None", "ReadOnly", "ReadWrite"], at, errors);
    any_of(source, "kind", &["Dedicated", "Managed", "Shared"], at, errors);
    let (begins, form) = match source.str_at(&["kind"]) {
        None => return,
        Some("Managed") => (
            "/subscriptions/",
            "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}",
        ),
        Some(_) => {
            ("https://", "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd")
        }
    };
    let uri = text(source, "diskURI");
    if !uri.starts_with(begins) {
        errors.not_supported(at.child("diskURI"), &Value::from(uri), &[form]);
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
