//! StatefulSet controller: pods with stable names and volumes, created and deleted in order.
//!
//! Owns the pods it selects that have names of its pods, their claims, the revisions of its template and the status of
//! stateful sets. Watches all of these. Never deletes a claim: it only sets the owners of claims, and the garbage
//! collector deletes them.

mod events;
mod identity;
mod retention;
mod revisions;
mod update;
mod work;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value};
use corten_client::{Cache, Caches, Change, Key, Object, kinds};
use corten_reconcile::{Action, Controller, Plan, Report, Step, Watch};
use jiff::Timestamp;

use crate::claims::{self, Claims};
use crate::pods::Pod;
use crate::{history, selectors};
use revisions::Revisions;

/// The component of its events.
const COMPONENT: &str = "statefulset-controller";

pub(crate) struct StatefulSets;

/// The state of one stateful set.
#[derive(Debug)]
pub(crate) struct World {
    set: Value,
    pods: Claims,
    /// The revisions to adopt.
    orphans: Claims,
    revisions: Revisions,
    /// An object with the name of the new revision that is no revision of this set.
    namesake: Option<Value>,
    /// The existing claims of its pods, by name.
    claims: BTreeMap<Str, Arc<Object>>,
}

impl World {
    fn of(set: Value, pods: &[Arc<Object>], revisions: &[Arc<Object>]) -> Option<World> {
        let selector = selectors::of(&set)?;
        let is_selected = |object: &Object| object.is_selected_by(&selector);
        let pods = claims::decide_by(&set, pods, |pod| is_selected(pod) && identity::is_member(&set, pod));
        let mut orphans = claims::decide_by(&set, revisions, is_selected);
        orphans.release.clear();
        let revisions = Revisions::of(&set, &orphans.owned);
        Some(World { set, pods, orphans, revisions, namesake: None, claims: BTreeMap::new() })
    }

    /// The names of the claims that its pods have, or should have.
    fn claim_names(&self) -> Vec<String> {
        let there = self.pods.owned.iter().filter_map(|pod| identity::ordinal(&pod.key.name));
        let wanted = identity::ordinals(&self.set);
        let others = there.filter(|ordinal| !wanted.contains(ordinal));
        let names = |ordinal| identity::claim_names(&self.set, ordinal).map(|(_, name)| name);
        wanted.clone().chain(others).flat_map(names).collect()
    }
}

impl Controller for StatefulSets {
    type World = Option<World>;

    fn name(&self) -> &'static str {
        "statefulset-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::STATEFUL_SETS),
            Watch { kind: &kinds::PODS, keys: sets_of_owned },
            Watch { kind: &kinds::CONTROLLER_REVISIONS, keys: sets_of_owned },
            Watch { kind: &kinds::PERSISTENT_VOLUME_CLAIMS, keys: sets_of_claim },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<World> {
        let set = caches.of(&kinds::STATEFUL_SETS).get(key)?.tree();
        let selector = selectors::of(&set)?;
        let candidates = |cache: &Cache| claims::candidates(cache, &set, &selector);
        let revisions = caches.of(&kinds::CONTROLLER_REVISIONS);
        let (pods, known) = (candidates(&caches.of(&kinds::PODS)), candidates(&revisions));
        let mut world = World::of(set, &pods, &known)?;
        if world.revisions.is_new {
            world.namesake = revisions.get(&Key::of(&world.revisions.update)).map(|revision| revision.tree());
        }
        let cache = caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS);
        let there = |name: String| cache.get(&Key::new(key.namespace.clone(), name));
        let found = world.claim_names().into_iter().filter_map(there);
        world.claims = found.map(|claim| (claim.key.name.clone(), claim)).collect();
        Some(world)
    }

    fn plan(&self, _: &Key, world: &Option<World>, now: Timestamp) -> Plan {
        let Some(world) = world else { return Plan::done() };
        let mut plan = Plan::done();
        let mut claimed = world.pods.actions(&kinds::PODS, &world.set);
        claimed.extend(world.orphans.actions(&kinds::CONTROLLER_REVISIONS, &world.set));
        if !claimed.is_empty() {
            plan.steps.push(Step::Together(claimed));
        }
        plan.steps.extend(world.revisions.change.clone().map(Step::One));
        let work = world.work(now);
        plan.steps.extend(work.steps);
        plan.events = work.events;
        let surplus: Vec<_> =
            world.revisions.surplus(&world.set, &world.pods.owned).map(history::delete).collect();
        if !surplus.is_empty() {
            plan.steps.push(Step::Together(surplus));
        }
        plan
    }

    fn conclude(&self, _: &Key, world: &Option<World>, report: &Report, now: Timestamp) -> Plan {
        let Some(world) = world else { return Plan::done() };
        let set = &world.set;
        let mut plan = Plan::done();
        plan.events = report.outcomes.iter().flat_map(|outcome| events::events(world, outcome)).collect();
        let mut object = set.clone();
        match report.failures().find(|(action, _)| prepares(action)) {
            Some((Action::Create { .. }, error)) if error.already_exists() && world.is_collision() => {
                object.set(&["status", "replicas"], set.int_at(&["status", "replicas"]).unwrap_or(0));
                object.set(&["status", "collisionCount"], revisions::collisions(set) + 1);
            }
            Some(_) => return plan,
            None => object.set(&["status"], update::status(world, outdated_deleted(world, report, now), now)),
        }
        if object.get("status") != set.get("status") {
            let kind = &kinds::STATEFUL_SETS;
            plan = plan.then(Action::Update { kind, object, subresource: "status" });
        }
        let owned = world.pods.owned.iter().cloned().map(Pod::from);
        let waiting = owned.filter_map(|pod| pod.available_in(min_ready(set), now));
        match waiting.filter(|delay| !delay.is_zero()).min() {
            Some(delay) => plan.requeue_after(delay),
            None => plan,
        }
    }
}

impl World {
    /// True if the name of the new revision is taken by other content. Equal content belongs to an earlier set of the
    /// same name and is about to be deleted.
    fn is_collision(&self) -> bool {
        let data = |revision: &Value| revision.get("data").cloned().unwrap_or_default();
        let new = data(&self.revisions.update);
        !self.namesake.as_ref().is_some_and(|known| history::is_same(&data(known), &new))
    }
}

fn min_ready(set: &Value) -> Duration {
    Duration::from_secs(set.int_at(&["spec", "minReadySeconds"]).unwrap_or(0).try_into().unwrap_or(0))
}

/// True if an action only adopts or releases, before anything else is done.
fn prepares(action: &Action) -> bool {
    let is_revision = *action.kind() == kinds::CONTROLLER_REVISIONS;
    matches!(action, Action::Patch { .. }) || (is_revision && !matches!(action, Action::Delete { .. }))
}

/// The number of pods that were deleted because they are of an old revision.
fn outdated_deleted(world: &World, report: &Report, now: Timestamp) -> usize {
    let deleted = |action: &Action| matches!(action, Action::Delete { kind, .. } if **kind == kinds::PODS);
    if !report.outcomes.iter().any(|outcome| deleted(&outcome.action)) {
        return 0;
    }
    let outdated = world.work(now).outdated;
    report.outcomes.iter().filter(|o| o.result.is_ok() && outdated.contains(&o.action)).count()
}

fn sets_of_owned(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    claims::claimants(&kinds::STATEFUL_SETS, caches, change, keys);
}

/// The sets that need a deleted claim, or wait for its deletion.
fn sets_of_claim(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if change.new.is_some() {
        return;
    }
    let claim = &change.object().key;
    let Some((rest, _)) = claim.name.rsplit_once('-') else { return };
    let sets = caches.of(&kinds::STATEFUL_SETS).list(&claim.namespace);
    let has =
        |set: &&Arc<Object>| rest.strip_suffix(set.key.name.as_str()).is_some_and(|left| left.ends_with('-'));
    keys.extend(sets.iter().filter(has).map(|set| set.key.clone()));
}

#[cfg(test)]
mod tests;
