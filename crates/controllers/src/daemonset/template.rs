//! The pods of a daemon set: additions to its template, and their node affinity.

use corten_api::{Str, Value, value};
use corten_client::{Patch, kinds};
use corten_reconcile::Action;

use super::World;
use crate::pods::Pod;
use crate::{history, templates};

const GENERATION: &str = "pod-template-generation";
const REQUIRED: [&str; 3] = ["affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];

/// Adds the tolerations that keep daemon pods on a node whatever its condition.
pub(super) fn add_tolerations(spec: &mut Value) {
    let on_host = spec.bool_at(&["hostNetwork"]) == Some(true);
    let tolerations = spec.make_object().entry("tolerations").make_array();
    let mut add = |condition: &str, effect: &str| {
        let key = format!("node.kubernetes.io/{condition}");
        let toleration = value!({"key": (key), "operator": "Exists", "effect": (effect)});
        if !tolerations.contains(&toleration) {
            tolerations.push(toleration);
        }
    };
    for condition in ["not-ready", "unreachable"] {
        add(condition, "NoExecute");
    }
    for condition in ["disk-pressure", "memory-pressure", "pid-pressure", "unschedulable"] {
        add(condition, "NoSchedule");
    }
    if on_host {
        add("network-unavailable", "NoSchedule");
    }
}

/// The generation of the template, in the annotation of old daemon sets.
fn generation(set: &Value) -> Option<&str> {
    set.str_at(&["metadata", "annotations", "deprecated.daemonset.template.generation"])
        .filter(|text| text.parse::<i64>().is_ok())
}

/// The pod for a node.
pub(super) fn pod(set: &Value, hash: &str, node: &str) -> Value {
    let template = set.at(&["spec", "template"]).unwrap_or(&Value::Null);
    let mut pod = templates::pod(template, set);
    pod.set(&["metadata", "labels", history::HASH], hash);
    if let Some(generation) = generation(set) {
        pod.set(&["metadata", "labels", GENERATION], generation);
    }
    let spec = pod.make_object().entry("spec");
    add_tolerations(spec);
    let here = value!({"key": "metadata.name", "operator": "In", "values": [(node)]});
    spec.set(&REQUIRED, value!({"nodeSelectorTerms": [{"matchFields": [(here)]}]}));
    pod
}

/// The node that a pod is bound to, or names in its affinity.
pub(super) fn node_of(pod: &Pod) -> Option<Str> {
    if !pod.view.node.is_empty() {
        return Some(pod.view.node.clone());
    }
    let tree = pod.object.tree();
    let terms = tree.get("spec")?.at(&REQUIRED)?.items_at(&["nodeSelectorTerms"]);
    let fields = terms.iter().flat_map(|term| term.items_at(&["matchFields"]));
    let mut named = fields.filter(|field| field.str_at(&["key"]) == Some("metadata.name"));
    named.find_map(|field| field.items_at(&["values"]).first()?.as_str().map(Str::new))
}

/// True if a pod has the current template.
pub(super) fn is_updated(pod: &Pod, set: &Value, hash: &str) -> bool {
    let label = |key: &str| pod.object.labels.get(key).and_then(Value::as_str);
    label(history::HASH) == Some(hash) || (generation(set).is_some() && label(GENERATION) == generation(set))
}

/// Relabels the pods of one revision to another with the same content.
pub(super) fn relabel(world: &World, from: &str, to: &str) -> Vec<Action> {
    let pods = world.pods.owned.iter();
    let of_it = pods.filter(|pod| pod.labels.get(history::HASH).and_then(Value::as_str) == Some(from));
    of_it
        .map(|pod| {
            let patch = Patch::Merge(value!({"metadata": {"labels": {"controller-revision-hash": (to)}}}));
            Action::Patch { kind: &kinds::PODS, key: pod.key.clone(), patch, subresource: "" }
        })
        .collect()
}
