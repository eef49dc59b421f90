//! One APIService for every served group version. Created and corrected at start only; those of versions that are no longer
//! served are deleted, unless a user created them.
//!
//! The built-in metrics have none, so that a metrics server can be installed with its own.

use std::collections::BTreeSet;

use corten_api::{Str, Value, meta};

use super::{Failure, Kind, Local};
use crate::resource_metrics;

const KIND: Kind =
    Kind { group: "apiregistration.k8s.io", version: "v1", resource: "apiservices", kind: "APIService" };

const AUTO_MANAGED: &str = "kube-aggregator.kubernetes.io/automanaged";
/// The label of APIServices that are corrected at start.
const ON_START: &str = "onstart";
/// The label of APIServices that follow their definitions.
const ALWAYS: &str = "true";

/// The priority of groups: higher ones are listed first.
const GROUPS: [(&str, i64); 24] = [
    ("", 18000),
    ("apps", 17800),
    ("events.k8s.io", 17750),
    ("authentication.k8s.io", 17700),
    ("authorization.k8s.io", 17600),
    ("autoscaling", 17500),
    ("batch", 17400),
    ("certificates.k8s.io", 17300),
    ("networking.k8s.io", 17200),
    ("policy", 17100),
    ("rbac.authorization.k8s.io", 17000),
    ("storage.k8s.io", 16800),
    ("admissionregistration.k8s.io", 16700),
    ("apiextensions.k8s.io", 16700),
    ("scheduling.k8s.io", 16600),
    ("coordination.k8s.io", 16500),
    ("node.k8s.io", 16300),
    ("discovery.k8s.io", 16200),
    ("resource.k8s.io", 16200),
    ("flowcontrol.apiserver.k8s.io", 16100),
    ("internal.apiserver.k8s.io", 16000),
    ("storagemigration.k8s.io", 15800),
    ("lifecycle.k8s.io", 15700),
    ("metrics.k8s.io", 100),
];

/// The priority of versions in their group, where it differs from the default.
const VERSIONS: [(&str, &str, i64); 15] = [
    ("", "v1", 1),
    ("autoscaling", "v2", 30),
    ("scheduling.k8s.io", "v1alpha3", 3),
    ("resource.k8s.io", "v1", 21),
    ("resource.k8s.io", "v1beta2", 15),
    ("admissionregistration.k8s.io", "v1beta1", 12),
    ("admissionregistration.k8s.io", "v1alpha1", 9),
    ("coordination.k8s.io", "v1beta1", 13),
    ("coordination.k8s.io", "v1alpha2", 12),
    ("discovery.k8s.io", "v1beta1", 12),
    ("flowcontrol.apiserver.k8s.io", "v1", 21),
    ("flowcontrol.apiserver.k8s.io", "v1beta3", 18),
    ("internal.apiserver.k8s.io", "v1alpha1", 9),
    ("metrics.k8s.io", "v1", 200),
    ("metrics.k8s.io", "v1beta1", 100),
];

pub(super) async fn ensure(local: &Local<'_>) -> Result<(), Failure> {
    let Some(cache) = local.cache(&KIND) else { return Ok(()) };
    let served = local.backend().catalog.built_in().iter().map(|r| (r.group.as_str(), r.version.as_str()));
    let wanted = wanted(served);
    let ensured = wanted.iter().map(|object| ensure_one(local, object));
    futures_util::future::try_join_all(ensured).await?;
    let objects = cache.snapshot("", None).objects;
    let gone = objects.iter().filter(|object| {
        let ours = object.tree().str_at(&["metadata", "labels", AUTO_MANAGED]) == Some(ON_START);
        (ours || is_of_metrics(&object.name))
            && !names_service(object.parsed())
            && !wanted.iter().any(|wanted| meta::name(wanted) == object.name)
    });
    let removed = gone.map(|object| local.delete(&KIND, "", &object.name));
    futures_util::future::try_join_all(removed).await.map(|_| ())
}

fn is_of_metrics(name: &str) -> bool {
    name.split_once('.').is_some_and(|(_, group)| group == resource_metrics::GROUP)
}

fn names_service(object: &Value) -> bool {
    object.at(&["spec", "service"]).is_some_and(|service| !service.is_null())
}

async fn ensure_one(local: &Local<'_>, wanted: &Value) -> Result<(), Failure> {
    match local.get(&KIND, "", meta::name(wanted)) {
        None => local.create(&KIND, wanted, "").await,
        Some(current) => match revised(&current, wanted) {
            Some(revised) => local.update(&KIND, &revised, "").await,
            None => Ok(()),
        },
    }
}

/// Creates and corrects the APIServices of versions of custom resources, and removes those of the concerned groups whose
/// versions are gone.
pub(crate) async fn ensure_custom(
    local: &Local<'_>,
    versions: &[(Str, Str)],
    concerns: impl Fn(&str) -> bool,
) -> Result<(), Failure> {
    let Some(cache) = local.cache(&KIND) else { return Ok(()) };
    let wanted: Vec<Value> = versions.iter().map(|(group, version)| custom(group, version)).collect();
    let ensured = wanted.iter().map(|object| ensure_one(local, object));
    futures_util::future::try_join_all(ensured).await?;
    let names: BTreeSet<&str> = wanted.iter().map(meta::name).collect();
    let objects = cache.snapshot("", None).objects;
    let gone = objects.iter().filter(|object| {
        object.name.split_once('.').is_some_and(|(_, group)| concerns(group))
            && !names.contains(object.name.as_str())
            && object.projection.label(AUTO_MANAGED).is_some_and(|managed| managed == ALWAYS)
    });
    let removed = gone.map(|object| local.delete(&KIND, "", &object.name));
    futures_util::future::try_join_all(removed).await.map(|_| ())
}

/// The APIService of a version of custom resources.
fn custom(group: &str, version: &str) -> Value {
    let mut object = object(group, version);
    object.set(&["metadata", "labels", AUTO_MANAGED], ALWAYS);
    object.set(&["spec", "groupPriorityMinimum"], 1000);
    object.set(&["spec", "versionPriority"], 100);
    object
}

/// The APIServices of the served versions, without `apiregistration.k8s.io` itself and the built-in metrics.
fn wanted<'a>(served: impl Iterator<Item = (&'a str, &'a str)>) -> Vec<Value> {
    let versions: BTreeSet<_> =
        served.filter(|(group, _)| ![KIND.group, resource_metrics::GROUP].contains(group)).collect();
    versions.into_iter().map(|(group, version)| object(group, version)).collect()
}

/// The APIService of a built-in version.
pub(crate) fn object(group: &str, version: &str) -> Value {
    let mut object = KIND.named("", &format!("{version}.{group}"));
    object.set(&["metadata", "labels", AUTO_MANAGED], ON_START);
    if !group.is_empty() {
        object.set(&["spec", "group"], group);
    }
    object.set(&["spec", "version"], version);
    object.set(&["spec", "groupPriorityMinimum"], group_priority(group));
    object.set(&["spec", "versionPriority"], version_priority(group, version));
    object
}

fn group_priority(group: &str) -> i64 {
    GROUPS.iter().find(|(known, _)| *known == group).map_or(1000, |(_, priority)| *priority)
}

fn version_priority(group: &str, version: &str) -> i64 {
    let own = VERSIONS.iter().find(|(of, known, _)| (*of, *known) == (group, version));
    own.map_or_else(|| usual_priority(version), |(.., priority)| *priority)
}

fn usual_priority(version: &str) -> i64 {
    match version {
        version if version.contains("alpha") => 1,
        version if version.contains("beta") => 9,
        _ => 15,
    }
}

/// The corrected object, if this server manages it and it differs. Pure.
fn revised(current: &Value, wanted: &Value) -> Option<Value> {
    let ours = current.str_at(&["metadata", "labels", AUTO_MANAGED]).is_some();
    if !ours || current.get("spec") == wanted.get("spec") {
        return None;
    }
    let mut revised = current.clone();
    revised.set(&["spec"], wanted.get("spec").cloned().unwrap_or_default());
    Some(revised)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn every_served_version_except_apiregistration_and_metrics_has_an_api_service() {
        let metrics = (resource_metrics::GROUP, "v1beta1");
        let served =
            [("apps", "v1"), ("apps", "v1"), ("", "v1"), (KIND.group, "v1"), metrics, ("autoscaling", "v2")];
        let wanted = wanted(served.into_iter());
        let names: Vec<_> = wanted.iter().map(meta::name).collect();
        assert_eq!(names, ["v1.", "v1.apps", "v2.autoscaling"]);
        assert_eq!(
            wanted[0].get("spec"),
            Some(&value!({
            "version": "v1", "groupPriorityMinimum": 18000, "versionPriority": 1}))
        );
        assert_eq!(
            wanted[2].get("spec"),
            Some(&value!({
            "group": "autoscaling", "version": "v2", "groupPriorityMinimum": 17500, "versionPriority": 30}))
        );
    }

    #[test]
    fn versions_have_default_priorities() {
        for (group, version, priority) in [
            ("apps", "v1", 15),
            ("batch", "v1beta1", 9),
            ("storage.k8s.io", "v1alpha1", 1),
            ("flowcontrol.apiserver.k8s.io", "v1", 21),
        ] {
            assert_eq!(version_priority(group, version), priority, "{group}/{version}");
        }
    }

    #[test]
    fn objects_that_an_administrator_manages_stay() {
        let wanted = object("apps", "v1");
        let mut changed = wanted.clone();
        changed.set(&["spec", "versionPriority"], 1);
        assert_eq!(revised(&changed, &wanted).and_then(|o| o.int_at(&["spec", "versionPriority"])), Some(15));
        assert_eq!(revised(&wanted, &wanted), None);
        changed.set(&["metadata", "labels"], Value::object());
        assert_eq!(revised(&changed, &wanted), None);
    }
}
