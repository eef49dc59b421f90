//! DaemonSet controller: one pod of a template on every eligible node.
//!
//! Owns the pods it selects, the revisions of its template and the status of daemon sets. Watches all of these, and
//! nodes. Never binds a pod: each pod names its node by node affinity.

mod nodes;
mod template;
mod update;

use std::collections::BTreeMap;
use std::time::Duration;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Change, Key, kinds};
use corten_reconcile::{Action, Controller, Plan, Report, Step, Watch};
use jiff::Timestamp;

use crate::claims::{self, Claims};
use crate::nodes::NodeView;
use crate::pods::{self, Pod};
use crate::{hashes, history, selectors};
use nodes::Node;

/// The component of its events.
const COMPONENT: &str = "daemonset-controller";
/// The most pods that are created or deleted in one reconcile.
const BURST: usize = 250;

pub(crate) struct DaemonSets;

/// The state of one daemon set.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist, or selects nothing.
    set: Option<Value>,
    pods: Claims,
    revisions: Claims,
    nodes: BTreeMap<Str, Node>,
}

impl Controller for DaemonSets {
    type World = World;

    fn name(&self) -> &'static str {
        "daemon-set-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::DAEMON_SETS),
            Watch { kind: &kinds::PODS, keys: sets_of_owned },
            // Looked up only: revisions of other controllers stay as they are until the next reconcile.
            Watch { kind: &kinds::CONTROLLER_REVISIONS, keys: |_, _, _| {} },
            Watch { kind: &kinds::NODES, keys: sets_on_node },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let Some(object) = caches.of(&kinds::DAEMON_SETS).get(key) else { return World::default() };
        let set = object.tree();
        let Some(selector) = selectors::of(&set) else { return World::default() };
        let claims = |kind| {
            let candidates = claims::candidates(&caches.of(kind), &set, &selector);
            claims::decide(&set, &selector, &candidates)
        };
        let (pods, revisions) = (claims(&kinds::PODS), claims(&kinds::CONTROLLER_REVISIONS));
        let nodes = nodes::all(&caches.of(&kinds::NODES).list(""), &set);
        World { set: Some(set), pods, revisions, nodes }
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(set) = &world.set else { return Plan::done() };
        if meta::is_deleting(set) {
            return Plan::done();
        }
        let mut claimed = world.pods.actions(&kinds::PODS, set);
        claimed.extend(world.revisions.actions(&kinds::CONTROLLER_REVISIONS, set));
        let mut plan = Plan::done();
        let revisions = Revisions::of(world, set);
        for actions in [claimed, revisions.changes(world)] {
            if !actions.is_empty() {
                plan.steps.push(Step::Together(actions));
            }
        }
        let hash = history::hash(&revisions.current);
        let mut work = update::manage(world, set, hash, now);
        if work.is_nothing() {
            let delay = work.requeue_after;
            work = update::roll(world, set, hash, now);
            work.requeue_after = work.requeue_after.or(delay);
        }
        plan.events = std::mem::take(&mut work.events);
        plan.requeue_after = work.requeue_after;
        let creates = work
            .create
            .iter()
            .take(BURST)
            .map(|node| Action::Create { kind: &kinds::PODS, object: template::pod(set, hash, node) });
        let deletes = work.delete.iter().take(BURST).map(pods::delete);
        let cleaned = revisions.surplus(world, set).map(history::delete);
        plan.steps.push(Step::SlowStart(creates.collect()));
        plan.steps.push(Step::Together(deletes.collect()));
        plan.steps.push(Step::Together(cleaned.collect()));
        plan.steps
            .retain(|step| !matches!(step, Step::SlowStart(list) | Step::Together(list) if list.is_empty()));
        plan
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, now: Timestamp) -> Plan {
        let Some(set) = &world.set else { return Plan::done() };
        if meta::is_deleting(set) {
            return Plan::done();
        }
        let mut plan = Plan::done();
        plan.events = report.outcomes.iter().filter_map(|o| pods::event(COMPONENT, set, o)).collect();
        let mut object = set.clone();
        let is_revision = |action: &Action| *action.kind() == kinds::CONTROLLER_REVISIONS;
        match report.failures().find(|(action, _)| is_revision(action)) {
            Some((Action::Create { .. }, error)) if error.already_exists() => {
                let count = set.int_at(&["status", "collisionCount"]).unwrap_or(0);
                object.set(&["status", "collisionCount"], count + 1);
            }
            Some(_) => return plan,
            None => {
                let hash = Revisions::of(world, set);
                object.set(&["status"], update::status(world, set, history::hash(&hash.current), now));
            }
        }
        if object != *set {
            let kind = &kinds::DAEMON_SETS;
            plan = plan.then(Action::Update { kind, object, subresource: "status" });
        }
        let waiting = world.pods.owned.iter().cloned().map(Pod::from);
        let waiting =
            waiting.filter_map(|pod| pod.available_in(min_ready(set), now)).filter(|d| !d.is_zero());
        match waiting.min() {
            Some(delay) => plan.requeue_after(delay),
            None => plan,
        }
    }
}

fn min_ready(set: &Value) -> Duration {
    Duration::from_secs(set.int_at(&["spec", "minReadySeconds"]).unwrap_or(0).try_into().unwrap_or(0))
}

/// The revisions of a daemon set: the current one, which may have to be created, and the others, oldest first.
struct Revisions {
    current: Value,
    is_new: bool,
    /// Further revisions with the current content.
    doubles: Vec<Value>,
    old: Vec<Value>,
}

impl Revisions {
    fn of(world: &World, set: &Value) -> Revisions {
        let mut known: Vec<Value> = world.revisions.owned.iter().map(|revision| revision.tree()).collect();
        history::sort(&mut known);
        let (mut doubles, old) = history::split(known, set);
        let next = old.last().map_or(0, history::number) + 1;
        match doubles.pop() {
            Some(current) => Revisions { current, is_new: false, doubles, old },
            None => {
                let template = set.at(&["spec", "template"]).unwrap_or(&Value::Null);
                let hash = hashes::of(template, set.int_at(&["status", "collisionCount"]));
                Revisions {
                    current: history::new(set, history::HASH, &hash, next),
                    is_new: true,
                    doubles,
                    old,
                }
            }
        }
    }

    /// The actions that bring the history up to date.
    fn changes(&self, world: &World) -> Vec<Action> {
        let kind = &kinds::CONTROLLER_REVISIONS;
        if self.is_new {
            return vec![Action::Create { kind, object: self.current.clone() }];
        }
        let mut actions = Vec::new();
        let next = self.old.last().map_or(0, history::number) + 1;
        if history::number(&self.current) < next {
            let mut object = self.current.clone();
            object.set(&["revision"], next);
            actions.push(Action::Update { kind, object, subresource: "" });
        }
        for double in &self.doubles {
            actions.extend(template::relabel(world, history::hash(double), history::hash(&self.current)));
            actions.push(history::delete(double));
        }
        actions
    }

    /// The old revisions beyond the history limit.
    fn surplus<'a>(&'a self, world: &'a World, set: &Value) -> impl Iterator<Item = &'a Value> {
        let kept = set.int_at(&["spec", "revisionHistoryLimit"]).unwrap_or(10);
        let is_used = |revision: &Value| {
            let hash = Some(history::hash(revision));
            world.pods.owned.iter().any(|pod| pod.labels.get(history::HASH).and_then(Value::as_str) == hash)
        };
        history::surplus(&self.old, usize::try_from(kept).unwrap_or(0), is_used)
    }
}

fn sets_of_owned(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    claims::claimants(&kinds::DAEMON_SETS, caches, change, keys);
}

/// Every daemon set, if a node was added, deleted, or changed in its labels or taints. The status of nodes does
/// not matter.
fn sets_on_node(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if let (Some(old), Some(new)) = (&change.old, &change.new) {
        let same_taints = old.view::<NodeView>().taints == new.view::<NodeView>().taints;
        if old.labels == new.labels && same_taints {
            return;
        }
    }
    keys.extend(caches.of(&kinds::DAEMON_SETS).list("").iter().map(|set| set.key.clone()));
}

#[cfg(test)]
mod tests;
