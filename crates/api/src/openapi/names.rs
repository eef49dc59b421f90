//! How OpenAPI names things: types, operations and tags.

use crate::resources::{self, Resource};
use crate::schema::Struct;

/// Where upstream's packages live, for those outside `io.k8s.api`.
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

/// Group, version and kind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupVersionKind {
    pub(super) group: String,
    pub(super) version: String,
    pub(super) kind: String,
}

/// The kind a type is, if objects of it stand on their own.
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
    let group = resources::all().iter().find(|r| resources::package_of(r.group) == package)?.group;
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
    let mut words = group.trim_end_matches(".k8s.io").split('.');
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |tag, word| tag + &capitalised(word))
}

/// `CoreV1`, `RbacAuthorizationV1`.
pub(super) fn version_prefix(resource: &Resource) -> String {
    capitalised(&group_tag(resource.group)) + &capitalised(resource.version)
}

pub(super) fn capitalised(word: &str) -> String {
    let mut characters = word.chars();
    match characters.next() {
        Some(first) => first.to_ascii_uppercase().to_string() + characters.as_str(),
        None => String::new(),
    }
}
