//! Resources: group, version, names, scope, verbs and subresources.
//!
//! The built-in ones are read once from `schema/resources.tsv`, in discovery order; custom resources are made from
//! their definitions. A resource with several versions has several rows; the registry defines the stored version.

use std::sync::OnceLock;

use crate::schema::{self, StructRef};
use crate::value::Str;

#[derive(Debug, Clone)]
pub struct Resource {
    pub group: Str,
    pub version: Str,
    /// Plural, as in URLs.
    pub name: Str,
    pub singular: Str,
    pub kind: Str,
    pub namespaced: bool,
    pub short_names: Vec<Str>,
    pub categories: Vec<Str>,
    pub verbs: Vec<&'static str>,
    pub subresources: Vec<Subresource>,
    /// The stored version of a custom resource.
    pub storage_version: Option<Str>,
}

#[derive(Debug, Clone)]
pub struct Subresource {
    pub name: Str,
    /// Group and version of the kind, where they differ from the resource's own.
    pub group_version: Option<(&'static str, &'static str)>,
    pub kind: Str,
    pub verbs: Vec<&'static str>,
}

impl Resource {
    /// `v1`, `apps/v1`.
    pub fn api_version(&self) -> String {
        api_version(&self.group, &self.version)
    }

    /// `pods`, `deployments.apps`: the name of a resource in errors.
    pub fn qualified(&self) -> String {
        if self.group.is_empty() { self.name.to_string() } else { format!("{}.{}", self.name, self.group) }
    }

    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.contains(&verb)
    }

    pub fn subresource(&self, name: &str) -> Option<&Subresource> {
        self.subresources.iter().find(|s| s.name == name)
    }

    /// True if this version is served by default.
    pub fn stable(&self) -> bool {
        is_stable(&self.version)
    }

    pub fn schema(&self) -> Option<StructRef> {
        schema_of(&self.group, &self.version, &self.kind)
    }
}

/// Returns true if a version is GA: neither alpha nor beta.
pub fn is_stable(version: &str) -> bool {
    !version.contains("alpha") && !version.contains("beta")
}

pub fn api_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// Splits `apps/v1` into group and version; `v1` has the empty group.
pub fn split_api_version(api_version: &str) -> (&str, &str) {
    api_version.rsplit_once('/').unwrap_or(("", api_version))
}

/// The schema of a kind by its wire group.
pub fn schema_of(group: &str, version: &str, kind: &str) -> Option<StructRef> {
    let package = format!("{}/{version}", package_of(group));
    schema::lookup(&package, kind).or_else(|| {
        // Options of subresources and deletes are meta kinds, known in every group.
        matches!(
            kind,
            "DeleteOptions" | "CreateOptions" | "UpdateOptions" | "PatchOptions" | "ListOptions" | "Status"
        )
        .then(|| schema::lookup("meta/v1", kind))
        .flatten()
    })
}

/// The schema table's name for a wire group: `core` for the empty one, `rbac` for
/// `rbac.authorization.k8s.io`.
pub fn package_of(group: &str) -> &str {
    match group {
        "" => "core",
        "internal.apiserver.k8s.io" => "apiserverinternal",
        group => group.split('.').next().unwrap_or(group),
    }
}

/// The package of a kind's type in upstream's internal version.
pub fn internal_package_of<'g>(group: &'g str, kind: &str) -> &'g str {
    if kind == "Event" { "core" } else { package_of(group) }
}

/// All rows of the table.
pub fn all() -> &'static [Resource] {
    static ALL: OnceLock<Vec<Resource>> = OnceLock::new();
    ALL.get_or_init(|| include_str!("../schema/resources.tsv").lines().skip(1).map(row).collect())
}

fn row(line: &'static str) -> Resource {
    let mut columns = line.split('\t');
    let mut next = || columns.next().unwrap_or_default();
    let list = |text: &'static str| text.split(',').filter(|s| !s.is_empty());
    Resource {
        group: next().into(),
        version: next().into(),
        name: next().into(),
        singular: next().into(),
        kind: next().into(),
        namespaced: next() == "Namespaced",
        short_names: list(next()).map(Str::from).collect(),
        categories: list(next()).map(Str::from).collect(),
        verbs: list(next()).collect(),
        subresources: next().split(' ').filter(|s| !s.is_empty()).map(subresource).collect(),
        storage_version: None,
    }
}

fn subresource(text: &'static str) -> Subresource {
    let mut parts = text.split(':');
    let mut next = || parts.next().unwrap_or_default();
    let (name, kind, verbs) = (next(), next(), next());
    let (group_version, kind) = match kind.rsplit_once('/') {
        Some((gv, kind)) => (Some(split_api_version(gv)), kind),
        None => (None, kind),
    };
    Subresource { name: name.into(), group_version, kind: kind.into(), verbs: verbs.split('+').collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_resource_has_a_schema() {
        for resource in all() {
            assert!(resource.schema().is_some(), "{} {}", resource.api_version(), resource.kind);
            assert!(!resource.verbs.is_empty(), "{resource:?}");
        }
    }

    #[test]
    fn rows_are_read_whole() {
        let pods = all().iter().find(|r| r.name == "pods").unwrap();
        assert!(pods.namespaced && pods.has_verb("watch"));
        let eviction = pods.subresource("eviction").unwrap();
        assert_eq!((eviction.group_version, eviction.kind.as_str()), (Some(("policy", "v1")), "Eviction"));
        let roles = all().iter().find(|r| r.name == "clusterroles").unwrap();
        assert_eq!(roles.qualified(), "clusterroles.rbac.authorization.k8s.io");
    }
}
