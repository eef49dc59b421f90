//! `binding`: assigns a pod to a node, once.

use corten_api::names::NameRule;
use corten_api::status::ErrorList;
use corten_api::{Status, Value, meta, patch, status, time};

use super::commit::Companions;
use super::subresource::{current, decode_as, update_condition};
use super::write::{RACE_RETRIES, Replaced};
use super::{list, prepare, write};
use crate::admission::{self, Write};
use crate::call::Call;
use crate::respond::{self, Answer};

/// Annotations that described init containers in old versions and are no longer stored.
const DROPPED_ANNOTATIONS: [&str; 4] = [
    "pod.alpha.kubernetes.io/init-container-statuses",
    "pod.alpha.kubernetes.io/init-containers",
    "pod.beta.kubernetes.io/init-container-statuses",
    "pod.beta.kubernetes.io/init-containers",
];

/// Binds a pod, through its subresource `binding` or, without one, through the resource `bindings`.
pub(crate) async fn bind(call: &mut Call, subresource: &str) -> Result<Answer, Status> {
    let mut binding = decode_as(call, "", "v1", "Binding")?;
    let (wanted, dry_run) = (call.wanted_whole()?, call.dry_run("CreateOptions")?);
    prepare::agree_on_namespace(call, &mut binding)?;
    let write = Write::create(subresource, dry_run);
    admission::admit(call, write, &mut binding).await?;
    if meta::name(&binding) != call.at.name {
        return Err(Status::bad_request("name in URL does not match name in Binding object"));
    }
    validate(&binding)?;
    if call.at.name.is_empty() {
        return Err(Status::bad_request("Name parameter required."));
    }
    admission::validate(call, write, &binding).await?;
    call.served = call.backend.catalog.get("", "v1", "pods").ok_or_else(Status::unknown_path)?;
    for _ in 0..RACE_RETRIES {
        let current = current(call).await?;
        check_preconditions(call, &binding, &current.tree, &current.object.key)?;
        check_unbound(&current.tree)
            .map_err(|why| Status::conflict("", "pods/binding", &call.at.name, why))?;
        let pod = bound(&current.tree, &binding, &time::format(call.now))?;
        let cache = list::cache(call)?.clone();
        let written =
            write::replace_stored(call, &cache, &current, pod, Companions::default(), dry_run).await?;
        if let Replaced::Stored(_) = written {
            return Ok(respond::tree(201, &status::created(), wanted));
        }
    }
    Err(call.stale())
}

/// Validates a binding. As upstream, the errors are not wrapped in an `Invalid` status.
fn validate(binding: &Value) -> Result<(), Status> {
    let kind = binding.str_at(&["target", "kind"]).unwrap_or_default();
    let node = binding.str_at(&["target", "name"]).unwrap_or_default();
    let mut errors = ErrorList::new();
    if !matches!(kind, "" | "Node") {
        errors.not_supported("target.kind", &Value::from(kind), &["Node", "<empty>"]);
    }
    if node.is_empty() {
        errors.required("target.name", "");
    } else if matches!(kind, "" | "Node") {
        for why in NameRule::DnsSubdomain.check(node) {
            errors.invalid("target.name", &Value::from(node), why);
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(Status::unexplained(errors.summary())) }
}

/// Checks the binding's uid and resourceVersion against the pod, if the binding has them.
fn check_preconditions(call: &Call, binding: &Value, pod: &Value, key: &str) -> Result<(), Status> {
    let key = call.reported_key(key);
    let pairs = [
        ("UID", meta::uid(binding), meta::uid(pod)),
        ("ResourceVersion", meta::resource_version(binding), meta::resource_version(pod)),
    ];
    for (what, asked, found) in pairs {
        if !asked.is_empty() && asked != found {
            let why = format!(
                "StorageError: invalid object, Code: 4, Key: {key}, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: {what} in precondition: {asked}, {what} in object meta: {found}"
            );
            return Err(Status::conflict("", "pods", &call.at.name, why));
        }
    }
    Ok(())
}

fn check_unbound(pod: &Value) -> Result<(), String> {
    let name = meta::name(pod);
    let node = pod.str_at(&["spec", "nodeName"]).unwrap_or_default();
    if meta::is_deleting(pod) {
        Err(format!("pod {name} is being deleted, cannot be assigned to a host"))
    } else if !node.is_empty() {
        Err(format!("pod {name} is already assigned to node {node:?}"))
    } else if !pod.items_at(&["spec", "schedulingGates"]).is_empty() {
        Err(format!("pod {name} has non-empty .spec.schedulingGates"))
    } else {
        Ok(())
    }
}

/// The pod with its node, and with the binding's labels and annotations.
fn bound(pod: &Value, binding: &Value, now: &str) -> Result<Value, Status> {
    let mut pod = pod.clone();
    pod.set(&["spec", "nodeName"], binding.str_at(&["target", "name"]).unwrap_or_default());
    pod.remove(&["status", "nominatedNodeName"]);
    for key in ["annotations", "labels"] {
        if let Some(added) = binding.at(&["metadata", key]).filter(|added| !added.is_null()) {
            let mut merged = pod.at(&["metadata", key]).cloned().unwrap_or_else(Value::object);
            patch::merge(&mut merged, added).map_err(|e| e.to_status())?;
            pod.set(&["metadata", key], merged);
        }
    }
    for key in DROPPED_ANNOTATIONS {
        pod.remove(&["metadata", "annotations", key]);
    }
    update_condition(&mut pod, "PodScheduled", None, now);
    Ok(pod)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn targets() {
        for (target, wrong) in [
            (value!({"name": "n1"}), ""),
            (value!({"name": "n1", "kind": "Node"}), ""),
            (value!({"kind": "Node"}), "target.name: Required value"),
            (
                value!({"kind": "Pod"}),
                "[target.kind: Unsupported value: \"Pod\": supported values: \"Node\", \"<empty>\", target.name: Required value]",
            ),
        ] {
            let mut binding = Value::object();
            binding.set(&["target"], target.clone());
            let found = validate(&binding).err().map(|status| status.message).unwrap_or_default();
            assert_eq!(found, wrong, "{target:?}");
        }
        let binding = value!({"target": {"name": "n_1"}});
        assert!(
            validate(&binding)
                .unwrap_err()
                .message
                .starts_with("target.name: Invalid value: \"n_1\": a lower")
        );
    }

    #[test]
    fn a_binding_sets_node_labels_and_annotations() {
        let pod = value!({
            "metadata": {"name": "p", "labels": {"app": "x", "z": "1"}},
            "status": {"nominatedNodeName": "n0", "conditions": [
                {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"},
            ]},
        });
        let binding = value!({
            "metadata": {"labels": {"app": "y"}, "annotations": {"k": "v"}}, "target": {"name": "n1"},
        });
        let expected = value!({
            "metadata": {"name": "p", "labels": {"app": "y", "z": "1"}, "annotations": {"k": "v"}},
            "spec": {"nodeName": "n1"},
            "status": {"conditions": [
                {"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "now"},
            ]},
        });
        assert_eq!(bound(&pod, &binding, "now").unwrap(), expected);
    }

    #[test]
    fn pods_that_cannot_be_bound_are_refused() {
        let refused = |pod: Value| check_unbound(&pod).unwrap_err();
        assert_eq!(
            refused(value!({"metadata": {"name": "p"}, "spec": {"nodeName": "n"}})),
            "pod p is already assigned to node \"n\""
        );
        assert_eq!(
            refused(value!({"metadata": {"name": "p"}, "spec": {"schedulingGates": [{"name": "g"}]}})),
            "pod p has non-empty .spec.schedulingGates"
        );
        assert_eq!(
            refused(value!({"metadata": {"name": "p", "deletionTimestamp": "2026-01-01T00:00:00Z"}})),
            "pod p is being deleted, cannot be assigned to a host"
        );
    }
}
