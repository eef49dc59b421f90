//! Warnings about accepted volumes: deprecated kinds, and files that
//! overlap.

use corten_api::status::quoted;
use corten_api::{Field, Value};

use crate::validation::resources::{amount, spelled};
use crate::validation::text::{list, member, text};

/// Deprecated kinds of volumes in upstream's order, their names in messages, and the version of their removal.
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

/// Storage is a whole number of bytes.
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

/// A file of a volume, and its source where messages name it: its kind and name.
struct File<'v> {
    path: &'v str,
    kind: &'static str,
    name: Option<&'v str>,
}

impl<'v> File<'v> {
    fn new(path: &'v str, kind: &'static str, name: Option<&'v str>) -> File<'v> {
        File { path: path.trim_end_matches('/'), kind, name }
    }

    fn printed(&self) -> String {
        match (self.kind, self.name) {
            ("", _) => quoted(self.path),
            (kind, name) => format!("{} ({})", quoted(self.path), described(kind, name)),
        }
    }

    /// Returns true if the files are equal, or one is a directory of the other.
    fn overlaps(&self, other: &File<'_>) -> bool {
        let contains = |directory: &str, file: &str| {
            file.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        !self.path.is_empty()
            && !other.path.is_empty()
            && (contains(self.path, other.path) || contains(other.path, self.path))
    }
}

fn described(kind: &str, name: Option<&str>) -> String {
    match name {
        Some(name) => format!("{kind} {}", quoted(name)),
        None => kind.to_owned(),
    }
}

fn warn_of_overlaps(volume: &Value, warnings: &mut Vec<String>) {
    const KINDS: [(&str, &str, &str); 3] = [
        ("configMap", "ConfigMap", "name"),
        ("secret", "Secret", "secretName"),
        ("downwardAPI", "DownwardAPI", ""),
    ];
    for (key, kind, name_key) in KINDS {
        let Some(source) = member(volume, key).filter(|source| list(source, "items").len() > 1) else {
            continue;
        };
        let name = (!name_key.is_empty()).then(|| text(source, name_key));
        let files: Vec<File<'_>> = files(source, "", None).collect();
        overlaps(&files, 0, volume, &described(kind, name), warnings);
    }
    let Some(projected) = member(volume, "projected") else { return };
    let mut files = Vec::new();
    for source in list(projected, "sources") {
        if source.as_object().is_none_or(|source| source.iter().all(|(_, value)| value.is_null())) {
            let name = quoted(text(volume, "name"));
            warnings.push(format!("volume {name} (Projected) has no sources provided"));
        }
        let known = files.len();
        projected_files(source, &mut files);
        overlaps(&files, known, volume, "Projected", warnings);
    }
}

/// Maximum number of files that a file is compared with, and of reported overlaps: more warnings are of no use.
const MOST_COMPARED: usize = 200;
const MOST_TOLD: usize = 100;

/// Overlaps of files, but for those of the first few with each other.
fn overlaps(files: &[File<'_>], known: usize, volume: &Value, kind: &str, warnings: &mut Vec<String>) {
    for (i, file) in files.iter().enumerate().skip(known) {
        for other in files.iter().take(i.min(MOST_COMPARED)).filter(|other| file.overlaps(other)) {
            if warnings.len() > MOST_TOLD {
                return;
            }
            let (volume, file, other) = (quoted(text(volume, "name")), file.printed(), other.printed());
            warnings.push(format!("volume {volume} ({kind}): overlapping paths: {file} with {other}"));
        }
    }
}

/// The items of a source that are files.
fn files<'v>(source: &'v Value, kind: &'static str, name: Option<&'v str>) -> impl Iterator<Item = File<'v>> {
    list(source, "items").iter().map(move |item| File::new(text(item, "path"), kind, name))
}

/// The files of one source of a projected volume, which is one of these in this order.
fn projected_files<'v>(source: &'v Value, found: &mut Vec<File<'v>>) {
    const OF_CERTIFICATE: [(&str, &str); 3] = [
        ("certificateChainPath", "PodCertificate chain"),
        ("keyPath", "PodCertificate key"),
        ("credentialBundlePath", "PodCertificate credential bundle"),
    ];
    let with_items = |key: &str| member(source, key).filter(|source| member(source, "items").is_some());
    if let Some(map) = with_items("configMap") {
        found.extend(files(map, "ConfigMap", Some(text(map, "name"))));
    } else if let Some(secret) = with_items("secret") {
        found.extend(files(secret, "Secret", Some(text(secret, "name"))));
    } else if let Some(downward) = with_items("downwardAPI") {
        found.extend(files(downward, "DownwardAPI", None));
    } else if let Some(token) = member(source, "serviceAccountToken") {
        found.push(File::new(text(token, "path"), "ServiceAccountToken", None));
    } else if let Some(bundle) = member(source, "clusterTrustBundle") {
        let name = member(bundle, "name").or_else(|| member(bundle, "signerName")).and_then(Value::as_str);
        found.push(File::new(text(bundle, "path"), "ClusterTrustBundle", Some(name.unwrap_or_default())));
    } else if let Some(certificate) = member(source, "podCertificate") {
        let paths = OF_CERTIFICATE.into_iter().map(|(key, kind)| (text(certificate, key), kind));
        let paths = paths.filter(|(path, _)| !path.is_empty());
        found.extend(paths.map(|(path, kind)| File::new(path, kind, None)));
    }
}
