//! Reconciles a node after each change: the NoSchedule taints of its conditions and its cordon, and the beta names of
//! its labels.

use corten_api::{Map, Value, meta};
use corten_client::{Caches, Key, Patch, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use super::NAME;
use crate::{nodes, taints};

/// Labels and their beta names.
const RENAMED: [(&str, &str); 2] =
    [("kubernetes.io/os", "beta.kubernetes.io/os"), ("kubernetes.io/arch", "beta.kubernetes.io/arch")];

pub(super) struct NodeUpdates;

impl Controller for NodeUpdates {
    /// The node, if it exists.
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn account(&self) -> &'static str {
        nodes::ACCOUNT
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::NODES)]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Value> {
        caches.of(&kinds::NODES).get(key).map(|node| node.tree())
    }

    fn plan(&self, key: &Key, node: &Option<Value>, now: Timestamp) -> Plan {
        let Some(node) = node else { return Plan::done() };
        let patch = |patch| Action::Patch { kind: &kinds::NODES, key: key.clone(), patch, subresource: "" };
        let mut plan = Plan::done();
        if let Some(taints) = taints::by_condition(node).apply(node.items_at(&["spec", "taints"]), now) {
            plan = plan.then(patch(taints::patch(meta::resource_version(node), taints)));
        }
        if let Some(labels) = outdated_beta_labels(node) {
            let mut labelled = Value::object();
            labelled.set(&["metadata", "labels"], labels);
            plan = plan.then(patch(Patch::Strategic(labelled)));
        }
        plan
    }

    fn workers(&self) -> usize {
        8
    }
}

/// The beta labels whose values differ from those of the current names.
fn outdated_beta_labels(node: &Value) -> Option<Map> {
    let labels = meta::labels(node)?;
    let mut outdated = Map::new();
    for (new, old) in RENAMED {
        if let Some(value) = labels.get(new).filter(|value| labels.get(old) != Some(*value)) {
            outdated.insert(old, value.clone());
        }
    }
    (!outdated.is_empty()).then_some(outdated)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::testing::{at, at_text};

    fn patches(node: Value) -> Vec<Value> {
        let plan = NodeUpdates.plan(&Key::new("", "n"), &Some(node), at(0));
        let patch = |action: &Action| match action {
            Action::Patch { patch: Patch::Strategic(patch), subresource: "", .. } => patch.clone(),
            other => panic!("{other:?}"),
        };
        plan.actions().map(patch).collect()
    }

    #[test]
    fn a_node_in_its_desired_state_is_not_patched() {
        let node = value!({
            "metadata": {"name": "n", "labels": {"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}},
            "spec": {"taints": [{"key": "theirs", "effect": "NoSchedule"}]},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        assert_eq!(patches(node), Vec::<Value>::new());
    }

    #[test]
    fn a_cordoned_node_is_tainted() {
        let node =
            value!({"metadata": {"name": "n", "resourceVersion": "7"}, "spec": {"unschedulable": true}});
        let taint = value!({
            "key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule", "timeAdded": (at_text(0)),
        });
        assert_eq!(
            patches(node),
            [value!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": [(taint)]}})]
        );
    }

    #[test]
    fn beta_labels_follow_the_current_ones() {
        for (labels, expected) in [
            (value!({}), None),
            (value!({"beta.kubernetes.io/os": "plan9"}), None),
            (value!({"kubernetes.io/os": "linux"}), Some(value!({"beta.kubernetes.io/os": "linux"}))),
            (
                value!({
                    "kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows",
                    "kubernetes.io/arch": "arm64",
                }),
                Some(value!({"beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "arm64"})),
            ),
        ] {
            let node = value!({"metadata": {"labels": (labels)}});
            assert_eq!(outdated_beta_labels(&node).map(Value::Object), expected);
        }
    }
}
