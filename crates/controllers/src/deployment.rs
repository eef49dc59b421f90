//! Deployment controller: rolls a template out over replica sets, one per revision.
//!
//! Owns the replica sets it selects, and the status and revision of deployments. Watches both, and pods where a rollout
//! waits for the old ones to terminate. Never touches pods, and never a deployment's spec except to roll back to a
//! revision on request.

mod progress;
mod rollback;
mod rollout;
mod sets;
mod spec;

use std::collections::HashSet;

use corten_api::{Str, Value, meta};
use corten_client::{Caches, Change, Key, Object, kinds};
use corten_reconcile::{Action, Controller, Event, Outcome, Plan, Report, Step, Watch};
use jiff::Timestamp;

use crate::claims::{self, Claims};
use crate::pods::Pod;
use crate::selectors;
use rollout::Rollout;

const NAME: &str = "deployment-controller";

pub(crate) struct Deployments;

/// The state of one deployment.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist, or selects nothing.
    deployment: Option<Value>,
    claims: Claims,
    /// Its replica sets.
    sets: Vec<Value>,
    /// The uids of those with unfinished pods.
    running: HashSet<Str>,
}

impl Controller for Deployments {
    type World = World;

    fn name(&self) -> &'static str {
        NAME
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::DEPLOYMENTS),
            Watch { kind: &kinds::REPLICA_SETS, keys: deployments_of_set },
            Watch { kind: &kinds::PODS, keys: deployment_of_gone_pod },
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let Some(object) = caches.of(&kinds::DEPLOYMENTS).get(key) else { return World::default() };
        let deployment = object.tree();
        let Some(selector) = selectors::of(&deployment) else { return World::default() };
        let candidates = claims::candidates(&caches.of(&kinds::REPLICA_SETS), &deployment, &selector);
        let claims = claims::decide(&deployment, &selector, &candidates);
        let sets = claims.owned.iter().map(|set| set.tree()).collect();
        let pods = caches.of(&kinds::PODS);
        let runs =
            |set: &Object| pods.owned_by(&set.uid).into_iter().any(|pod| !Pod::from(pod).is_finished());
        let mut running = HashSet::new();
        if !spec::is_rolling(&deployment) {
            running.extend(claims.owned.iter().filter(|set| runs(set)).map(|set| set.uid.clone()));
        }
        World { deployment: Some(deployment), claims, sets, running }
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(deployment) = &world.deployment else { return Plan::done() };
        let mut plan = Plan::done();
        let claimed = world.claims.actions(&kinds::REPLICA_SETS, deployment);
        if !claimed.is_empty() {
            plan.steps.push(Step::Together(claimed));
        } else if let Some(back) = rollback::plan(deployment, &world.sets) {
            return back;
        } else {
            plan.steps.extend(decide(world, deployment, now).steps());
        }
        plan
    }

    fn conclude(&self, _: &Key, world: &World, report: &Report, now: Timestamp) -> Plan {
        let Some(deployment) = &world.deployment else { return Plan::done() };
        let unsettled = !world.claims.adopt.is_empty() || !world.claims.release.is_empty();
        if unsettled || rollback::plan(deployment, &world.sets).is_some() {
            return Plan::done();
        }
        let mut plan = Plan::done();
        plan.events =
            report.outcomes.iter().filter_map(|outcome| event_for(world, deployment, outcome)).collect();
        let wanted = match report.failures().next() {
            None => decide(world, deployment, now).deployment,
            Some((Action::Create { .. }, error)) if error.has_cause("NamespaceTerminating") => return plan,
            Some((Action::Create { .. }, error)) if error.already_exists() => collided(deployment),
            Some((Action::Create { object, .. }, error)) => {
                let message = format!("Failed to create new replica set {:?}: {error}", meta::name(object));
                plan =
                    plan.event(Event::warning(NAME, deployment, "ReplicaSetCreateError", message.as_str()));
                let mut failed = deployment.clone();
                progress::note_failed(&mut failed, &message, now);
                failed
            }
            Some(_) => return plan,
        };
        if wanted != *deployment {
            let kind = &kinds::DEPLOYMENTS;
            return plan.then(Action::Update { kind, object: wanted, subresource: "status" });
        }
        match progress::judge_again_after(deployment, now) {
            Some(delay) => plan.requeue_after(delay),
            None => plan,
        }
    }
}

fn decide(world: &World, deployment: &Value, now: Timestamp) -> Rollout {
    Rollout::decide(deployment, &world.sets, &world.running, now)
}

/// The deployment with one more hash collision: the next reconcile generates another name for the new replica set.
fn collided(deployment: &Value) -> Value {
    let mut deployment = deployment.clone();
    let count = spec::collisions(&deployment).unwrap_or(0);
    deployment.set(&["status", "collisionCount"], count + 1);
    deployment
}

/// The event about a replica set that was scaled.
fn event_for(world: &World, deployment: &Value, outcome: &Outcome) -> Option<Event> {
    let Ok(set) = &outcome.result else { return None };
    let size = |set: &Value| set.int_at(&["spec", "replicas"]).unwrap_or(1);
    let before = match &outcome.action {
        Action::Create { .. } => 0,
        Action::Update { .. } => size(world.sets.iter().find(|known| meta::uid(known) == meta::uid(set))?),
        _ => return None,
    };
    let now = size(set);
    if before == now {
        return None;
    }
    let way = if before < now { "up" } else { "down" };
    let message = format!("Scaled {way} replica set {} from {before} to {now}", meta::name(set));
    Some(Event::normal(NAME, deployment, "ScalingReplicaSet", message))
}

/// The deployment that controls a replica set; for one without a controller, every deployment that may adopt it.
fn deployments_of_set(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    for set in change.states() {
        match set.controller() {
            Some(owner) if owner.kind == "Deployment" => {
                keys.push(Key::new(set.key.namespace.clone(), owner.name.clone()));
            }
            Some(_) => {}
            None if change.new.is_some() => {
                let takes = |object: &Object| {
                    selectors::of(&object.tree()).is_some_and(|selector| set.is_selected_by(&selector))
                };
                let deployments = caches.of(&kinds::DEPLOYMENTS).list(&set.key.namespace);
                keys.extend(deployments.iter().filter(|d| takes(d)).map(|d| d.key.clone()));
            }
            None => {}
        }
    }
}

/// A deleted pod may be the last one that a Recreate rollout waits for.
fn deployment_of_gone_pod(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let (Some(pod), None) = (&change.old, &change.new) else { return };
    let Some(owner) = pod.controller().filter(|owner| owner.kind == "ReplicaSet") else { return };
    let set = caches.of(&kinds::REPLICA_SETS).get(&Key::new(pod.key.namespace.clone(), owner.name.clone()));
    let Some(owner) = set.as_ref().and_then(|set| set.controller()) else { return };
    let key = Key::new(pod.key.namespace.clone(), owner.name.clone());
    let deployment = caches.of(&kinds::DEPLOYMENTS).get(&key);
    if deployment.is_some_and(|deployment| !spec::is_rolling(&deployment.tree())) {
        keys.push(key);
    }
}

#[cfg(test)]
mod tables;
#[cfg(test)]
mod tests;
