//! A stand-in for the scheduler, for as long as there is none: pods go to the ready nodes in turn, as far as
//! taints, node names and labels allow. It weighs nothing and knows no resources but the number of pods.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corten_api::{Value, meta, value};
use corten_client::{Cache, Client, Error, Key, Object, Patch, kinds};
use corten_reconcile::{Event, Manager, Recorder};
use jiff::Timestamp;
use parking_lot::Mutex;

use crate::conditions::{self, Condition};
use crate::nodes::{self, MAX_PODS};
use crate::placements::Placements;

const SCHEDULER: &str = "default-scheduler";

pub(crate) struct Binder {
    client: Client,
    recorder: Recorder,
    turn: AtomicUsize,
    /// Pods that fitted nowhere.
    refused: Mutex<BTreeSet<Key>>,
}

impl Binder {
    pub(crate) fn new(client: Client, manager: &Manager) -> Binder {
        Binder {
            client,
            recorder: manager.recorder().clone(),
            turn: AtomicUsize::new(0),
            refused: Mutex::default(),
        }
    }

    /// The next pod to try when there is room again.
    pub(crate) fn next_refused(&self) -> Option<Key> {
        self.refused.lock().pop_first()
    }

    /// Gives a pod a node, or says that there is none for it.
    pub(crate) async fn bind(
        &self,
        key: &Key,
        pod: &Value,
        nodes: &Cache,
        placements: &Placements,
        now: Timestamp,
    ) -> Result<(), Error> {
        if !is_waiting(pod) {
            return Ok(());
        }
        let nodes = nodes.list("");
        let fits =
            |node: &Arc<Object>| placements.count(&node.key.name) < MAX_PODS && fits(pod, &node.tree());
        let first = self.turn.fetch_add(1, Ordering::Relaxed);
        let in_turn = (0..nodes.len()).map(|step| &nodes[(first + step) % nodes.len()]);
        let Some(node) = in_turn.into_iter().find(|node| fits(node)) else {
            return self.refuse(key, pod, nodes.len(), now).await;
        };
        let name = node.key.name.clone();
        let binding = value!({
            "apiVersion": "v1", "kind": "Binding",
            "metadata": {"name": (key.name.clone()), "namespace": (key.namespace.clone()), "uid": (meta::uid(pod))},
            "target": {"kind": "Node", "name": (name.clone())},
        });
        self.client.create_subresource(&kinds::PODS, key, "binding", &binding).await?;
        placements.assume(key, &name);
        let message = format!("Successfully assigned {key} to {name}");
        self.recorder.record(Event::normal(SCHEDULER, pod, "Scheduled", message));
        Ok(())
    }

    async fn refuse(&self, key: &Key, pod: &Value, nodes: usize, now: Timestamp) -> Result<(), Error> {
        self.refused.lock().insert(key.clone());
        if conditions::find(pod, "PodScheduled").is_some() {
            return Ok(());
        }
        let message = format!("0/{nodes} nodes are available.");
        let condition = Condition {
            kind: "PodScheduled",
            holds: false,
            reason: "Unschedulable",
            message: message.clone(),
        };
        let patch = Value::Object(condition.patch(pod, now));
        let patch = Patch::Strategic(value!({"status": {"conditions": [(patch)]}}));
        self.client.patch(&kinds::PODS, key, &patch, "status").await?;
        self.recorder.record(Event::warning(SCHEDULER, pod, "FailedScheduling", message));
        Ok(())
    }
}

/// Whether a pod waits for the default scheduler.
fn is_waiting(pod: &Value) -> bool {
    let ours = pod.str_at(&["spec", "schedulerName"]).is_none_or(|name| name == SCHEDULER);
    let gated = !pod.items_at(&["spec", "schedulingGates"]).is_empty();
    ours && !gated && !meta::is_deleting(pod) && pod.str_at(&["status", "phase"]) == Some("Pending")
}

fn fits(pod: &Value, node: &Value) -> bool {
    if !nodes::is_ready(node) || meta::is_deleting(node) {
        return false;
    }
    let labels = meta::labels(node);
    let labelled = pod.at(&["spec", "nodeSelector"]).and_then(Value::as_object).is_none_or(|wanted| {
        wanted.iter().all(|(key, value)| labels.and_then(|labels| labels.get(key)) == Some(value))
    });
    labelled && is_named(pod, meta::name(node)) && tolerates_all(pod, node)
}

/// Whether the nodes a pod names, if any, include this one: how DaemonSets choose.
fn is_named(pod: &Value, node: &str) -> bool {
    let required = ["spec", "affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"];
    let Some(required) = pod.at(&required) else { return true };
    let terms = required.items_at(&["nodeSelectorTerms"]);
    terms.iter().any(|term| {
        let fields = term.items_at(&["matchFields"]);
        fields.iter().all(|field| field.items_at(&["values"]).iter().any(|name| name.as_str() == Some(node)))
    })
}

fn tolerates_all(pod: &Value, node: &Value) -> bool {
    let cordoned = node.bool_at(&["spec", "unschedulable"]) == Some(true);
    let cordon = value!({"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"});
    let taints = node.items_at(&["spec", "taints"]).iter().chain(cordoned.then_some(&cordon));
    let blocks = |taint: &&Value| {
        let text = |key: &str| taint.str_at(&[key]).unwrap_or_default();
        // A node that says it is ready is, whether or not anybody has taken the taint away yet.
        text("effect") != "PreferNoSchedule" && text("key") != "node.kubernetes.io/not-ready"
    };
    let tolerations = pod.items_at(&["spec", "tolerations"]);
    taints.filter(blocks).all(|taint| tolerations.iter().any(|toleration| tolerates(toleration, taint)))
}

fn tolerates(toleration: &Value, taint: &Value) -> bool {
    let same =
        |key: &str| toleration.str_at(&[key]).unwrap_or_default() == taint.str_at(&[key]).unwrap_or_default();
    let any = |key: &str| toleration.str_at(&[key]).unwrap_or_default().is_empty();
    let exists = toleration.str_at(&["operator"]) == Some("Exists");
    (any("effect") || same("effect")) && (same("key") || (exists && any("key"))) && (exists || same("value"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pod: &Value, node_spec: Value, expected: bool) {
        let mut node = value!({
            "metadata": {"name": "a", "labels": {"disk": "ssd"}},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        node.set(&["spec"], node_spec);
        assert_eq!(fits(pod, &node), expected);
    }

    #[test]
    fn which_nodes_fit() {
        let pod = value!({"spec": {}});
        check(&pod, value!({}), true);
        check(&pod, value!({"unschedulable": true}), false);
        check(&pod, value!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}), false);
        check(
            &pod,
            value!({"taints": [{"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}]}),
            true,
        );
        let tolerant = value!({"spec": {"tolerations": [{"key": "k", "operator": "Exists"}]}});
        check(&tolerant, value!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}]}), true);
        check(&value!({"spec": {"nodeSelector": {"disk": "ssd"}}}), value!({}), true);
        check(&value!({"spec": {"nodeSelector": {"disk": "hdd"}}}), value!({}), false);
    }
}
