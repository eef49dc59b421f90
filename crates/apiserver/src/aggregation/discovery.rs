//! Discovery of aggregated API servers: fetched in the aggregated form or, from older servers, in that of one version, and
//! merged with this server's own.
//!
//! Of a response only the known fields of the APIService's own group version are kept, with their types checked: a server
//! cannot describe the groups of another one. While it does not respond, its version is listed as `Stale` without resources.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::time::Duration;

use corten_api::discovery::{self as documents, Document};
use corten_api::resources::Resource;
use corten_api::{Map, Str, Value, json, value};
use corten_auth::User;
use http::StatusCode;
use http::header::{CONTENT_TYPE, ETAG};

use super::availability::aggregator;
use super::target::{Fetch, Target};
use super::{KIND, Table, order};
use crate::call::Backend;
use crate::crd::compare_versions;
use crate::{Server, heavy};

/// The interval between fetches.
pub(super) const REFRESH: Duration = Duration::from_secs(60);
/// The timeout of a fetch.
const PATIENCE: Duration = Duration::from_secs(5);
/// The size limit of a document; that of a server with thousands of resources is smaller.
const LIMIT: usize = 8 * 1024 * 1024;
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
/// The priority of the aggregator's own group, above all others.
const OWN_PRIORITY: i64 = 20001;
/// The priorities of a version without an APIService.
const DEFAULT_PRIORITIES: (i64, i64) = (1000, 15);

/// The discovery of one group version, as last fetched.
#[derive(Default)]
pub(super) struct Known {
    resources: Vec<Value>,
    is_fresh: bool,
    etag: String,
}

/// Fetches the resources of a target's group version. The outcome is what discovery shows from now on.
pub(super) async fn fetch(backend: &Backend, target: &Target) -> Result<(), String> {
    let outcome = fetch_aggregated(backend, target).await;
    let mut known = target.discovered.lock();
    match outcome {
        Ok(Some(new)) => *known = new,
        Ok(None) => known.is_fresh = true,
        Err(why) => {
            *known = Known::default();
            return Err(why);
        }
    }
    Ok(())
}

/// Fetches the aggregated form; `None` if it is unchanged.
async fn fetch_aggregated(backend: &Backend, target: &Target) -> Result<Option<Known>, String> {
    let (user, etag) = (aggregator(), target.discovered.lock().etag.clone());
    let fetch =
        Fetch { path: "/apis", accept: ACCEPT, etag: &etag, user: &user, timeout: PATIENCE, limit: LIMIT };
    let response = target.fetch(backend, &fetch).await?;
    let content_type = response.headers.get(CONTENT_TYPE).and_then(|v| v.to_str().ok()).unwrap_or_default();
    match response.code {
        StatusCode::NOT_MODIFIED if !etag.is_empty() => Ok(None),
        StatusCode::SERVICE_UNAVAILABLE => {
            let service = &target.service;
            Err(format!(
                "service {}/{}:{} returned non-success response code: 503",
                service.namespace, service.name, service.port
            ))
        }
        StatusCode::OK if is_aggregated(content_type) => {
            let etag =
                response.headers.get(ETAG).and_then(|v| v.to_str().ok()).unwrap_or_default().to_owned();
            let resources =
                heavy::blocking(|| in_aggregated(&response.body, &target.group, &target.version))?;
            Ok(Some(Known { resources, is_fresh: true, etag }))
        }
        _ => fetch_version(backend, target).await.map(Some),
    }
}

/// Fetches `/apis/GROUP/VERSION`, from servers without the aggregated form.
async fn fetch_version(backend: &Backend, target: &Target) -> Result<Known, String> {
    let path = target.path();
    let user = User { groups: Vec::new(), ..aggregator() };
    let accept = "application/json";
    let fetch = Fetch { path: &path, accept, etag: "", user: &user, timeout: PATIENCE, limit: LIMIT };
    let response = target.fetch(backend, &fetch).await?;
    if response.code != StatusCode::OK {
        return Err(format!("failed to download legacy discovery for {path}: {}", response.code));
    }
    let resources = heavy::blocking(|| in_resource_list(&response.body))?;
    Ok(Known { resources, is_fresh: true, etag: String::new() })
}

/// True for the media type of the aggregated form, in version 2.
fn is_aggregated(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let (mut group, mut version, mut kind) = (false, false, false);
    let is_json = parts.next() == Some("application/json");
    for part in parts {
        group |= part == "g=apidiscovery.k8s.io";
        version |= part == "v=v2";
        kind |= part == "as=APIGroupDiscoveryList";
    }
    is_json && group && version && kind
}

/// A field has another type than it must have.
fn wrong(field: &str) -> String {
    format!("invalid discovery document: unexpected type of field {field}")
}

fn text(object: &Value, field: &str) -> Result<Str, String> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(Str::default()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(_) => Err(wrong(field)),
    }
}

fn list<'v>(object: &'v Value, field: &str) -> Result<&'v [Value], String> {
    match object.get(field) {
        None | Some(Value::Null) => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(wrong(field)),
    }
}

/// Copies the non-empty list of texts.
fn copy_texts(from: &Value, to: &mut Map, field: &'static str) -> Result<(), String> {
    let items = list(from, field)?;
    if items.iter().any(|item| !matches!(item, Value::String(_))) {
        return Err(wrong(field));
    }
    if !items.is_empty() {
        to.insert(field, items.to_vec());
    }
    Ok(())
}

/// Resources of one group version in a document of the aggregated form; none if it does not list the version.
pub(super) fn in_aggregated(body: &[u8], group: &str, version: &str) -> Result<Vec<Value>, String> {
    let document = json::parse(body).map_err(|error| error.to_string())?;
    for item in list(&document, "items")? {
        if item.str_at(&["metadata", "name"]).unwrap_or_default() != group {
            continue;
        }
        for found in list(item, "versions")? {
            if found.str_at(&["version"]) == Some(version) {
                return list(found, "resources")?.iter().map(checked_resource).collect();
            }
        }
    }
    Ok(Vec::new())
}

fn checked_kind(entry: &Value) -> Result<Value, String> {
    let none = Value::object();
    let kind = entry.get("responseKind").filter(|kind| !kind.is_null()).unwrap_or(&none);
    let (group, name, version) = (text(kind, "group")?, text(kind, "kind")?, text(kind, "version")?);
    Ok(value!({"group": group, "kind": name, "version": version}))
}

fn checked_resource(entry: &Value) -> Result<Value, String> {
    let mut out = Map::new();
    copy_texts(entry, &mut out, "categories")?;
    out.insert("resource", text(entry, "resource")?);
    out.insert("responseKind", checked_kind(entry)?);
    out.insert("scope", text(entry, "scope")?);
    copy_texts(entry, &mut out, "shortNames")?;
    out.insert("singularResource", text(entry, "singularResource")?);
    let subresources: Result<Vec<Value>, String> =
        list(entry, "subresources")?.iter().map(checked_subresource).collect();
    let subresources = subresources?;
    if !subresources.is_empty() {
        out.insert("subresources", subresources);
    }
    copy_texts(entry, &mut out, "verbs")?;
    Ok(Value::Object(out))
}

fn checked_subresource(entry: &Value) -> Result<Value, String> {
    let mut out = Map::new();
    let accepted: Result<Vec<Value>, String> = list(entry, "acceptedTypes")?
        .iter()
        .map(|kind| {
            let (group, name, version) = (text(kind, "group")?, text(kind, "kind")?, text(kind, "version")?);
            Ok(value!({"group": group, "kind": name, "version": version}))
        })
        .collect();
    let accepted = accepted?;
    if !accepted.is_empty() {
        out.insert("acceptedTypes", accepted);
    }
    out.insert("responseKind", checked_kind(entry)?);
    out.insert("subresource", text(entry, "subresource")?);
    copy_texts(entry, &mut out, "verbs")?;
    Ok(Value::Object(out))
}

/// Resources in an `APIResourceList`, in the aggregated form.
pub(super) fn in_resource_list(body: &[u8]) -> Result<Vec<Value>, String> {
    let document = json::parse(body).map_err(|error| error.to_string())?;
    let mut resources: Vec<Value> = Vec::new();
    let mut positions: HashMap<Str, usize> = HashMap::new();
    let mut subresources: HashMap<usize, Vec<Value>> = HashMap::new();
    for entry in list(&document, "resources")? {
        let name = text(entry, "name")?;
        let scope = if entry.bool_at(&["namespaced"]) == Some(true) { "Namespaced" } else { "Cluster" };
        let kind = value!({
            "group": (text(entry, "group")?), "kind": (text(entry, "kind")?), "version": (text(entry, "version")?),
        });
        let (parent, subresource) = match name.split_once('/') {
            Some((parent, subresource)) => (parent, subresource),
            None => (name.as_str(), ""),
        };
        let position = *positions.entry(parent.into()).or_insert_with(|| {
            resources.push(value!({"resource": parent, "scope": scope, "responseKind": {}}));
            resources.len() - 1
        });
        let resource = &mut resources[position];
        let Value::Object(fields) = resource else { continue };
        if subresource.is_empty() {
            fields.insert("responseKind", kind);
            fields.insert("scope", scope);
            fields.insert("singularResource", text(entry, "singularName")?);
            for field in ["categories", "shortNames", "verbs"] {
                copy_texts(entry, fields, field)?;
            }
        } else {
            let mut sub = Map::new();
            sub.insert("responseKind", kind);
            sub.insert("subresource", subresource);
            copy_texts(entry, &mut sub, "verbs")?;
            subresources.entry(position).or_default().push(Value::Object(sub));
        }
    }
    for (position, all) in subresources {
        resources[position].set(&["subresources"], all);
    }
    Ok(resources)
}

/// The answers of this server's discovery while there are aggregated servers.
pub(crate) struct Merged<'a> {
    pub(crate) server: &'a Server,
    pub(crate) table: &'a Table,
    /// This server's own resources that are not hidden.
    pub(crate) served: &'a [&'a Resource],
}

/// Discovery of this server and all aggregated ones.
pub(crate) fn answer<'a>(server: &'a Server, table: &'a Table, served: &'a [&'a Resource]) -> Merged<'a> {
    Merged { server, table, served }
}

impl Merged<'_> {
    /// `/apis`: the groups of all APIServices, after the aggregator's own.
    pub(crate) fn group_list(&self) -> Value {
        let own = Value::Object(documents::group_entry(KIND.group, &[KIND.version]));
        let groups = order::groups(order::registered(self.server, self.served));
        let entry = |group: &order::Group| {
            let versions: Vec<&str> = group.versions.iter().map(|version| version.as_str()).collect();
            Value::Object(documents::group_entry(&group.name, &versions))
        };
        let named = groups.iter().filter(|group| !group.name.is_empty() && group.name != KIND.group);
        let items: Vec<Value> = [own].into_iter().chain(named.map(entry)).collect();
        value!({"kind": "APIGroupList", "apiVersion": "v1", "groups": items})
    }

    /// `/apis/GROUP`, if an APIService has the group.
    pub(crate) fn group(&self, name: &str) -> Option<Value> {
        let groups = order::groups(order::registered(self.server, self.served));
        let group = groups.into_iter().find(|group| group.name == name && name != KIND.group)?;
        let versions: Vec<&str> = group.versions.iter().map(|version| version.as_str()).collect();
        let mut entry = documents::group_entry(name, &versions);
        entry.insert("kind", "APIGroup");
        entry.insert("apiVersion", "v1");
        Some(Value::Object(entry))
    }

    /// The paths of aggregated group versions.
    pub(crate) fn paths(&self) -> impl Iterator<Item = String> {
        let entries = self.table.entries().filter(|entry| !entry.target.group.is_empty());
        entries.flat_map(|entry| [format!("/apis/{}", entry.target.group), entry.target.path()])
    }

    /// `/apis` in the aggregated form.
    pub(crate) fn aggregated(&self) -> Document {
        let registered = order::registered(self.server, self.served);
        let priorities: HashMap<(&str, &str), (i64, i64)> = registered
            .iter()
            .map(|r| ((r.group.as_str(), r.version.as_str()), (r.group_priority, r.version_priority)))
            .collect();
        let mut groups: HashMap<&str, Versions<'_>> = HashMap::new();
        let mut by_group: HashMap<&str, Vec<&Resource>> = HashMap::new();
        for resource in self.served.iter().filter(|resource| !resource.group.is_empty()) {
            by_group.entry(&resource.group).or_default().push(resource);
        }
        for (group, served) in &by_group {
            for (_, versions) in documents::groups(served) {
                let entries =
                    versions.into_iter().map(|v| (v, documents::aggregated_version(served, group, v)));
                groups.entry(group).or_default().extend(entries);
            }
        }
        for entry in self.table.entries().filter(|entry| !entry.target.group.is_empty()) {
            let target = &entry.target;
            groups.entry(&target.group).or_default().push((&target.version, shown(target)));
        }
        let priority = |group: &str, version: &str| match group {
            _ if group == KIND.group => (OWN_PRIORITY, 0),
            _ => priorities.get(&(group, version)).copied().unwrap_or(DEFAULT_PRIORITIES),
        };
        documents::aggregated_list(in_order(groups, priority))
    }
}

/// The versions of a group with their entries.
type Versions<'a> = Vec<(&'a str, Value)>;

/// Groups and their versions in order of priority.
fn in_order<'a>(
    groups: HashMap<&'a str, Versions<'a>>,
    priority: impl Fn(&str, &str) -> (i64, i64),
) -> Vec<Value> {
    let mut groups: Vec<(i64, &str, Versions<'_>)> = groups
        .into_iter()
        .map(|(group, versions)| {
            let highest = versions.iter().map(|(version, _)| priority(group, version).0).max();
            (highest.unwrap_or(0), group, versions)
        })
        .collect();
    groups.sort_by_key(|(highest, name, _)| (Reverse(*highest), *name));
    let group = |(_, name, mut versions): (i64, &str, Versions<'_>)| {
        versions.sort_by(|(a, _), (b, _)| {
            let by_priority = priority(name, b).1.cmp(&priority(name, a).1);
            by_priority.then_with(|| compare_versions(b, a))
        });
        let versions: Vec<Value> = versions.into_iter().map(|(_, entry)| entry).collect();
        value!({"metadata": {"name": name}, "versions": versions})
    };
    groups.into_iter().map(group).collect()
}

/// The version of a target in the aggregated form.
fn shown(target: &Target) -> Value {
    let known = target.discovered.lock();
    let freshness = if known.is_fresh { "Current" } else { "Stale" };
    let mut entry = value!({"freshness": freshness, "version": (&target.version)});
    if !known.resources.is_empty() {
        entry.set(&["resources"], known.resources.clone());
    }
    entry
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_version_is_taken() {
        let document = value!({"kind": "APIGroupDiscoveryList", "items": [
            {"metadata": {"name": "apps"}, "versions": [{"version": "v1", "resources": [{"resource": "evil"}]}]},
            {"metadata": {"name": "g"}, "versions": [
                {"version": "v2", "resources": [{"resource": "other"}]},
                {"version": "v1", "resources": [{
                    "resource": "things", "scope": "Namespaced", "singularResource": "thing",
                    "responseKind": {"group": "", "version": "", "kind": "Thing"}, "verbs": ["get", "list"],
                    "unknown": {"deep": true}, "shortNames": ["th"],
                    "subresources": [{"subresource": "status", "verbs": ["get"]}],
                }]},
            ]},
        ]});
        let found = in_aggregated(json::write_to_string(&document).as_bytes(), "g", "v1").unwrap();
        let kind = |kind: &str| value!({"group": "", "kind": kind, "version": ""});
        let expected = value!({
            "resource": "things", "scope": "Namespaced", "singularResource": "thing", "shortNames": ["th"],
            "responseKind": (kind("Thing")), "verbs": ["get", "list"],
            "subresources": [{"subresource": "status", "responseKind": (kind("")), "verbs": ["get"]}],
        });
        assert_eq!(found, [expected]);
        let none = in_aggregated(json::write_to_string(&document).as_bytes(), "g", "v3").unwrap();
        assert!(none.is_empty());
    }

    #[test]
    fn wrong_types_are_errors() {
        for body in [
            r#"{"items": 5}"#,
            r#"{"items": [{"metadata": {"name": "g"}, "versions": {}}]}"#,
            r#"{"items": [{"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": [{"resource": 1}]}]}]}"#,
            r#"{"items": [{"metadata": {"name": "g"}, "versions": [{"version": "v1", "resources": [{"verbs": [1]}]}]}]}"#,
            "[",
            "",
        ] {
            assert!(in_aggregated(body.as_bytes(), "g", "v1").is_err(), "{body}");
        }
        assert!(in_resource_list(br#"{"resources": [{"name": []}]}"#).is_err());
    }

    #[test]
    fn older_servers_list_one_version() {
        let list = value!({"kind": "APIResourceList", "groupVersion": "g/v1", "resources": [
            {"name": "things/scale", "namespaced": true, "kind": "Scale", "group": "autoscaling", "version": "v1", "verbs": ["get"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["list"], "categories": ["all"]},
        ]});
        let found = in_resource_list(json::write_to_string(&list).as_bytes()).unwrap();
        let expected = value!({
            "resource": "things", "scope": "Namespaced", "singularResource": "thing", "categories": ["all"],
            "responseKind": {"group": "", "kind": "Thing", "version": ""}, "verbs": ["list"],
            "subresources": [{
                "subresource": "scale", "verbs": ["get"],
                "responseKind": {"group": "autoscaling", "kind": "Scale", "version": "v1"},
            }],
        });
        assert_eq!(found, [expected]);
    }

    #[test]
    fn media_types_of_the_aggregated_form() {
        assert!(is_aggregated("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"));
        assert!(!is_aggregated("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"));
        assert!(!is_aggregated("application/json"));
    }
}
