//! ReplicaSet and ReplicationController: the desired number of pods of a template.
//!
//! Owns the pods a set selects and the status of sets. Watches both. Never touches pods of other owners, and never a
//! set's spec. The two kinds differ in the syntax of selectors, in the component of their events, and in that only
//! replica sets report terminating pods.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use corten_api::selector::LabelSelector;
use corten_api::{Str, Value, meta};
use corten_client::{Cache, Caches, Change, Key, Kind, Object, kinds};
use corten_reconcile::{Action, Controller, Plan, Report, Step, Watch};
use jiff::Timestamp;

use crate::claims::{self, Claims};
use crate::pods::{self, Pod};
use crate::{conditions, selectors, templates};

/// The most pods that are created or deleted in one reconcile.
const BURST: usize = 500;

/// The controller of one of the two kinds.
pub(crate) struct Replicas {
    kind: &'static Kind,
    name: &'static str,
    pods: fn(&Caches, &Change, &mut Vec<Key>),
}

/// The controller of replica sets.
pub(crate) const REPLICA_SETS: Replicas = Replicas {
    kind: &kinds::REPLICA_SETS,
    name: "replicaset-controller",
    pods: |caches, change, keys| claims::claimants(&kinds::REPLICA_SETS, caches, change, keys),
};

/// The controller of replication controllers.
pub(crate) const REPLICATION_CONTROLLERS: Replicas = Replicas {
    kind: &kinds::REPLICATION_CONTROLLERS,
    name: "replication-controller",
    pods: |caches, change, keys| claims::claimants(&kinds::REPLICATION_CONTROLLERS, caches, change, keys),
};

/// The state of one set.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist, or selects nothing.
    set: Option<Value>,
    /// The ownership of active pods.
    claims: Claims,
    /// The number of its terminating pods.
    terminating: usize,
    /// Active pods per node of all sets with the same owner.
    related: HashMap<Str, usize>,
}

impl World {
    /// Finished pods are neither adopted nor released.
    fn of(set: Value, selector: &LabelSelector, candidates: &[Arc<Object>]) -> World {
        let pods = || candidates.iter().cloned().map(Pod::from);
        let active: Vec<_> = pods().filter(Pod::is_active).map(|pod| pod.object).collect();
        let claims = claims::decide(&set, selector, &active);
        let is_own = |pod: &Pod| pod.object.controller().is_some_and(|owner| owner.uid == meta::uid(&set));
        let terminating = pods()
            .filter(|pod| pod.is_terminating() && is_own(pod) && pod.object.is_selected_by(selector))
            .count();
        World { set: Some(set), claims, terminating, related: HashMap::new() }
    }

    fn active(&self) -> Vec<Pod> {
        self.claims.owned.iter().cloned().map(Pod::from).collect()
    }
}

impl Controller for Replicas {
    type World = World;

    fn name(&self) -> &'static str {
        self.name
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(self.kind), Watch { kind: &kinds::PODS, keys: self.pods }]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let sets = caches.of(self.kind);
        let Some(object) = sets.get(key) else { return World::default() };
        let set = object.tree();
        let Some(selector) = selectors::of(&set) else { return World::default() };
        let pods = caches.of(&kinds::PODS);
        let candidates = claims::candidates(&pods, &set, &selector);
        let mut world = World::of(set, &selector, &candidates);
        if world.set.as_ref().is_some_and(|set| world.claims.owned.len() > wanted(set)) {
            for pod in siblings(&sets, &pods, &object).map(Pod::from).filter(Pod::is_active) {
                *world.related.entry(pod.view.node.clone()).or_default() += 1;
            }
        }
        world
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(set) = &world.set else { return Plan::done() };
        let mut plan = Plan::done();
        let claimed = world.claims.actions(&kinds::PODS, set);
        if !claimed.is_empty() {
            plan.steps.push(Step::Together(claimed));
        }
        if meta::is_deleting(set) {
            return plan;
        }
        let active = world.active();
        let wanted = wanted(set);
        if active.len() < wanted {
            let missing = (wanted - active.len()).min(BURST);
            let template = set.at(&["spec", "template"]).unwrap_or(&Value::Null);
            let create = Action::Create { kind: &kinds::PODS, object: templates::pod(template, set) };
            plan.steps.push(Step::SlowStart(vec![create; missing]));
        } else if active.len() > wanted {
            let surplus = surplus(active, wanted, &world.related, now);
            plan.steps.push(Step::Together(surplus.iter().map(pods::delete).collect()));
        }
        plan
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, now: Timestamp) -> Plan {
        let Some(set) = &world.set else { return Plan::done() };
        let mut plan = Plan::done();
        plan.events =
            report.outcomes.iter().filter_map(|outcome| pods::event(self.name, set, outcome)).collect();
        let failure =
            report.failures().map(|(_, error)| error).find(|e| !e.has_cause("NamespaceTerminating"));
        let mut status = status(set, &world.active(), failure.map(ToString::to_string), now);
        if *self.kind == kinds::REPLICA_SETS {
            // Zero is reported, because absent means unknown.
            status.set(&["terminatingReplicas"], world.terminating as i64);
        }
        if set.get("status") != Some(&status) {
            let mut object = set.clone();
            object.set(&["status"], status);
            plan = plan.then(Action::Update { kind: self.kind, object, subresource: "status" });
        }
        let unavailable = world
            .active()
            .iter()
            .filter_map(|pod| pod.available_in(min_ready(set), now))
            .filter(|d| !d.is_zero())
            .min();
        match unavailable {
            Some(delay) => plan.requeue_after(delay),
            None => plan,
        }
    }
}

/// The pods of all sets with the same owner.
fn siblings(sets: &Cache, pods: &Cache, set: &Arc<Object>) -> impl Iterator<Item = Arc<Object>> {
    let siblings = match set.controller() {
        Some(owner) => sets.owned_by(&owner.uid),
        None => vec![set.clone()],
    };
    siblings.into_iter().flat_map(move |set| pods.owned_by(&set.uid))
}

fn wanted(set: &Value) -> usize {
    usize::try_from(set.int_at(&["spec", "replicas"]).unwrap_or(1)).unwrap_or(0)
}

fn min_ready(set: &Value) -> Duration {
    Duration::from_secs(set.int_at(&["spec", "minReadySeconds"]).unwrap_or(0).try_into().unwrap_or(0))
}

/// The pods to delete.
fn surplus(mut active: Vec<Pod>, wanted: usize, related: &HashMap<Str, usize>, now: Timestamp) -> Vec<Pod> {
    let count = (active.len() - wanted).min(BURST);
    if count < active.len() {
        pods::order_for_deletion(&mut active, |pod| related.get(&pod.view.node).copied().unwrap_or(0), now);
    }
    active.truncate(count);
    active
}

/// The status, given the active pods and a failure.
fn status(set: &Value, active: &[Pod], failure: Option<String>, now: Timestamp) -> Value {
    let template = set.at(&["spec", "template", "metadata", "labels"]).and_then(Value::as_object);
    let labelled = |pod: &&Pod| {
        template
            .is_none_or(|labels| labels.iter().all(|(key, value)| pod.object.labels.get(key) == Some(value)))
    };
    let ready = active.iter().filter(|pod| pod.view.ready).count();
    let available = active.iter().filter(|pod| pod.is_available(min_ready(set), now)).count();
    let mut status = set.get("status").cloned().unwrap_or_else(Value::object);
    status.set(&["replicas"], active.len() as i64);
    for (key, count) in [
        ("fullyLabeledReplicas", active.iter().filter(labelled).count()),
        ("readyReplicas", ready),
        ("availableReplicas", available),
    ] {
        // Zero counts are left out, as the API server encodes them.
        match count {
            0 => drop(status.remove(&[key])),
            count => status.set(&[key], count as i64),
        }
    }
    status.set(&["observedGeneration"], meta::generation(set));
    let failing = conditions::condition(set, "ReplicaFailure").is_some();
    match failure {
        Some(message) if !failing => {
            let reason = match active.len().cmp(&wanted(set)) {
                Ordering::Less => "FailedCreate",
                Ordering::Equal => "",
                Ordering::Greater => "FailedDelete",
            };
            conditions::set(&mut status, conditions::new("ReplicaFailure", "True", reason, &message, now));
        }
        None if failing => conditions::remove(&mut status, "ReplicaFailure"),
        _ => {}
    }
    status
}

#[cfg(test)]
mod tests;
