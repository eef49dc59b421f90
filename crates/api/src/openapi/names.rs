//! Names in OpenAPI documents: types, operations and tags.

use std::collections::BTreeSet;

use crate::resources::{self, Resource};
use crate::schema::{self, Struct};

/// The prefixes of upstream's packages outside `io.k8s.api`.
const HOMES: &[(&str, &str)] = &[
    ("meta", "io.k8s.apimachinery.pkg.apis"),
    ("version", "io.k8s.apimachinery.pkg"),
    ("apiextensions", "io.k8s.apiextensions-apiserver.pkg.apis"),
    ("apiregistration", "io.k8s.kube-aggregator.pkg.apis"),
];

/// `io.k8s.api.core.v1.Pod` for the `Pod` of package `core/v1`.
pub fn type_name(package: &str, name: &str) -> String {
    let group = package.split('/').next().unwrap_or(package);
    let home = HOMES.iter().find(|(g, _)| *g == group).map_or("io.k8s.api", |(_, home)| home);
    format!("{home}.{}.{name}", package.replace('/', "."))
}

/// Versions that no server serves any more, or that are not served as resources, in which clients still
/// know the kinds that every group shares.
const UNSERVED: &[(&str, &str)] = &[
    ("admission.k8s.io", "v1"),
    ("admission.k8s.io", "v1beta1"),
    ("apiextensions.k8s.io", "v1beta1"),
    ("apiregistration.k8s.io", "v1beta1"),
    ("apps", "v1beta1"),
    ("apps", "v1beta2"),
    ("authentication.k8s.io", "v1alpha1"),
    ("authentication.k8s.io", "v1beta1"),
    ("authorization.k8s.io", "v1beta1"),
    ("batch", "v1beta1"),
    ("certificates.k8s.io", "v1alpha1"),
    ("discovery.k8s.io", "v1beta1"),
    ("events.k8s.io", "v1beta1"),
    ("extensions", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta1"),
    ("flowcontrol.apiserver.k8s.io", "v1beta2"),
    ("flowcontrol.apiserver.k8s.io", "v1beta3"),
    ("imagepolicy.k8s.io", "v1alpha1"),
    ("networking.k8s.io", "v1beta1"),
    ("node.k8s.io", "v1alpha1"),
    ("node.k8s.io", "v1beta1"),
    ("policy", "v1beta1"),
    ("rbac.authorization.k8s.io", "v1alpha1"),
    ("rbac.authorization.k8s.io", "v1beta1"),
    ("storage.k8s.io", "v1alpha1"),
    ("storage.k8s.io", "v1beta1"),
];

/// The groups of upstream's components beside the API server of clients: their kinds are unknown to the
/// documents of custom resources.
const COMPONENTS: &[&str] =
    &["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];

/// The groups and versions in which version 2 shows the shared kinds, whatever is served: all of upstream's,
/// in order.
pub(super) fn known_versions() -> Vec<(&'static str, &'static str)> {
    let built_in = resources::all()
        .iter()
        .filter(|r| r.group != "metrics.k8s.io")
        .map(|r| (r.group.as_str(), r.version.as_str()));
    let known: BTreeSet<_> = UNSERVED.iter().copied().chain(built_in).collect();
    known.into_iter().collect()
}

/// Those of the documents of custom resources.
pub(super) fn client_versions() -> Vec<(&'static str, &'static str)> {
    let mut versions = known_versions();
    versions.retain(|(group, _)| !COMPONENTS.contains(group));
    versions
}

/// True for the name of a definition that a built-in type has.
pub(super) fn is_built_in(name: &str) -> bool {
    name.starts_with("io.k8s.")
        && schema::struct_names().any(|(package, own)| type_name(package, own) == name)
}

/// Group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupVersionKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The kind of a type, if it is a top-level object.
pub(super) fn kind_of(of: &Struct) -> Option<GroupVersionKind> {
    let has = |name: &str| of.field(name).is_some();
    let (package, version) = of.package.split_once('/')?;
    if package == "meta" {
        let known =
            of.name == "WatchEvent" || (has("kind") && has("apiVersion") && of.name != "OwnerReference");
        return known.then(|| gvk("", "v1", &of.name));
    }
    if !(has("kind") && has("apiVersion") && has("metadata")) {
        return None;
    }
    let group = resources::all().iter().find(|r| resources::package_of(&r.group) == package)?.group.as_str();
    Some(gvk(group, version, &of.name))
}

pub(super) fn gvk(group: &str, version: &str, kind: &str) -> GroupVersionKind {
    GroupVersionKind { group: group.to_owned(), version: version.to_owned(), kind: kind.to_owned() }
}

/// `/api/v1`, `/apis/apps/v1`.
pub(super) fn version_root(group: &str, version: &str) -> String {
    if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") }
}

/// `core`, `apps`, `rbacAuthorization`: a group as the first word of a tag.
pub(super) fn group_tag(group: &str) -> String {
    if group.is_empty() {
        return "core".to_owned();
    }
    identifier(group.strip_suffix(".k8s.io").unwrap_or(group), false)
}

/// A text as part of an operation's name: letters and digits, each word after the first capitalised.
pub(super) fn identifier(text: &str, mut capitalise: bool) -> String {
    let mut made = String::with_capacity(text.len());
    for (i, character) in text.chars().enumerate() {
        let allowed = character.is_alphabetic() || character == '_' || (i > 0 && character.is_numeric());
        match (allowed, capitalise) {
            (true, true) => made.extend(character.to_uppercase()),
            (true, false) => made.push(character),
            (false, _) => {}
        }
        capitalise = !allowed;
    }
    made
}

/// `CoreV1`, `RbacAuthorizationV1`.
pub(super) fn version_prefix(resource: &Resource) -> String {
    capitalised(&group_tag(&resource.group)) + &capitalised(&resource.version)
}

/// The article before a kind in descriptions, with spaces around it; plurals have none.
pub(super) fn article(kind: &str) -> &'static str {
    if kind.ends_with('s') && !kind.ends_with("ss") {
        return " ";
    }
    if kind.starts_with(|first: char| "aeiouAEIOU".contains(first)) { " an " } else { " a " }
}

pub(super) fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    match characters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + characters.as_str(),
        None => String::new(),
    }
}
