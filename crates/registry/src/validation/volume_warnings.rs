//! What clients are told about volumes that are accepted: kinds that are on their way out, and files that are
//! in each other's way.

use corten_api::status::quoted;
use corten_api::{Field, Value};

use crate::validation::resources::{amount, spelled};
use crate::validation::text::{list, member, text};

/// Kinds of volumes in upstream's order, the name it calls them by, and since when they are gone.
const DEPRECATED: [(&str, &str, &str); 7] = [
    ("photonPersistentDisk", "photonPersistentDisk", "deprecated in v1.11, non-functional in v1.16+"),
    ("gitRepo", "gitRepo", "deprecated in v1.11, and disabled by default in v1.33+"),
    ("scaleIO", "scaleIO", "deprecated in v1.16, non-functional in v1.22+"),
    ("flocker", "flocker", "deprecated in v1.22, non-functional in v1.25+"),
    ("storageos", "storageOS", "deprecated in v1.22, non-functional in v1.25+"),
    ("quobyte", "quobyte", "deprecated in v1.22, non-functional in v1.25+"),
    ("glusterfs", "glusterfs", "deprecated in v1.25, non-functional in v1.26+"),
];
const DEPRECATED_LATER: [&str; 2] = ["cephfs", "rbd"];

pub(crate) fn volume_warnings(volumes: &[Value], at: &Field<'_>, warnings: &mut Vec<String>) {
    for (i, volume) in volumes.iter().enumerate() {
        let at = at.index(i);
        for (key, name, why) in DEPRECATED {
            if member(volume, key).is_some() {
                warnings.push(format!("{}: {why}", at.child(name)));
            }
        }
        if let Some(claim) = volume.at(&["ephemeral", "volumeClaimTemplate", "spec"]) {
            let at = at.child("ephemeral");
            let at = at.child("volumeClaimTemplate");
            claim_warnings(claim, &at.child("spec"), warnings);
        }
        for key in DEPRECATED_LATER {
            if member(volume, key).is_some() {
                warnings.push(format!("{}: deprecated in v1.28, non-functional in v1.31+", at.child(key)));
            }
        }
    }
    volumes.iter().for_each(|volume| warn_of_overlaps(volume, warnings));
}

/// Storage is of whole bytes.
pub(crate) fn claim_warnings(claim: &Value, at: &Field<'_>, warnings: &mut Vec<String>) {
    for key in ["requests", "limits"] {
        let Some(value) = claim.at(&["resources", key, "storage"]) else { continue };
        if amount(value).milli_value() % 1000 != 0 {
            let (at, value) = (at.child("resources"), spelled(value));
            let (at, shown) = (at.child(key), quoted(value.as_str().unwrap_or_default()));
            let at = at.key("storage");
            warnings.push(format!("{at}: fractional byte value {shown} is invalid, must be an integer"));
        }
    }
}

/// A file of a volume, and what it is from where that is worth saying.
struct File<'v> {
    path: &'v str,
    source: String,
}

impl File<'_> {
    fn in_words(&self) -> String {
        match self.source.as_str() {
            "" => quoted(self.path),
            source => format!("{} ({source})", quoted(self.path)),
        }
    }

    /// Whether one file is the other, or a directory the other is in.
    fn overlaps(&self, other: &File<'_>) -> bool {
        let contains = |directory: &str, file: &str| {
            file.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (contains(self.path, other.path) || contains(other.path, self.path))
    }
}

fn warn_of_overlaps(volume: &Value, warnings: &mut Vec<String>) {
    for (key, kind, name_key) in [
        ("configMap", "ConfigMap ", "name"),
        ("secret", "Secret ", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ] {
        let Some(source) = member(volume, key).filter(|source| list(source, "items").len() > 1) else {
            continue;
        };
        let name = quoted(text(volume, "name"));
        let described = match name_key {
            "" => kind.to_owned(),
            name_key => format!("{kind}{}", quoted(text(source, name_key))),
        };
        let files: Vec<File<'_>> =
            list(source, "items").iter().map(|item| file(text(item, "path"), "")).collect();
        overlaps(&files, 0, &name, &described, warnings);
    }
    let Some(projected) = member(volume, "projected") else { return };
    let name = quoted(text(volume, "name"));
    let mut files = Vec::new();
    for source in list(projected, "sources") {
        if source.as_object().is_none_or(|source| source.iter().all(|(_, value)| value.is_null())) {
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
        let known = files.len();
        files.extend(projected_files(source));
        overlaps(&files, known, &name, "Projected", warnings);
    }
}

fn file<'v>(path: &'v str, source: &str) -> File<'v> {
    File { path: path.trim_end_matches('/'), source: source.to_owned() }
}

/// Overlaps of files, but for the first few with each other.
fn overlaps(files: &[File<'_>], known: usize, volume: &str, kind: &str, warnings: &mut Vec<String>) {
    for (i, file) in files.iter().enumerate().skip(known) {
        for other in files.iter().take(i).filter(|other| file.overlaps(other)) {
            let (file, other) = (file.in_words(), other.in_words());
            warnings.push(format!("volume {volume} ({kind}): overlapping paths: {file} with {other}"));
        }
    }
}

/// The files of one source of a projected volume.
fn projected_files(source: &Value) -> Vec<File<'_>> {
    let items = |owner, kind: &str| {
        list(owner, "items").iter().map(|item| file(text(item, "path"), kind)).collect::<Vec<_>>()
    };
    if let Some(map) = member(source, "configMap").filter(|map| member(map, "items").is_some()) {
        return items(map, &format!("ConfigMap {}", quoted(text(map, "name"))));
    }
    if let Some(secret) = member(source, "secret").filter(|secret| member(secret, "items").is_some()) {
        return items(secret, &format!("Secret {}", quoted(text(secret, "name"))));
    }
    if let Some(downward) = member(source, "downwardAPI").filter(|api| member(api, "items").is_some()) {
        return items(downward, "DownwardAPI");
    }
    if let Some(token) = member(source, "serviceAccountToken") {
        return vec![file(text(token, "path"), "ServiceAccountToken")];
    }
    if let Some(bundle) = member(source, "clusterTrustBundle") {
        let name = bundle.get("name").or_else(|| bundle.get("signerName")).and_then(Value::as_str);
        let kind = format!("ClusterTrustBundle {}", quoted(name.unwrap_or_default()));
        return vec![file(text(bundle, "path"), &kind)];
    }
    let Some(certificate) = member(source, "podCertificate") else { return Vec::new() };
    [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ]
    .into_iter()
    .filter(|(key, _)| !text(certificate, key).is_empty())
    .map(|(key, kind)| file(text(certificate, key), kind))
    .collect()
}
