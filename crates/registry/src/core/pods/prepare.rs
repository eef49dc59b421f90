//! Preparation of pods, at each of their endpoints.

use std::collections::{HashMap, VecDeque};

use corten_api::pods::CONTAINER_LISTS;
use corten_api::{Map, Str, Value, time, value};

use super::{qos, resources};
use crate::prepare::{copy, keep_metadata, same};
use crate::rules::Request;
use crate::table::{int_at, present, str_at};

/// A new pod is pending, has a QoS class, and is gated if it has scheduling gates.
pub(super) fn create(pod: &mut Value, request: &Request<'_>) {
    pod.set(&["status"], value!({"phase": "Pending"}));
    if !pod.items_at(&["spec", "schedulingGates"]).is_empty() {
        let gated = value!({
            "type": "PodScheduled", "status": "False", "reason": "SchedulingGated",
            "message": "Scheduling is blocked due to non-empty scheduling gates",
            "lastTransitionTime": (time::format(request.now)),
        });
        pod.set(&["status", "conditions"], vec![gated]);
    }
    merge_label_keys(pod);
    apply_apparmor_annotations(pod);
    resources::complete(pod);
    let class = qos::class(pod).name();
    pod.set(&["status", "qosClass"], class);
}

pub(super) fn update(pod: &mut Value, old: &Value, _: &Request<'_>) {
    copy(pod, old, &["status"]);
    if !present(pod, &["spec", "resources"]) {
        copy(pod, old, &["spec", "resources"]);
    }
}

pub(super) fn subresource(sub: &str, pod: &mut Value, old: &Value, _: &Request<'_>) {
    match sub {
        "status" => status(pod, old),
        "ephemeralcontainers" => ephemeral_containers(pod, old),
        "resize" => resize(pod, old),
        _ => {}
    }
}

/// Kubelets report the status; they must not erase fields they do not know.
fn status(pod: &mut Value, old: &Value) {
    copy(pod, old, &["spec"]);
    copy(pod, old, &["metadata", "deletionTimestamp"]);
    copy(pod, old, &["metadata", "ownerReferences"]);
    let remembered = [
        "qosClass",
        "resourceClaimStatuses",
        "extendedResourceClaimStatus",
        "nodeAllocatableResourceClaimStatuses",
        "observedGeneration",
    ];
    for key in remembered {
        let path = ["status", key];
        if !present(pod, &path) || str_at(pod, &path).is_empty() && key == "qosClass" {
            copy(pod, old, &path);
        }
    }
    keep_observed_generations(pod, old);
}

/// Conditions without an observed generation keep their previous one. There may be
/// several of a type: they are matched in order.
fn keep_observed_generations(pod: &mut Value, old: &Value) {
    const KEY: &str = "observedGeneration";
    let before = old.items_at(&["status", "conditions"]);
    let mut twins: HashMap<Option<Str>, VecDeque<&Value>> = HashMap::new();
    for condition in before {
        twins.entry(condition.str_at(&["type"]).map(Str::new)).or_default().push_back(condition);
    }
    let conditions = pod.get_mut("status").and_then(|s| s.get_mut("conditions"));
    for condition in conditions.and_then(Value::as_array_mut).into_iter().flatten() {
        let twin = twins.get_mut(&condition.str_at(&["type"]).map(Str::new)).and_then(VecDeque::pop_front);
        let Some(twin) = twin else { continue };
        if int_at(condition, &[KEY]) == 0 {
            copy(condition, twin, &[KEY]);
        }
    }
}

fn ephemeral_containers(pod: &mut Value, old: &Value) {
    const PATH: &[&str] = &["spec", "ephemeralContainers"];
    let wanted = pod.remove(PATH);
    copy(pod, old, &["spec"]);
    copy(pod, old, &["status"]);
    keep_metadata(pod, old);
    match wanted {
        Some(wanted) => pod.set(PATH, wanted),
        None => {
            pod.remove(PATH);
        }
    }
}

/// Resources of the pod and its containers may change, and their resize policies. A request that adds,
/// removes, reorders or renames containers is left to validation, which refuses it.
fn resize(pod: &mut Value, old: &Value) {
    const OWN: &[&str] = &["spec", "resources"];
    const LISTS: [[&str; 2]; 2] = [["spec", "containers"], ["spec", "initContainers"]];
    if LISTS.iter().any(|list| pod.items_at(list).len() != old.items_at(list).len()) {
        return;
    }
    let resized = LISTS.map(|list| {
        let (new, old) = (pod.items_at(&list), old.items_at(&list));
        let renamed = new.iter().zip(old).any(|(new, old)| !same(new, old, &["name"]));
        let merged = new.iter().zip(old).map(|(new, old)| {
            let mut merged = old.clone();
            copy(&mut merged, new, &["resources"]);
            copy(&mut merged, new, &["resizePolicy"]);
            merged
        });
        if renamed { new.to_vec() } else { merged.collect() }
    });
    // A client that does not know pod-level resources keeps them.
    let own = pod.remove(OWN).filter(|own| !own.is_null());
    copy(pod, old, &["spec"]);
    if let Some(own) = own {
        pod.set(OWN, own);
    }
    copy(pod, old, &["status"]);
    keep_metadata(pod, old);
    for (list, containers) in LISTS.iter().zip(resized) {
        if !containers.is_empty() {
            pod.set(list, containers);
        }
    }
    resources::complete(pod);
}

/// `matchLabelKeys` of affinity terms and spread constraints become plain requirements with the pod's own
/// labels.
fn merge_label_keys(pod: &mut Value) {
    let has = |key: &str| present(pod, &["spec", key]);
    if !has("affinity") && !has("topologySpreadConstraints") {
        return;
    }
    let labels = pod.at(&["metadata", "labels"]).and_then(Value::as_object).cloned().unwrap_or_default();
    for affinity in ["podAffinity", "podAntiAffinity"] {
        let affinity =
            pod.get_mut("spec").and_then(|s| s.get_mut("affinity")).and_then(|a| a.get_mut(affinity));
        let Some(affinity) = affinity.and_then(Value::as_object_mut) else { continue };
        let preferred = affinity.get_mut("preferredDuringSchedulingIgnoredDuringExecution");
        for term in preferred.and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge_into_term(term, &labels);
            }
        }
        let required = affinity.get_mut("requiredDuringSchedulingIgnoredDuringExecution");
        for term in required.and_then(Value::as_array_mut).into_iter().flatten() {
            merge_into_term(term, &labels);
        }
    }
    let constraints = pod.get_mut("spec").and_then(|s| s.get_mut("topologySpreadConstraints"));
    for constraint in constraints.and_then(Value::as_array_mut).into_iter().flatten() {
        merge_into_term(constraint, &labels);
    }
}

/// A term without a selector selects nothing and stays that way.
fn merge_into_term(term: &mut Value, labels: &Map) {
    let keys = |list: &str, operator: &'static str| {
        let keys = term.items_at(&[list]).iter().filter_map(Value::as_str);
        let held = keys.filter_map(|key| Some((key, labels.get(key)?)));
        let requirements =
            held.map(|(key, label)| value!({"key": key, "operator": operator, "values": [(label.clone())]}));
        requirements.collect::<Vec<_>>()
    };
    let mut added = keys("matchLabelKeys", "In");
    added.extend(keys("mismatchLabelKeys", "NotIn"));
    let Some(selector) = term.get_mut("labelSelector").and_then(Value::as_object_mut) else { return };
    if !added.is_empty() {
        selector.entry("matchExpressions").make_array().extend(added);
    }
}

/// AppArmor profiles used to be annotations; containers without the field get it from there, unless it
/// equals the pod's own.
fn apply_apparmor_annotations(pod: &mut Value) {
    const PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";
    if pod.str_at(&["spec", "os", "name"]) == Some("windows") {
        return;
    }
    let Some(annotations) = pod.at(&["metadata", "annotations"]).and_then(Value::as_object).cloned() else {
        return;
    };
    let pod_profile = pod.at(&["spec", "securityContext", "appArmorProfile"]).cloned();
    let Some(spec) = pod.get_mut("spec").and_then(Value::as_object_mut) else { return };
    for list in CONTAINER_LISTS {
        for container in spec.get_mut(list).and_then(Value::as_array_mut).into_iter().flatten() {
            const FIELD: &[&str] = &["securityContext", "appArmorProfile"];
            let key = format!("{PREFIX}{}", str_at(container, &["name"]));
            let annotated = annotations.get(&key).and_then(Value::as_str).and_then(apparmor_profile);
            let Some(profile) = annotated.filter(|_| !present(container, FIELD)) else { continue };
            if Some(&profile) != pod_profile.as_ref() {
                container.set(FIELD, profile);
            }
        }
    }
}

fn apparmor_profile(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(value!({"type": "Unconfined"})),
        "runtime/default" => Some(value!({"type": "RuntimeDefault"})),
        other => {
            let profile = other.strip_prefix("localhost/").filter(|profile| !profile.is_empty())?;
            Some(value!({"type": "Localhost", "localhostProfile": profile}))
        }
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::super::RULES;
    use super::*;

    fn request() -> Request<'static> {
        Request { now: Timestamp::UNIX_EPOCH, user: None }
    }

    fn after(sub: &str, old: &Value, sent: &Value) -> Value {
        let mut new = sent.clone();
        RULES.prepare_for_update(sub, &mut new, old, &request());
        new
    }

    #[test]
    fn a_new_pod_is_pending() {
        let mut pod = value!({
            "metadata": {"name": "p", "generation": 4},
            "spec": {"containers": [{"name": "c"}], "schedulingGates": [{"name": "g"}]},
            "status": {"phase": "Running", "podIP": "1.2.3.4"},
        });
        RULES.prepare_for_create(&mut pod, &request());
        assert_eq!(pod.int_at(&["metadata", "generation"]), Some(1));
        assert_eq!(pod.str_at(&["status", "phase"]), Some("Pending"));
        assert_eq!(pod.str_at(&["status", "qosClass"]), Some("BestEffort"));
        assert_eq!(pod.at(&["status", "podIP"]), None);
        assert_eq!(pod.items_at(&["status", "conditions"])[0].str_at(&["reason"]), Some("SchedulingGated"));
    }

    #[test]
    fn affinity_terms_take_the_pods_labels() {
        let mut pod = value!({
            "metadata": {"labels": {"hash": "1"}},
            "spec": {"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"labelSelector": {}, "matchLabelKeys": ["hash", "absent"]},
                {"matchLabelKeys": ["hash"]},
            ]}}},
        });
        create(&mut pod, &request());
        let path = ["spec", "affinity", "podAntiAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
        let terms = pod.items_at(&path);
        let added = value!([{"key": "hash", "operator": "In", "values": ["1"]}]);
        assert_eq!(terms[0].at(&["labelSelector", "matchExpressions"]), Some(&added));
        assert_eq!(terms[1].get("labelSelector"), None);
    }

    #[test]
    fn apparmor_annotations_become_fields() {
        let mut pod = value!({
            "metadata": {"annotations": {
                "container.apparmor.security.beta.kubernetes.io/a": "localhost/x",
                "container.apparmor.security.beta.kubernetes.io/b": "unconfined",
                "container.apparmor.security.beta.kubernetes.io/c": "nonsense",
            }},
            "spec": {
                "securityContext": {"appArmorProfile": {"type": "Unconfined"}},
                "containers": [{"name": "a"}, {"name": "b"}, {"name": "c"}],
            },
        });
        create(&mut pod, &request());
        let profiles: Vec<bool> = pod
            .items_at(&["spec", "containers"])
            .iter()
            .map(|c| present(c, &["securityContext", "appArmorProfile"]))
            .collect();
        assert_eq!(profiles, [true, false, false]);
    }

    #[test]
    fn a_status_report_erases_nothing() {
        let old = value!({
            "metadata": {"name": "p", "generation": 2, "ownerReferences": [{"uid": "o"}]},
            "spec": {"nodeName": "n"},
            "status": {
                "qosClass": "Burstable", "observedGeneration": 2, "resourceClaimStatuses": [{"name": "r"}],
                "conditions": [{"type": "Ready", "status": "False", "observedGeneration": 2}],
            },
        });
        let sent = value!({
            "metadata": {"name": "p", "labels": {"a": "b"}},
            "spec": {"nodeName": "other"},
            "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
        });
        let expected = value!({
            "metadata": {
                "name": "p", "generation": 2, "ownerReferences": [{"uid": "o"}], "labels": {"a": "b"},
            },
            "spec": {"nodeName": "n"},
            "status": {
                "phase": "Running", "qosClass": "Burstable", "observedGeneration": 2,
                "resourceClaimStatuses": [{"name": "r"}],
                "conditions": [{"type": "Ready", "status": "True", "observedGeneration": 2}],
            },
        });
        assert_eq!(after("status", &old, &sent), expected);
    }

    #[test]
    fn special_endpoints_change_one_thing() {
        let old = value!({
            "metadata": {"name": "p", "generation": 2, "labels": {"a": "b"}},
            "spec": {"nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
            "status": {"phase": "Running"},
        });
        let sent = value!({
            "metadata": {"name": "p"},
            "spec": {
                "containers": [{"name": "c", "image": "other", "resources": {"limits": {"cpu": "1"}}}],
                "ephemeralContainers": [{"name": "debug"}],
            },
            "status": {"phase": "Failed"},
        });
        let mut debugged = old.clone();
        debugged.set(&["spec", "ephemeralContainers"], value!([{"name": "debug"}]));
        debugged.set(&["metadata", "generation"], 3);
        assert_eq!(after("ephemeralcontainers", &old, &sent), debugged);

        let mut resized = old.clone();
        resized.set(
            &["spec", "containers"],
            value!([{"name": "c", "image": "i", "resources": {"limits": {"cpu": "1"}}}]),
        );
        resized.set(&["metadata", "generation"], 3);
        assert_eq!(after("resize", &old, &sent), resized);
        assert_eq!(after("resize", &old, &old), old);
    }
}
