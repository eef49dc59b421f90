//! The target of an autoscaler: an object of any kind with a scale subresource.

use corten_api::{Value, meta};

use super::responses::{Missing, Responses};
use crate::resources;

/// The scale of a target, and its path.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Scale {
    pub(super) path: String,
    pub(super) object: Value,
}

impl Scale {
    pub(super) fn wanted(&self) -> i64 {
        self.object.int_at(&["spec", "replicas"]).unwrap_or(0)
    }

    pub(super) fn there(&self) -> i64 {
        self.object.int_at(&["status", "replicas"]).unwrap_or(0)
    }

    pub(super) fn selector(&self) -> &str {
        self.object.str_at(&["status", "selector"]).unwrap_or_default()
    }

    /// The scale to write, without a resource version.
    pub(super) fn resized(&self, replicas: i64) -> Value {
        let mut object = self.object.clone();
        object.remove(&["metadata", "resourceVersion"]);
        object.set(&["spec", "replicas"], replicas);
        object
    }
}

/// The scale of an autoscaler's target.
pub(super) fn scale(hpa: &Value, answers: &Responses) -> Result<Scale, Missing> {
    let reference = |key: &str| hpa.str_at(&["spec", "scaleTargetRef", key]).unwrap_or_default();
    let (api_version, plural) = served(reference("apiVersion"), reference("kind"), answers)?;
    let root = resources::list_path(&api_version);
    let path = format!("{root}/namespaces/{}/{plural}/{}/scale", meta::namespace(hpa), reference("name"));
    let called = resources::qualified(&plural, resources::group(&api_version));
    let object = answers.read(&path, &format!("get {called}"))?.clone();
    Ok(Scale { path, object })
}

/// The served version and the resource of a kind. Only its group has to be right.
pub(super) fn served(
    api_version: &str,
    kind: &str,
    answers: &Responses,
) -> Result<(String, String), Missing> {
    if api_version.matches('/').count() > 1 {
        return Err(Missing::Failed(format!("unexpected GroupVersion string: {api_version}")));
    }
    let group = resources::group(api_version);
    let known = match (group, kind) {
        ("apps", "Deployment") => Some("deployments"),
        ("apps", "ReplicaSet") => Some("replicasets"),
        ("apps", "StatefulSet") => Some("statefulsets"),
        ("", "ReplicationController") => Some("replicationcontrollers"),
        _ => None,
    };
    if let Some(plural) = known {
        let version = if group.is_empty() { "v1" } else { "apps/v1" };
        return Ok((version.to_owned(), plural.to_owned()));
    }
    for version in versions(group, answers)? {
        let list = answers.find(&resources::list_path(&version))?;
        if let Some(plural) = list.and_then(|list| resources::plural(list, kind)) {
            let plural = plural.to_owned();
            return Ok((version, plural));
        }
    }
    Err(Missing::Failed(format!("no matches for kind {kind:?} in group {group:?}")))
}

/// The served versions of a group, the preferred one first.
pub(super) fn versions(group: &str, answers: &Responses) -> Result<Vec<String>, Missing> {
    if group.is_empty() {
        return Ok(vec!["v1".to_owned()]);
    }
    let Some(document) = answers.find(&format!("/apis/{group}"))? else { return Ok(Vec::new()) };
    let named = |one: &Value| one.str_at(&["groupVersion"]).map(str::to_owned);
    let mut versions: Vec<String> = document.get("preferredVersion").and_then(named).into_iter().collect();
    for version in document.items_at(&["versions"]).iter().filter_map(named) {
        if !versions.contains(&version) {
            versions.push(version);
        }
    }
    Ok(versions)
}
