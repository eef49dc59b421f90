//! Marks pods as not ready that are bound to a node which is not ready. The monitor marks those that were bound before
//! the node became not ready.

use corten_api::Value;
use corten_client::{Caches, Change, Key, Object, kinds};
use corten_reconcile::{Action, Controller, Event, Plan, Report, Watch};
use jiff::Timestamp;

use super::NAME;
use crate::conditions;
use crate::nodes::{self, COMPONENT, NodeView};
use crate::pods::PodView;

pub(super) struct PodUpdates;

impl Controller for PodUpdates {
    /// The pod, if it is ready and its node is not.
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        NAME
    }

    fn account(&self) -> &'static str {
        nodes::ACCOUNT
    }

    fn queue(&self) -> &'static str {
        "node_lifecycle_controller_pods"
    }

    fn watches(&self) -> Vec<Watch> {
        let keys = |caches: &Caches, change: &Change, keys: &mut Vec<Key>| {
            if let Some(pod) = newly_bound(change).filter(|pod| is_on_unready_node(pod, caches)) {
                keys.push(pod.key.clone());
            }
        };
        vec![Watch { kind: &kinds::PODS, keys }, Watch::lookup(&kinds::NODES)]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Value> {
        let pod = caches.of(&kinds::PODS).get(key)?;
        (pod.view::<PodView>().ready && is_on_unready_node(&pod, caches)).then(|| pod.tree())
    }

    fn plan(&self, _: &Key, pod: &Option<Value>, now: Timestamp) -> Plan {
        let Some(pod) = pod else { return Plan::done() };
        let mut object = pod.clone();
        conditions::fail(&mut object, "Ready", now);
        Plan::done().then(Action::Update { kind: &kinds::PODS, object, subresource: "status" })
    }

    fn conclude(&self, _: &Key, pod: &Option<Value>, report: &Report, _: Timestamp) -> Plan {
        match pod {
            Some(pod) if report.is_success() => {
                Plan::done().event(Event::warning(COMPONENT, pod, "NodeNotReady", "Node is not ready"))
            }
            _ => Plan::done(),
        }
    }

    fn workers(&self) -> usize {
        1
    }
}

/// The pod, if the change binds it to a node.
fn newly_bound(change: &Change) -> Option<&Object> {
    let node = |pod: &Object| pod.view::<PodView>().node.clone();
    let new = change.new.as_deref()?;
    let bound = node(new);
    (!bound.is_empty() && change.old.as_deref().is_none_or(|old| node(old) != bound)).then_some(new)
}

/// True if a pod is bound to a node whose Ready condition is not True.
fn is_on_unready_node(pod: &Object, caches: &Caches) -> bool {
    let key = Key::new("", pod.view::<PodView>().node.clone());
    caches.of(&kinds::NODES).get(&key).is_some_and(|node| {
        let node = node.view::<NodeView>();
        node.ready.is_some() && !node.is_ready()
    })
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::testing::at;

    #[test]
    fn a_pod_on_an_unready_node_is_marked_not_ready() {
        let pod = value!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {"conditions": [{"type": "Ready", "status": "True"}]},
        });
        let plan = PodUpdates.plan(&Key::new("n", "p"), &Some(pod), at(0));
        let Some(Action::Update { object, subresource: "status", .. }) = plan.actions().next() else {
            panic!("{plan:?}")
        };
        assert!(!conditions::is_true(object, "Ready"), "{object:?}");
    }

    #[test]
    fn nothing_is_planned_without_such_a_pod() {
        assert!(PodUpdates.plan(&Key::new("n", "p"), &None, at(0)).is_done());
    }
}
