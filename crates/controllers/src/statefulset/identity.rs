//! The identity of a stateful set's pods: the ordinal of each, and from it its name, host name, labels and claims.

use std::sync::Arc;

use corten_api::{Str, Value, meta, value};
use corten_client::{Key, Object, kinds};

use super::revisions;
use crate::pods::Pod;
use crate::{history, templates};

const NAME_LABEL: &str = "statefulset.kubernetes.io/pod-name";
const INDEX_LABEL: &str = "apps.kubernetes.io/pod-index";

/// The name without its ordinal, and the ordinal if it is valid.
fn parts(name: &str) -> Option<(&str, Option<i64>)> {
    let (parent, digits) = name.rsplit_once('-')?;
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| (parent, digits.parse::<i32>().ok().map(i64::from)))
}

/// True if a pod has a name of the set's pods.
pub(super) fn is_member(set: &Value, pod: &Object) -> bool {
    parts(&pod.key.name).is_some_and(|(parent, _)| parent == meta::name(set))
}

/// The ordinal in the name of a pod, or of a claim.
pub(super) fn ordinal(name: &str) -> Option<i64> {
    parts(name)?.1
}

pub(super) fn replicas(set: &Value) -> i64 {
    set.int_at(&["spec", "replicas"]).unwrap_or(1).max(0)
}

/// The ordinals of a set's pods.
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

/// The claim volumes of a set's pod, and the names of their claims.
pub(super) fn claim_names(set: &Value, ordinal: i64) -> impl Iterator<Item = (&str, String)> {
    claim_templates(set).iter().map(move |template| {
        let volume = meta::name(template);
        (volume, format!("{volume}-{}-{ordinal}", meta::name(set)))
    })
}

/// The claims of a set's pod, to be created.
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

/// A new pod of a set, of a revision.
pub(super) fn new_pod(set: &Value, revision: &Value, ordinal: i64) -> Value {
    let mut pod = templates::pod(&revisions::template(revision), set);
    let name = pod_name(set, ordinal);
    set_identity(set, ordinal, &mut pod);
    pod.set(&["metadata", "labels", history::HASH], meta::name(revision));
    pod.set(&["spec", "hostname"], name);
    if let Some(service) = set.str_at(&["spec", "serviceName"]).filter(|name| !name.is_empty()) {
        pod.set(&["spec", "subdomain"], service);
    }
    set_claim_volumes(set, ordinal, &mut pod);
    pod
}

/// Sets a pod's name and identity labels.
pub(super) fn set_identity(set: &Value, ordinal: i64, pod: &mut Value) {
    let name = pod_name(set, ordinal);
    pod.set(&["metadata", "labels", NAME_LABEL], name.as_str());
    pod.set(&["metadata", "labels", INDEX_LABEL], ordinal.to_string());
    pod.set(&["metadata", "name"], name);
}

/// Adds the claim volumes to a pod; they replace others of the same names.
pub(super) fn set_claim_volumes(set: &Value, ordinal: i64, pod: &mut Value) {
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

/// True if a pod has the identity labels.
pub(super) fn has_identity(set: &Value, pod: &Object, ordinal: i64) -> bool {
    let name = pod_name(set, ordinal);
    pod.key.name == name.as_str() && pod.labels.get(NAME_LABEL).and_then(Value::as_str) == Some(&name)
}

/// True if a pod has the claims it should have.
pub(super) fn has_claim_volumes(set: &Value, pod: &Pod, ordinal: i64) -> bool {
    let has = |(volume, claim): (&str, String)| {
        let is = |(name, claimed): &&(Str, Str)| *name == volume && *claimed == claim.as_str();
        pod.view.claims.iter().any(|one| is(&one))
    };
    claim_names(set, ordinal).all(has)
}

/// The revision in a pod's label.
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
