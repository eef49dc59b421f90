//! Webhook configurations and policies from manifests on disk (`staticManifestsDir`): they are in force before the API serves
//! its first request, and no request can change them.
//!
//! Manifests are decoded strictly, defaulted and validated like requests. Their names end with `.static.k8s.io`, which no
//! stored object's name does. What refers to other objects is refused: parameters, and services of webhooks.
//!
//! *Invariant:* manifests that cannot be used never replace those that are in force.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashSet};
use std::fs;
use std::path::{Path, PathBuf};

use corten_api::conform::{Extent, conform};
use corten_api::status::{ErrorList, FieldError};
use corten_api::{Value, meta, resources, yaml};
use corten_registry as registry;

use crate::server_id;

const GROUP: &str = "admissionregistration.k8s.io";
const VERSION: &str = "admissionregistration.k8s.io/v1";
const SUFFIX: &str = ".static.k8s.io";
/// Maximum size of all manifests of a directory.
const MAX_BYTES: u64 = 16 << 20;

/// The objects of a directory, by kind, in order of their names.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Manifests {
    by_kind: BTreeMap<String, Vec<Value>>,
    /// The hash of all files; empty if none has content.
    pub(super) hash: String,
}

impl Manifests {
    pub(super) fn of(&self, kind: &str) -> &[Value] {
        self.by_kind.get(kind).map(Vec::as_slice).unwrap_or_default()
    }
}

/// Reads the manifests of a directory, which may have these kinds.
pub(super) fn load(directory: &Path, kinds: &[&str]) -> Result<Manifests, String> {
    let mut found = Manifests::default();
    let mut seen: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
    let files = files(directory)?;
    found.hash = hash_of(&files);
    for (path, text) in files {
        let failed = |why: String| format!("error loading {}: {why}", path.display());
        for document in documents(&text) {
            let mut objects = Vec::new();
            decode(document, kinds, &mut objects).map_err(failed)?;
            for object in objects {
                let (kind, name) = (meta::kind(&object).to_owned(), meta::name(&object).to_owned());
                check_name(&name, &path).map_err(failed)?;
                if let Some(earlier) = seen.insert((kind.clone(), name.clone()), path.clone()) {
                    let (path, earlier) = (path.display(), earlier.display());
                    return Err(failed(format!(
                        "duplicate name {name:?} found in file \"{path}\" (previously seen in \"{earlier}\")"
                    )));
                }
                check_constraints(&kind, &name, &object, &path).map_err(failed)?;
                found.by_kind.entry(kind).or_default().push(object);
            }
        }
    }
    for objects in found.by_kind.values_mut() {
        objects.sort_by(|a, b| meta::name(a).cmp(meta::name(b)));
    }
    check_references(&found)?;
    Ok(found)
}

/// The files of a directory with manifests, in order of their names.
fn files(directory: &Path) -> Result<Vec<(PathBuf, Vec<u8>)>, String> {
    let failed = |why: std::io::Error| format!("failed to read manifest directory {directory:?}: {why}");
    let mut paths: Vec<PathBuf> = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let path = entry.map_err(failed)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        if matches!(extension.to_ascii_lowercase().as_str(), "yaml" | "yml" | "json") && !path.is_dir() {
            paths.push(path);
        }
    }
    paths.sort();
    let mut total = 0;
    let mut files = Vec::with_capacity(paths.len());
    for path in paths {
        let failed = |why: &dyn std::fmt::Display| format!("failed to read file {path:?}: {why}");
        let metadata = fs::metadata(&path).map_err(|error| failed(&error))?;
        total += metadata.len();
        if !metadata.is_file() || total > MAX_BYTES {
            return Err(failed(&"not a file, or manifests larger than 16 MiB"));
        }
        let text = fs::read(&path).map_err(|error| failed(&error))?;
        files.push((path, text));
    }
    Ok(files)
}

/// The hash by which a change of the files is seen.
fn hash_of(files: &[(PathBuf, Vec<u8>)]) -> String {
    let mut content = Vec::new();
    for (_, text) in files.iter().filter(|(_, text)| !text.is_empty()) {
        content.extend_from_slice(text);
        content.push(0);
    }
    if content.is_empty() { String::new() } else { server_id::sha256(&content) }
}

/// The documents of a file, which lines of `---` separate.
fn documents(text: &[u8]) -> Vec<&[u8]> {
    let mut documents = Vec::new();
    let (mut start, mut at) = (0, 0);
    for line in text.split_inclusive(|byte| *byte == b'\n') {
        if line.starts_with(b"---") && line[3..].iter().all(u8::is_ascii_whitespace) {
            documents.push(&text[start..at]);
            start = at + line.len();
        }
        at += line.len();
    }
    documents.push(&text[start..]);
    documents.retain(|document| !document.trim_ascii().is_empty());
    documents
}

/// Decodes a document: an object, or a list of objects.
fn decode(document: &[u8], kinds: &[&str], objects: &mut Vec<Value>) -> Result<(), String> {
    let mut duplicates = Vec::new();
    let value = yaml::to_value(document, &mut duplicates).map_err(|error| error.to_string())?;
    if let Some(error) = yaml::strict_error(&duplicates) {
        return Err(error);
    }
    accept(value, kinds, objects)
}

fn accept(mut value: Value, kinds: &[&str], objects: &mut Vec<Value>) -> Result<(), String> {
    let (kind, version) = (meta::kind(&value).to_owned(), meta::api_version(&value).to_owned());
    let item_kind = kind.strip_suffix("List").filter(|item| kinds.contains(item));
    if (kind == "List" && version == "v1") || (version == VERSION && item_kind.is_some()) {
        for mut item in value.items_at(&["items"]).to_vec() {
            if let Some(kind) = item_kind {
                item.set(&["kind"], kind);
                item.set(&["apiVersion"], VERSION);
            }
            if meta::kind(&item).ends_with("List") {
                return Err("a list must not contain lists".to_owned());
            }
            accept(item, kinds, objects)?;
        }
        return Ok(());
    }
    if version != VERSION || !kinds.contains(&kind.as_str()) {
        return Err(format!("unsupported resource type {version}, Kind={kind}"));
    }
    let resource = resources::all()
        .iter()
        .find(|resource| resource.group == GROUP && resource.version == "v1" && resource.kind == kind);
    let parts =
        resource.and_then(|resource| Some((resource.schema()?, registry::rules(GROUP, &resource.name)?)));
    let (schema, rules) = parts.ok_or_else(|| format!("unsupported resource type {version}, Kind={kind}"))?;
    let mut complaints = Vec::new();
    conform(&mut value, &schema, Extent::Whole, &mut complaints).map_err(|error| error.to_string())?;
    if !complaints.is_empty() {
        return Err(format!("strict decoding error: {}", complaints.join(", ")));
    }
    (rules.default)(&mut value);
    let mut errors = ErrorList::new();
    rules.validate_for_create(false, &value, &mut errors);
    // Only requests must not have such a name.
    errors.0.retain(|error| !is_about_reserved_name(error));
    if !errors.is_empty() {
        let all: Vec<String> = errors.0.iter().map(ToString::to_string).collect();
        return Err(format!("{kind} {:?}: {}", meta::name(&value), all.join(", ")));
    }
    objects.push(value);
    Ok(())
}

fn is_about_reserved_name(error: &FieldError) -> bool {
    error.field == "metadata.name" && error.detail.contains(SUFFIX)
}

fn check_name(name: &str, path: &Path) -> Result<(), String> {
    if name.is_empty() {
        return Err(format!("resource in file \"{}\" must have a name", path.display()));
    }
    if !name.ends_with(SUFFIX) {
        let path = path.display();
        return Err(format!("{name:?} in file \"{path}\" must have a name ending with {SUFFIX:?}"));
    }
    Ok(())
}

/// Refuses what would refer to objects of the API.
fn check_constraints(kind: &str, name: &str, object: &Value, path: &Path) -> Result<(), String> {
    let has = |field: &str| object.at(&["spec", field]).is_some_and(|value| !value.is_null());
    match kind {
        "ValidatingAdmissionPolicy" | "MutatingAdmissionPolicy" if has("paramKind") => {
            Err(format!("{kind} {name:?}: spec.paramKind is not supported for static manifests"))
        }
        "ValidatingAdmissionPolicyBinding" | "MutatingAdmissionPolicyBinding" => {
            let policy = object.str_at(&["spec", "policyName"]).unwrap_or_default();
            if policy.is_empty() {
                return Err(format!("binding {name:?} must reference a policy (spec.policyName)"));
            }
            if !policy.ends_with(SUFFIX) {
                return Err(format!("binding {name:?}: spec.policyName {policy:?} must end with {SUFFIX:?}"));
            }
            if has("paramRef") {
                return Err(format!("binding {name:?}: spec.paramRef is not supported for static manifests"));
            }
            Ok(())
        }
        "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration" => {
            for webhook in object.items_at(&["webhooks"]) {
                let label = webhook.str_at(&["name"]).unwrap_or_default();
                let place = format!("webhook {label:?} in {name:?} (file \"{}\")", path.display());
                if webhook.at(&["clientConfig", "service"]).is_some_and(|service| !service.is_null()) {
                    return Err(format!(
                        "{place}: clientConfig.service is not supported for static manifests; use clientConfig.url instead"
                    ));
                }
                if webhook.str_at(&["clientConfig", "url"]).unwrap_or_default().is_empty() {
                    return Err(format!("{place}: clientConfig.url is required for static manifests"));
                }
            }
            Ok(())
        }
        _ => Ok(()),
    }
}

/// Checks that every binding's policy is among the manifests.
fn check_references(manifests: &Manifests) -> Result<(), String> {
    for kind in ["ValidatingAdmissionPolicy", "MutatingAdmissionPolicy"] {
        let policies: HashSet<&str> = manifests.of(kind).iter().map(meta::name).collect();
        for binding in manifests.of(&format!("{kind}Binding")) {
            let policy = binding.str_at(&["spec", "policyName"]).unwrap_or_default();
            if !policies.contains(policy) {
                return Err(format!(
                    "binding {:?} references policy {policy:?} which does not exist in the manifest directory",
                    meta::name(binding)
                ));
            }
        }
    }
    Ok(())
}
