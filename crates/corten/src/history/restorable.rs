//! Objects of the past as they can be written again. Pure.
//!
//! Of a past version only what its author chose is written: identity, status and the traces of the system are the API server's.

use std::collections::BTreeSet;

use corten_api::{Value, meta};

/// Fields of metadata that the API server sets.
const OF_SYSTEM: [&str; 9] = [
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "generation",
    "managedFields",
    "selfLink",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generateName",
];
/// Kinds that controllers or nodes write, and that come back by themselves or mean nothing later.
const NOT_RESTORED: [&str; 5] = ["Event", "EndpointSlice", "Endpoints", "ControllerRevision", "Lease"];

/// The reason why an object of a deleted namespace is not restored by itself.
pub(super) fn reason_to_skip(object: &Value) -> Option<&'static str> {
    let owners = object.items_at(&["metadata", "ownerReferences"]);
    let is_controlled = owners.iter().any(|owner| owner.at(&["controller"]) == Some(&Value::from(true)));
    let (kind, name) = (meta::kind(object), meta::name(object));
    match () {
        () if is_controlled => Some("its controller creates it"),
        () if NOT_RESTORED.contains(&kind) => Some("the system writes it"),
        () if kind == "ConfigMap" && name == "kube-root-ca.crt" => Some("the system writes it"),
        () if kind == "ServiceAccount" && name == "default" => Some("the system writes it"),
        () if object.str_at(&["type"]) == Some("kubernetes.io/service-account-token") => {
            Some("it is a token of a service account that is gone")
        }
        () if meta::is_deleting(object) => Some("it was being deleted then"),
        () => None,
    }
}

/// The object for a create. Owners that are gone would have the garbage collector delete it again, so only those stay that
/// `is_there` knows by their UID.
pub(super) fn for_create(object: &Value, existing: &BTreeSet<String>) -> Value {
    let mut new = without_system(object);
    let owners: Vec<Value> = new.items_at(&["metadata", "ownerReferences"]).to_vec();
    let left =
        owners.into_iter().filter(|owner| owner.str_at(&["uid"]).is_some_and(|uid| existing.contains(uid)));
    let left: Vec<Value> = left.collect();
    new.remove(&["metadata", "ownerReferences"]);
    if !left.is_empty() {
        new.set(&["metadata", "ownerReferences"], left);
    }
    match meta::kind(object) {
        // The scheduler chooses again.
        "Pod" => drop(new.remove(&["spec", "nodeName"])),
        // The API server allocates again, because others may have the addresses and ports now.
        "Service" => release_allocations(&mut new),
        // The volume is bound to the claim that is gone.
        "PersistentVolumeClaim" => {
            new.remove(&["spec", "volumeName"]);
            for annotation in ["pv.kubernetes.io/bind-completed", "pv.kubernetes.io/bound-by-controller"] {
                new.remove(&["metadata", "annotations", annotation]);
            }
        }
        "Namespace" => drop(new.remove(&["spec"])),
        _ => {}
    }
    new
}

fn release_allocations(service: &mut Value) {
    if service.str_at(&["spec", "clusterIP"]) != Some("None") {
        service.remove(&["spec", "clusterIP"]);
        service.remove(&["spec", "clusterIPs"]);
    }
    service.remove(&["spec", "healthCheckNodePort"]);
    let ports = service.items_at(&["spec", "ports"]).to_vec();
    let ports = ports.into_iter().map(|mut port| {
        port.remove(&["nodePort"]);
        port
    });
    let ports: Vec<Value> = ports.collect();
    if !ports.is_empty() {
        service.set(&["spec", "ports"], ports);
    }
}

/// The current object with everything that a user chose as it was. The identity and version are the current ones, so that a write
/// in between is a conflict.
pub(super) fn for_update(past: &Value, current: &Value) -> Value {
    let mut new = without_system(past);
    for field in ["uid", "resourceVersion", "creationTimestamp", "generation", "managedFields"] {
        if let Some(value) = current.at(&["metadata", field]) {
            new.set(&["metadata", field], value.clone());
        }
    }
    if let Some(status) = current.at(&["status"]) {
        new.set(&["status"], status.clone());
    }
    if let Some(owners) = current.at(&["metadata", "ownerReferences"]) {
        new.set(&["metadata", "ownerReferences"], owners.clone());
    }
    new
}

fn without_system(object: &Value) -> Value {
    let mut new = object.clone();
    OF_SYSTEM.iter().for_each(|field| drop(new.remove(&["metadata", field])));
    new.remove(&["status"]);
    new
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn what_the_system_wrote_is_not_written_again() {
        let pod = value!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {
                "name": "p", "uid": "old", "resourceVersion": "7", "labels": {"a": "b"},
                "ownerReferences": [{"uid": "gone"}, {"uid": "here"}],
            },
            "spec": {"nodeName": "n", "containers": []}, "status": {"phase": "Running"},
        });
        let expected = value!({
            "kind": "Pod", "apiVersion": "v1",
            "metadata": {"name": "p", "labels": {"a": "b"}, "ownerReferences": [{"uid": "here"}]},
            "spec": {"containers": []},
        });
        assert_eq!(for_create(&pod, &BTreeSet::from(["here".to_owned()])), expected);
        let service = value!({
            "kind": "Service", "metadata": {"name": "s"},
            "spec": {"clusterIP": "10.96.0.7", "clusterIPs": ["10.96.0.7"], "ports": [{"port": 80, "nodePort": 30000}]},
        });
        let expected =
            value!({"kind": "Service", "metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
        assert_eq!(for_create(&service, &BTreeSet::new()), expected);
    }

    #[test]
    fn an_update_has_the_current_identity() {
        let past = value!({"metadata": {"name": "w", "uid": "a", "resourceVersion": "1"}, "spec": {"x": 1}});
        let current = value!({
            "metadata": {"name": "w", "uid": "b", "resourceVersion": "9"}, "spec": {"x": 2, "y": 3}, "status": {"z": 4},
        });
        let expected = value!({
            "metadata": {"name": "w", "uid": "b", "resourceVersion": "9"}, "spec": {"x": 1}, "status": {"z": 4},
        });
        assert_eq!(for_update(&past, &current), expected);
    }

    #[test]
    fn objects_that_come_back_by_themselves_are_left_to_the_system() {
        let of = |kind: &str, name: &str| value!({"kind": (kind), "metadata": {"name": (name)}});
        for (kind, name) in [("Event", "e"), ("ConfigMap", "kube-root-ca.crt"), ("ServiceAccount", "default")]
        {
            assert!(reason_to_skip(&of(kind, name)).is_some(), "{kind}");
        }
        let mut replica_set = of("ReplicaSet", "r");
        assert_eq!(reason_to_skip(&replica_set), None);
        replica_set.set(&["metadata", "ownerReferences"], vec![value!({"uid": "d", "controller": true})]);
        assert_eq!(reason_to_skip(&replica_set), Some("its controller creates it"));
        assert_eq!(reason_to_skip(&of("Secret", "s")), None);
    }
}
