//! PersistentVolumeClaim protection: a claim is not deleted while pods use it.
//!
//! Owns the finalizer `kubernetes.io/pvc-protection` and the condition `Unused` of bound claims. Watches claims and
//! pods. A key with a namespace is a claim; one without is a namespace with terminating claims: they are reconciled
//! together, because all pods of the namespace are listed from the API server before any finalizer is removed. Never
//! deletes.

use std::sync::Arc;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Change, Error, Index, Key, Object, kinds};
use corten_reconcile::{Controller, Manager, Plan, Step, Watch};
use jiff::Timestamp;

use super::usage::{is_made_for, is_terminated, refers_to};
use super::{Asked, PODS_BY_CLAIM, claims_of_pod, update, with_finalizer};
use crate::conditions;

const FINALIZER: &str = "kubernetes.io/pvc-protection";

pub(crate) struct ClaimProtection;

impl ClaimProtection {
    pub(crate) fn new(manager: &Manager) -> ClaimProtection {
        manager.caches().index(&PODS_BY_CLAIM);
        manager.caches().index(&GOING_CLAIMS_BY_NAMESPACE);
        ClaimProtection
    }
}

/// The terminating claims that have the finalizer.
static GOING_CLAIMS_BY_NAMESPACE: Index = Index {
    kind: &kinds::PERSISTENT_VOLUME_CLAIMS,
    name: "going-claims-by-namespace",
    names: |claim| {
        let held = claim.deleting && meta::finalizers(&claim.tree()).any(|finalizer| finalizer == FINALIZER);
        if held { vec![Key::new("", claim.key.namespace.clone())] } else { Vec::new() }
    },
};

#[derive(Debug)]
pub(crate) enum World {
    Nothing,
    /// A claim that is not terminating, and whether an unfinished pod uses it.
    Claim(Value, bool),
    Going(Going),
}

/// The terminating claims of a namespace, and the pods that may use them.
#[derive(Debug, Default)]
pub(crate) struct Going {
    namespace: Str,
    claims: Vec<Value>,
    pods: Vec<Value>,
    asked: Asked,
}

impl Going {
    /// The claims that no pod uses.
    fn free(&self) -> impl Iterator<Item = &Value> {
        self.claims.iter().filter(|claim| !is_held(claim, &self.pods))
    }

    fn plan(&self) -> Plan {
        if self.asked == Asked::Failed {
            return Plan::done().retry();
        }
        let release = |claim| {
            let free = with_finalizer(claim, FINALIZER, false);
            update(&kinds::PERSISTENT_VOLUME_CLAIMS, free, "")
        };
        let actions: Vec<_> = self.free().map(release).collect();
        let mut plan = Plan::done();
        if !actions.is_empty() {
            plan.steps.push(Step::Together(actions));
        }
        plan
    }
}

impl Controller for ClaimProtection {
    type World = World;

    fn name(&self) -> &'static str {
        "persistentvolumeclaim-protection-controller"
    }

    fn account(&self) -> &'static str {
        "pvc-protection-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: claim_changed },
            Watch { kind: &kinds::PODS, keys: pod_changed },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let users = |claim: &Key| caches.by(&PODS_BY_CLAIM, claim).into_iter().map(|pod| pod.tree());
        if key.namespace.is_empty() {
            let going = caches.by(&GOING_CLAIMS_BY_NAMESPACE, key);
            return World::Going(Going {
                namespace: key.name.clone(),
                claims: going.iter().map(|claim| claim.tree()).collect(),
                pods: going.iter().flat_map(|claim| users(&claim.key)).collect(),
                asked: Asked::NotYet,
            });
        }
        match caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS).get(key) {
            Some(claim) if !claim.deleting => {
                let claim = claim.tree();
                let used = users(key).any(|pod| !is_terminated(&pod) && refers_to(&pod, &claim));
                World::Claim(claim, used)
            }
            _ => World::Nothing,
        }
    }

    /// Lists the pods from the API server, because a pod that uses the claim may be newer than the cache.
    fn ask(&self, world: &World) -> Vec<String> {
        match world {
            World::Going(going) if going.asked == Asked::NotYet && going.free().next().is_some() => {
                vec![kinds::PODS.collection(&going.namespace)]
            }
            _ => Vec::new(),
        }
    }

    fn learn(&self, world: &mut World, _: &str, answer: Result<Value, Error>) {
        if let World::Going(going) = world
            && let Some(list) = going.asked.answer(answer)
        {
            going.pods.extend_from_slice(list.items_at(&["items"]));
        }
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        match world {
            World::Nothing => Plan::done(),
            World::Claim(claim, used) => stays(claim, *used, now),
            World::Going(going) => going.plan(),
        }
    }
}

/// Sets the condition of a bound claim, and adds a missing finalizer.
fn stays(claim: &Value, used: bool, now: Timestamp) -> Plan {
    let mut plan = Plan::done();
    let known = conditions::condition(claim, "Unused").and_then(|c| c.str_at(&["status"]));
    let is_bound = claim.str_at(&["status", "phase"]) == Some("Bound");
    let (status, reason, message) = match used {
        true => ("False", "PodUsingPVC", "A pod is currently referencing this PVC"),
        false => ("True", "NoPodsUsingPVC", "No pods are currently referencing this PVC"),
    };
    if is_bound && known != Some(status) {
        let mut reported = claim.clone();
        let condition = conditions::new("Unused", status, reason, message, now);
        conditions::set(reported.make_object().entry("status"), condition);
        plan = plan.then(update(&kinds::PERSISTENT_VOLUME_CLAIMS, reported, "status"));
    }
    if !meta::finalizers(claim).any(|finalizer| finalizer == FINALIZER) {
        let held = with_finalizer(claim, FINALIZER, true);
        plan = plan.then(update(&kinds::PERSISTENT_VOLUME_CLAIMS, held, ""));
    }
    plan
}

/// True if one of some pods uses a claim. Only bound pods count: no kubelet starts a pod with a terminating claim.
fn is_held(claim: &Value, pods: &[Value]) -> bool {
    pods.iter().any(|pod| {
        let has_node = pod.str_at(&["spec", "nodeName"]).is_some_and(|node| !node.is_empty());
        has_node && refers_to(pod, claim) && !(is_shut_down(pod) && is_made_for(claim, pod))
    })
}

/// True if the pod is shut down on its node, or its grace period is over.
fn is_shut_down(pod: &Value) -> bool {
    meta::is_deleting(pod) && pod.int_at(&["metadata", "deletionGracePeriodSeconds"]) == Some(0)
}

fn claim_changed(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    match &change.new {
        Some(claim) if claim.deleting => keys.push(Key::new("", claim.key.namespace.clone())),
        Some(claim) => keys.push(claim.key.clone()),
        None => {}
    }
}

/// A pod concerns its claims when it is added or deleted, is bound, or finishes.
fn pod_changed(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let mut claims: Vec<Key> = change.states().flat_map(|pod| claims_of_pod(pod)).collect();
    if claims.is_empty() {
        return;
    }
    let stage = |pod: &Arc<Object>| {
        let pod = pod.tree();
        let has_node = pod.str_at(&["spec", "nodeName"]).is_some();
        (meta::uid(&pod).to_owned(), has_node, is_terminated(&pod), is_shut_down(&pod))
    };
    if change.old.as_ref().map(stage) == change.new.as_ref().map(stage) {
        return;
    }
    claims.dedup();
    let known = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS);
    for claim in claims {
        match known.get(&claim) {
            Some(object) if object.deleting => keys.push(Key::new("", claim.namespace)),
            Some(_) => keys.push(claim),
            None => {}
        }
    }
}

#[cfg(test)]
mod tests;
