//! Resets the DisruptionTarget condition of a pod that still exists two minutes after it was set.
//!
//! Owns nothing; writes only that one condition of pods. Never resets a condition that the kubelet set, nor those of
//! pods that have finished or are terminating.

use std::time::Duration;

use corten_api::{Value, meta};
use corten_client::{Caches, Change, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Watch};
use jiff::Timestamp;

use crate::conditions;
use crate::pods::Pod;

const TIMEOUT: Duration = Duration::from_secs(120);

pub(super) struct StaleDisruptions;

impl Controller for StaleDisruptions {
    /// The pod, if its condition may have to be reset.
    type World = Option<Pod>;

    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn queue(&self) -> &'static str {
        "stale_pod_disruption"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch { kind: &kinds::PODS, keys: marked }]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Pod> {
        caches.of(&kinds::PODS).get(key).map(Pod::from).filter(is_marked)
    }

    fn plan(&self, _: &Key, world: &Option<Pod>, now: Timestamp) -> Plan {
        let Some(pod) = world else { return Plan::done() };
        let since = pod.view.disrupted_since.unwrap_or(Timestamp::MIN);
        let marked_for = Duration::try_from(now.duration_since(since)).unwrap_or_default();
        if marked_for < TIMEOUT {
            return Plan::done().requeue_after(TIMEOUT - marked_for);
        }
        let mut object = pod.object.tree();
        let mut condition = conditions::new("DisruptionTarget", "False", "", "", now);
        if meta::generation(&object) != 0 {
            condition.set(&["observedGeneration"], meta::generation(&object));
        }
        let mut status = object.get("status").cloned().unwrap_or_else(Value::object);
        conditions::put(&mut status, condition);
        object.set(&["status"], status);
        Plan::done().then(Action::Update { kind: &kinds::PODS, object, subresource: "status" })
    }

    fn workers(&self) -> usize {
        1
    }
}

fn is_marked(pod: &Pod) -> bool {
    pod.view.disrupted_since.is_some() && pod.is_active()
}

fn marked(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if let Some(pod) = &change.new
        && is_marked(&Pod::from(pod.clone()))
    {
        keys.push(pod.key.clone());
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::testing::{at, at_text, cached};

    fn pod(reason: &str, phase: &str) -> Value {
        value!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 3},
            "status": {"phase": (phase), "conditions": [
                {"type": "Ready", "status": "True"},
                {"type": "DisruptionTarget", "status": "True", "reason": (reason), "message": "m", "lastTransitionTime": (at_text(0))},
            ]},
        })
    }

    fn plan(pod: &Value, now: i64) -> Plan {
        let world = Some(Pod::from(cached(pod))).filter(is_marked);
        StaleDisruptions.plan(&Key::default(), &world, at(now))
    }

    #[test]
    fn marks_are_taken_back_after_two_minutes() {
        let marked = pod("EvictionByEvictionAPI", "Running");
        assert_eq!(plan(&marked, 50), Plan::done().requeue_after(Duration::from_secs(70)));
        let taken_back = plan(&marked, 120);
        let Some(Action::Update { object, subresource: "status", .. }) = taken_back.actions().next() else {
            panic!("it stays")
        };
        let expected = value!({"type": "DisruptionTarget", "status": "False", "lastTransitionTime": (at_text(120)), "observedGeneration": 3});
        assert_eq!(object.items_at(&["status", "conditions"])[1], expected);
        assert!(plan(object, 999).is_done());
    }

    #[test]
    fn other_marks_stay() {
        assert!(plan(&pod("TerminationByKubelet", "Running"), 999).is_done());
        assert!(plan(&pod("PreemptionByScheduler", "Failed"), 999).is_done());
        let mut going = pod("PreemptionByScheduler", "Running");
        going.set(&["metadata", "deletionTimestamp"], at_text(0));
        assert!(plan(&going, 999).is_done());
    }
}
