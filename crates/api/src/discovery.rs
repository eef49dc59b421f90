//! Discovery of the served resources: `/`, `/api`, `/apis`, their groups and versions,
//! and the aggregated form of all of them.
//!
//! All documents are functions of the served resources, whose order is the order of priority: of groups, of versions
//! within a group. Within a version resources are listed by name. The server selects the form for a client, and adds
//! the resources of other servers and custom resources.

use std::collections::{BTreeSet, HashMap};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use sha2::{Digest, Sha256, Sha512};

use crate::resources::{self, Resource, Subresource, api_version};
use crate::{Map, Str, Value, json, value};

/// A body with its entity tag.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Document {
    pub body: Bytes,
    /// With its quotes, as in the header.
    pub etag: String,
}

/// The media type of the aggregated form.
pub const AGGREGATED_CONTENT_TYPE: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Groups in order of priority, each with its versions in order of priority; the core group is "".
pub fn groups<'a>(served: &[&'a Resource]) -> Vec<(&'a str, Vec<&'a str>)> {
    let mut groups: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut positions: HashMap<&str, usize> = HashMap::new();
    for resource in served {
        let position = *positions.entry(&resource.group).or_insert(groups.len());
        if position == groups.len() {
            groups.push((&resource.group, Vec::new()));
        }
        let versions = &mut groups[position].1;
        if !versions.contains(&resource.version.as_str()) {
            versions.push(&resource.version);
        }
    }
    groups
}

/// `/api`: versions of the core group, and the address at which this server can be reached.
pub fn api_versions(served: &[&Resource], server_address: &str) -> Value {
    let versions = groups(served).into_iter().find(|(group, _)| group.is_empty());
    let versions = versions.map(|(_, versions)| versions).unwrap_or_default();
    value!({
        "kind": "APIVersions",
        "versions": (strings(&versions)),
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": server_address}],
    })
}

/// `/apis`: every named group.
pub fn api_group_list(served: &[&Resource]) -> Value {
    let named = groups(served).into_iter().filter(|(group, _)| !group.is_empty());
    let items: Vec<Value> =
        named.map(|(group, versions)| Value::Object(group_entry(group, &versions))).collect();
    value!({"kind": "APIGroupList", "apiVersion": "v1", "groups": items})
}

/// `/apis/GROUP`; `None` if nothing of the group is served.
pub fn api_group(served: &[&Resource], group: &str) -> Option<Value> {
    let (group, versions) = groups(served).into_iter().find(|(g, _)| *g == group && !g.is_empty())?;
    let mut entry = group_entry(group, &versions);
    entry.insert("kind", "APIGroup");
    entry.insert("apiVersion", "v1");
    Some(Value::Object(entry))
}

/// A group with its versions, the preferred one first, as `/apis` lists it.
pub fn group_entry(group: &str, versions: &[&str]) -> Map {
    let version = |version: &str| value!({"groupVersion": (api_version(group, version)), "version": version});
    let mut entry = Map::new();
    entry.insert("name", group);
    entry.insert("preferredVersion", versions.first().map(|v| version(v)).unwrap_or_default());
    entry.insert("versions", versions.iter().map(|v| version(v)).collect::<Vec<_>>());
    entry
}

/// `/api/v1` and `/apis/GROUP/VERSION`; `None` if nothing of that version is served.
pub fn api_resource_list(served: &[&Resource], group: &str, version: &str) -> Option<Value> {
    let mut entries = Vec::new();
    for resource in in_version(served, group, version) {
        entries.push(resource_entry(resource));
        for subresource in in_order(resource) {
            entries.push(subresource_entry(resource, subresource));
        }
    }
    if entries.is_empty() {
        return None;
    }
    let mut list = value!({"groupVersion": (api_version(group, version)), "kind": "APIResourceList", "resources": entries});
    // Old clients expect no apiVersion here, and newer ones accept that.
    if !group.is_empty() {
        list.set(&["apiVersion"], "v1");
    }
    Some(list)
}

fn resource_entry(resource: &Resource) -> Value {
    let mut entry = Map::new();
    insert_strings(&mut entry, "categories", &resource.categories);
    entry.insert("kind", &resource.kind);
    entry.insert("name", &resource.name);
    entry.insert("namespaced", resource.namespaced);
    insert_strings(&mut entry, "shortNames", &resource.short_names);
    entry.insert("singularName", &resource.singular);
    if let Some(hash) = storage_version_hash(resource) {
        entry.insert("storageVersionHash", hash);
    }
    entry.insert("verbs", strings(&resource.verbs));
    Value::Object(entry)
}

fn subresource_entry(resource: &Resource, subresource: &Subresource) -> Value {
    let mut entry = Map::new();
    if let Some((group, version)) = subresource.group_version {
        entry.insert("group", group);
        entry.insert("version", version);
    }
    entry.insert("kind", &subresource.kind);
    entry.insert("name", format!("{}/{}", resource.name, subresource.name));
    entry.insert("namespaced", resource.namespaced);
    entry.insert("singularName", "");
    entry.insert("verbs", strings(&subresource.verbs));
    Value::Object(entry)
}

/// `/api` in the aggregated form: the core group.
pub fn aggregated_api(served: &[&Resource]) -> Document {
    aggregated(served, |group| group.is_empty())
}

/// `/apis` in the aggregated form: every named group.
pub fn aggregated_apis(served: &[&Resource]) -> Document {
    aggregated(served, |group| !group.is_empty())
}

/// One group of the aggregated form, for a server that adds groups of its own to the list.
pub fn aggregated_group(served: &[&Resource], group: &str) -> Value {
    let versions = groups(served).into_iter().find(|(g, _)| *g == group).map(|(_, v)| v).unwrap_or_default();
    let versions: Vec<Value> =
        versions.iter().map(|version| aggregated_version(served, group, version)).collect();
    let metadata = if group.is_empty() { Value::object() } else { value!({"name": group}) };
    value!({"metadata": metadata, "versions": versions})
}

/// The list around the groups of the aggregated form.
pub fn aggregated_list(groups: Vec<Value>) -> Document {
    let list = value!({
        "apiVersion": "apidiscovery.k8s.io/v2",
        "items": groups,
        "kind": "APIGroupDiscoveryList",
        "metadata": {},
    });
    let mut body = Vec::new();
    json::write(&mut body, &list);
    let etag = format!("\"{:X}\"", Bytes::copy_from_slice(&Sha512::digest(&body)));
    Document { body: body.into(), etag }
}

fn aggregated(served: &[&Resource], wanted: impl Fn(&str) -> bool) -> Document {
    // Group by group: looking for each group among all resources takes long with many custom resources.
    let mut by_group: HashMap<&str, Vec<&Resource>> = HashMap::new();
    for resource in served {
        by_group.entry(&resource.group).or_default().push(resource);
    }
    let groups = groups(served).into_iter().filter(|(group, _)| wanted(group));
    let entry =
        |(group, _): (&str, _)| aggregated_group(by_group.get(group).map_or(&[], Vec::as_slice), group);
    aggregated_list(groups.map(entry).collect())
}

/// One version of a group in the aggregated form.
pub fn aggregated_version(served: &[&Resource], group: &str, version: &str) -> Value {
    let resources: Vec<Value> =
        in_version(served, group, version).into_iter().map(aggregated_resource).collect();
    value!({"freshness": "Current", "resources": resources, "version": version})
}

fn aggregated_resource(resource: &Resource) -> Value {
    let mut entry = Map::new();
    insert_strings(&mut entry, "categories", &resource.categories);
    entry.insert("resource", &resource.name);
    entry.insert("responseKind", response_kind(resource, None, &resource.kind));
    entry.insert("scope", if resource.namespaced { "Namespaced" } else { "Cluster" });
    insert_strings(&mut entry, "shortNames", &resource.short_names);
    entry.insert("singularResource", &resource.singular);
    let subresources: Vec<Value> =
        in_order(resource).into_iter().map(|sub| aggregated_subresource(resource, sub)).collect();
    if !subresources.is_empty() {
        entry.insert("subresources", subresources);
    }
    entry.insert("verbs", strings(&resource.verbs));
    Value::Object(entry)
}

/// Upstream names the group and version of custom resources and of kinds of other groups, but not of the rest.
fn response_kind(resource: &Resource, other: Option<(&str, &str)>, kind: &str) -> Value {
    let own = if resource.storage_version.is_some() {
        (&*resource.group, &*resource.version)
    } else {
        Default::default()
    };
    let (group, version) = other.unwrap_or(own);
    value!({"group": group, "kind": kind, "version": version})
}

fn aggregated_subresource(resource: &Resource, subresource: &Subresource) -> Value {
    value!({
        "responseKind": (response_kind(resource, subresource.group_version, &subresource.kind)),
        "subresource": (&subresource.name),
        "verbs": (strings(&subresource.verbs)),
    })
}

/// `/`: every path a client may try: those of the served groups and the server's own.
pub fn root_paths(served: &[&Resource], own: impl Iterator<Item = String>) -> Value {
    let mut paths: BTreeSet<String> = own.collect();
    paths.extend(["/apis".to_owned(), "/apis/".to_owned()]);
    for (group, versions) in groups(served) {
        let root = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        paths.extend(versions.iter().map(|version| format!("{root}/{version}")));
        paths.insert(root);
    }
    let paths: Vec<Value> = paths.into_iter().map(Value::from).collect();
    value!({"paths": paths})
}

/// Resources whose stored form is not their group's preferred version: a version newer than the
/// previous release is not stored yet, so that a downgrade can read all objects.
const STORED_OLDER: &[(&str, &str, &str)] = &[
    ("apiextensions.k8s.io", "customresourcedefinitions", "v1beta1"),
    ("certificates.k8s.io", "clustertrustbundles", "v1beta1"),
    ("certificates.k8s.io", "podcertificaterequests", "v1beta1"),
    ("coordination.k8s.io", "leasecandidates", "v1beta1"),
    ("resource.k8s.io", "devicetaintrules", "v1beta2"),
    ("scheduling.k8s.io", "podgroups", "v1beta1"),
    ("scheduling.k8s.io", "workloads", "v1beta1"),
    ("storagemigration.k8s.io", "storageversionmigrations", "v1beta1"),
];

/// The group and version in which a built-in resource is stored, as discovery reports it.
pub fn storage_version(resource: &Resource) -> (Str, Str) {
    if resource.group == "events.k8s.io" {
        // The same objects as the core group's events.
        return (Str::default(), "v1".into());
    }
    let is_it = |group: &str, name: &str| resource.group == group && resource.name == name;
    let older = STORED_OLDER.iter().find(|(group, name, _)| is_it(group, name)).map(|o| Str::from(o.2));
    let preferred = || resources::all().iter().find(|r| is_it(&r.group, &r.name)).map(|r| r.version.clone());
    let version = older.or_else(preferred).unwrap_or_else(|| resource.version.clone());
    (resource.group.clone(), version)
}

/// The hash by which clients detect that objects have to be migrated after an upgrade; `None` for resources that are
/// not stored.
fn storage_version_hash(resource: &Resource) -> Option<String> {
    if !resource.has_verb("watch") {
        return None;
    }
    let (group, version) = match &resource.storage_version {
        Some(version) => (resource.group.clone(), version.clone()),
        None => storage_version(resource),
    };
    let digest = Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    Some(STANDARD.encode(&digest[..8]))
}

fn in_version<'a>(served: &[&'a Resource], group: &str, version: &str) -> Vec<&'a Resource> {
    let mut found: Vec<&Resource> =
        served.iter().copied().filter(|r| r.group == group && r.version == version).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

/// Subresources as they are listed: by name; `status` and `scale` of a custom resource in this order.
fn in_order(resource: &Resource) -> Vec<&Subresource> {
    let mut sorted: Vec<&Subresource> = resource.subresources.iter().collect();
    if resource.storage_version.is_none() {
        sorted.sort_by(|a, b| a.name.cmp(&b.name));
    }
    sorted
}

fn strings(items: &[impl AsRef<str>]) -> Vec<Value> {
    items.iter().map(|item| Value::String(Str::new(item.as_ref()))).collect()
}

fn insert_strings(map: &mut Map, key: &'static str, items: &[Str]) {
    if !items.is_empty() {
        map.insert(key, strings(items));
    }
}

#[cfg(test)]
mod tests;
