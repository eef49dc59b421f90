//! Who the pods of a stateful set are: each has a number, and from it its name, its host name, its labels and the
//! claims that are its volumes.

use std::sync::Arc;

use corten_api::{Str, Value, meta, value};
use corten_client::{Key, Object, kinds};

use super::revisions;
use crate::pods::Pod;
use crate::{history, templates};

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// A name without its number, and the number if it is one that can be.
fn parts(name: &str) -> Option<(&str, Option<i64>)> {
    let (parent, digits) = name.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (parent, digits.parse::<i32>().ok().map(i64::from)))
}

/// Whether a pod is called as those of a set are.
pub(super) fn is_member(set: &Value, pod: &Object) -> bool {
    parts(&pod.key.name).is_some_and(|(parent, _)| parent == meta::name(set))
}

/// The number in the name of a pod, or of a claim.
pub(super) fn ordinal(name: &str) -> Option<i64> {
    parts(name)?.1
}

pub(super) fn replicas(set: &Value) -> i64 {
    set.int_at(&["spec", "replicas"]).unwrap_or(1).max(0)
}

/// The numbers that pods of a set should have.
pub(super) fn ordinals(set: &Value) -> std::ops::Range<i64> {
    let start = set.int_at(&["spec", "ordinals", "start"]).unwrap_or(0);
    start..start + replicas(set)
}

pub(super) fn pod_name(set: &Value, ordinal: i64) -> String {
    format!("{}-{ordinal}", meta::name(set))
}

fn claim_templates(set: &Value) -> &[Value] {
    set.items_at(&["spec", "volumeClaimTemplates"])
}

/// The volumes of a set's pod that are claims, and the names of these.
pub(super) fn claim_names(set: &Value, ordinal: i64) -> impl Iterator<Item = (&str, String)> {
    claim_templates(set).iter().map(move |template| {
        let volume = meta::name(template);
        (volume, format!("{volume}-{}-{ordinal}", meta::name(set)))
    })
}

/// The claims of a set's pod, as they are made.
pub(super) fn claims(set: &Value, ordinal: i64) -> impl Iterator<Item = (Key, Value)> {
    let selected = set.at(&["spec", "selector", "matchLabels"]).and_then(Value::as_object);
    claim_templates(set).iter().zip(claim_names(set, ordinal)).map(move |(template, (_, name))| {
        let mut claim = template.clone();
        claim.set(&["apiVersion"], kinds::PERSISTENT_VOLUME_CLAIMS.api_version());
        claim.set(&["kind"], kinds::PERSISTENT_VOLUME_CLAIMS.kind.clone());
        claim.set(&["metadata", "name"], name);
        claim.set(&["metadata", "namespace"], meta::namespace(set));
        for (key, label) in selected.iter().flat_map(|labels| labels.iter()) {
            claim.set(&["metadata", "labels", key], label.clone());
        }
        (Key::of(&claim), claim)
    })
}

/// A pod of a set that is yet to be made, of a revision.
pub(super) fn new_pod(set: &Value, revision: &Value, ordinal: i64) -> Value {
    let mut pod = templates::pod(&revisions::template(revision), set);
    let name = pod_name(set, ordinal);
    identify(set, ordinal, &mut pod);
    pod.set(&["metadata", "labels", history::HASH], meta::name(revision));
    pod.set(&["spec", "hostname"], name);
    if let Some(service) = set.str_at(&["spec", "serviceName"]).filter(|name| !name.is_empty()) {
        pod.set(&["spec", "subdomain"], service);
    }
    furnish(set, ordinal, &mut pod);
    pod
}

/// Gives a pod its name and the labels that tell who it is.
pub(super) fn identify(set: &Value, ordinal: i64, pod: &mut Value) {
    let name = pod_name(set, ordinal);
    pod.set(&["metadata", "labels", NAME_LABEL], name.as_str());
    pod.set(&["metadata", "labels", INDEX_LABEL], ordinal.to_string());
    pod.set(&["metadata", "name"], name);
}

/// Gives a pod the volumes that are its claims; they take the place of others with their names.
pub(super) fn furnish(set: &Value, ordinal: i64, pod: &mut Value) {
    let claimed: Vec<(&str, String)> = claim_names(set, ordinal).collect();
    if claimed.is_empty() {
        return;
    }
    let is_other = |volume: &&Value| !claimed.iter().any(|(name, _)| volume.str_at(&["name"]) == Some(name));
    let others: Vec<Value> = pod.items_at(&["spec", "volumes"]).iter().filter(is_other).cloned().collect();
    let volume = |(name, claim): &(&str, String)| value!({"name": (*name), "persistentVolumeClaim": {"claimName": (claim.as_str())}});
    let volumes: Vec<Value> = claimed.iter().map(volume).chain(others).collect();
    pod.set(&["spec", "volumes"], volumes);
}

/// Whether a pod says of itself who it is.
pub(super) fn is_identified(set: &Value, pod: &Object, ordinal: i64) -> bool {
    let name = pod_name(set, ordinal);
    pod.key.name == name.as_str() && pod.labels.get(NAME_LABEL).and_then(Value::as_str) == Some(&name)
}

/// Whether a pod has the claims it should have.
pub(super) fn is_furnished(set: &Value, pod: &Pod, ordinal: i64) -> bool {
    let has = |(volume, claim): (&str, String)| {
        let is = |(name, claimed): &&(Str, Str)| *name == volume && *claimed == claim.as_str();
        pod.view.claims.iter().any(|one| is(&one))
    };
    claim_names(set, ordinal).all(has)
}

/// The revision that a pod says it is of.
pub(super) fn revision(pod: &Arc<Object>) -> &str {
    pod.labels.get(history::HASH).and_then(Value::as_str).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_numbers() {
        for (name, expected) in [
            ("web-0", Some(("web", Some(0)))),
            ("my-web-12", Some(("my-web", Some(12)))),
            ("web", None),
            ("web-", None),
            ("web-a", None),
            ("web-1a", None),
            ("web-99999999999", Some(("web", None))),
        ] {
            assert_eq!(parts(name), expected, "{name}");
        }
    }
}
