//! PodDisruptionBudget controller: computes how many pods of a budget may be disrupted now.
//!
//! Owns the status of budgets, except for the pods that evictions record in it. Watches budgets and pods, and looks up
//! the scale of the pods' controllers. Never evicts: the eviction API decides about each eviction.
//!
//! `stale` resets the DisruptionTarget condition of pods that were not disrupted after all.

mod scales;
mod stale;

use corten_api::selector::LabelSelector;
use corten_api::{Map, Value, meta, time, value};
use corten_client::{Caches, Change, Error, Key, Object, View, kinds};
use corten_reconcile::{Action, Controller, Event, Manager, Plan, Watch};
use jiff::{SignedDuration, Timestamp};

use crate::limits::{self, Round};
use crate::pods::Pod;
use crate::{conditions, selectors};
use scales::Scales;

/// The component of its events.
const COMPONENT: &str = "controllermanager";
/// The time within which an evicted pod should be deleted; after that it counts again.
const DELETION: SignedDuration = SignedDuration::from_mins(2);
/// The most pods about which one reconcile records events.
const COMPLAINTS: usize = 10;

pub(crate) fn start(manager: &Manager) {
    manager.run(Budgets);
    manager.run(stale::StaleDisruptions);
}

pub(crate) struct Budgets;

/// The state of one budget.
#[derive(Debug, Default)]
pub(crate) struct World {
    /// `None` if it does not exist.
    budget: Option<Value>,
    pods: Vec<Pod>,
    /// Pods that match several budgets, if this is the budget that reports them.
    shared: Vec<Pod>,
    scales: Scales,
}

/// The parts of a budget that are read with every change of a pod.
struct BudgetView {
    /// `None` if it cannot be parsed.
    selector: Option<LabelSelector>,
}

impl View for BudgetView {
    fn of(budget: &Value) -> BudgetView {
        BudgetView { selector: LabelSelector::from_object(budget.at(&["spec", "selector"])).ok() }
    }
}

fn selects(budget: &Object, pod: &Object) -> bool {
    budget.view::<BudgetView>().selector.as_ref().is_some_and(|selector| pod.is_selected_by(selector))
}

impl Controller for Budgets {
    type World = World;

    fn name(&self) -> &'static str {
        "disruption-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch::own(&kinds::POD_DISRUPTION_BUDGETS),
            Watch { kind: &kinds::PODS, keys: budgets_of_pod },
            Watch::lookup(&kinds::REPLICATION_CONTROLLERS),
            Watch::lookup(&kinds::REPLICA_SETS),
            Watch::lookup(&kinds::DEPLOYMENTS),
            Watch::lookup(&kinds::STATEFUL_SETS),
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> World {
        let budgets = caches.of(&kinds::POD_DISRUPTION_BUDGETS);
        let Some(object) = budgets.get(key) else { return World::default() };
        let budget = object.tree();
        let pods: Vec<Pod> = match &object.view::<BudgetView>().selector {
            Some(selector) => caches.of(&kinds::PODS).select(&key.namespace, selector),
            None => Vec::new(),
        }
        .into_iter()
        .map(Pod::from)
        .collect();
        let others = budgets.list(&key.namespace);
        let is_shared = |pod: &&Pod| {
            let mut all = others.iter().filter(|other| selects(other, &pod.object));
            all.next().is_some_and(|first| first.key == *key) && all.next().is_some()
        };
        let shared = match others.len() {
            1 => Vec::new(),
            _ => pods.iter().filter(is_shared).take(COMPLAINTS).cloned().collect(),
        };
        let scales = if needs_scale(&budget) { scales::observe(caches, &pods) } else { Scales::default() };
        World { budget: Some(budget), pods, shared, scales }
    }

    fn ask(&self, world: &World) -> Vec<String> {
        world.scales.ask()
    }

    fn learn(&self, world: &mut World, path: &str, answer: Result<Value, Error>) {
        world.scales.learn(path, &answer);
    }

    fn plan(&self, _: &Key, world: &World, now: Timestamp) -> Plan {
        let Some(budget) = &world.budget else { return Plan::done() };
        let mut plan = Plan::done();
        let reported = |plan: Plan,
                        kind: fn(&'static str, &Value, &'static str, String) -> Event,
                        reason,
                        text| { plan.event(kind(COMPONENT, budget, reason, text)) };
        let status = match selector_error(budget).map_or_else(|| world.expected(budget), Err) {
            Err((reason, why, text)) => {
                plan = reported(plan, Event::warning, reason, text);
                failed(budget, &why, now)
            }
            Ok(expected) => {
                if world.pods.is_empty() {
                    plan = reported(plan, Event::normal, "NoPods", "No matching pods found".to_owned());
                }
                if expected.has_unmanaged {
                    plan = reported(plan, Event::warning, "UnmanagedPods", unmanaged(budget));
                }
                let disrupted = world.disrupted(budget, now);
                plan.events.extend(disrupted.events);
                if let Some(at) = disrupted.again_at {
                    plan = plan.requeue_after(at.duration_since(now).try_into().unwrap_or_default());
                }
                status(budget, world, &expected, disrupted.pods, now)
            }
        };
        if budget.get("status") != Some(&status) {
            let mut object = budget.clone();
            object.set(&["status"], status);
            let kind = &kinds::POD_DISRUPTION_BUDGETS;
            plan = plan.then(Action::Update { kind, object, subresource: "status" });
            plan.events.extend(world.shared.iter().map(|pod| complaint(budget, pod)));
        }
        plan
    }
}

/// The reason of the event about a failure, the error, and the message of the event.
type Failure = (&'static str, String, String);

/// The number of expected pods, and how many of them have to be healthy.
#[derive(Debug, PartialEq, Eq)]
struct Expected {
    pods: i64,
    healthy: i64,
    has_unmanaged: bool,
}

fn selector_error(budget: &Value) -> Option<Failure> {
    let error = LabelSelector::from_object(budget.at(&["spec", "selector"])).err()?;
    Some(("NoPods", error.to_string(), format!("Failed to get pods: {error}")))
}

/// True if the number of healthy pods depends on the number of expected ones.
fn needs_scale(budget: &Value) -> bool {
    let is_percentage = matches!(budget.at(&["spec", "minAvailable"]), Some(Value::String(_)));
    budget.at(&["spec", "maxUnavailable"]).is_some() || is_percentage
}

impl World {
    fn expected(&self, budget: &Value) -> Result<Expected, Failure> {
        let failure = |why: String| {
            let text = format!("Failed to calculate the number of expected pods: {why}");
            ("CalculateExpectedPodCountFailed", why, text)
        };
        let limit = |name: &str| budget.at(&["spec", name]);
        let scaled = |limit: &Value, total| {
            limits::scaled(limit, total, Round::Up).ok_or_else(|| {
                failure("invalid value for IntOrString: invalid type: string is not a percentage".to_owned())
            })
        };
        if !needs_scale(budget) {
            let healthy = budget.int_at(&["spec", "minAvailable"]);
            let pods = healthy.map_or(0, |_| self.pods.len() as i64);
            return Ok(Expected { pods, healthy: healthy.unwrap_or(0), has_unmanaged: false });
        }
        let (pods, has_unmanaged) = self.scales.total(&self.pods).map_err(failure)?;
        let healthy = match (limit("maxUnavailable"), limit("minAvailable")) {
            (Some(unavailable), _) => (pods - scaled(unavailable, pods)?).max(0),
            (None, Some(available)) => scaled(available, pods)?,
            (None, None) => 0,
        };
        Ok(Expected { pods, healthy, has_unmanaged })
    }

    /// The evicted pods that are not deleted yet.
    fn disrupted(&self, budget: &Value, now: Timestamp) -> Disrupted {
        let mut found = Disrupted::default();
        let Some(noted) = budget.at(&["status", "disruptedPods"]).and_then(Value::as_object) else {
            return found;
        };
        for pod in self.pods.iter().filter(|pod| !pod.object.deleting) {
            let Some(text) = noted.get(&pod.object.key.name).and_then(Value::as_str) else { continue };
            let until = time::parse(text).map(|at| at.saturating_add(DELETION).unwrap_or(Timestamp::MAX));
            match until {
                Ok(until) if until >= now => {
                    found.pods.insert(pod.object.key.name.clone(), text);
                    found.again_at = Some(found.again_at.map_or(until, |other: Timestamp| other.min(until)));
                }
                _ => {
                    let namespace = meta::namespace(budget);
                    let message = format!(
                        "Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't"
                    );
                    found.events.push(Event::warning(COMPONENT, &pod.object.tree(), "NotDeleted", message));
                }
            }
        }
        found
    }
}

#[derive(Debug, Default)]
struct Disrupted {
    pods: Map,
    events: Vec<Event>,
    /// The time by which the first of them should be deleted.
    again_at: Option<Timestamp>,
}

fn status(budget: &Value, world: &World, expected: &Expected, disrupted: Map, now: Timestamp) -> Value {
    let is_healthy =
        |pod: &&Pod| !pod.object.deleting && pod.view.ready && !disrupted.contains_key(&pod.object.key.name);
    let healthy = world.pods.iter().filter(is_healthy).count() as i64;
    let allowed = if expected.pods > 0 { (healthy - expected.healthy).max(0) } else { 0 };
    let mut status = value!({
        "currentHealthy": (healthy), "desiredHealthy": (expected.healthy),
        "expectedPods": (expected.pods), "disruptionsAllowed": (allowed),
        "observedGeneration": (meta::generation(budget)),
    });
    if !disrupted.is_empty() {
        status.set(&["disruptedPods"], disrupted);
    }
    if let Some(conditions) = budget.at(&["status", "conditions"]) {
        status.set(&["conditions"], conditions.clone());
    }
    let (holds, reason) =
        if allowed > 0 { ("True", "SufficientPods") } else { ("False", "InsufficientPods") };
    conditions::put(&mut status, condition(holds, reason, "", meta::generation(budget), now));
    status
}

/// The status after a failure: no disruption is allowed.
fn failed(budget: &Value, why: &str, now: Timestamp) -> Value {
    let mut status = budget.get("status").cloned().unwrap_or_else(Value::object);
    for key in ["currentHealthy", "desiredHealthy", "expectedPods"] {
        let known = status.int_at(&[key]).unwrap_or(0);
        status.set(&[key], known);
    }
    status.set(&["disruptionsAllowed"], 0);
    let generation = status.int_at(&["observedGeneration"]).unwrap_or(0);
    conditions::put(&mut status, condition("False", "SyncFailed", why, generation, now));
    status
}

fn condition(holds: &str, reason: &str, message: &str, generation: i64, now: Timestamp) -> Value {
    let mut condition = conditions::new("DisruptionAllowed", holds, reason, message, now);
    condition.set(&["message"], message);
    if generation != 0 {
        condition.set(&["observedGeneration"], generation);
    }
    condition
}

fn complaint(budget: &Value, pod: &Pod) -> Event {
    let key = &pod.object.key;
    let message = format!(
        "Pod {:?}/{:?} matches multiple PodDisruptionBudgets.  Chose {:?} arbitrarily.",
        key.namespace.as_str(),
        key.name.as_str(),
        meta::name(budget)
    );
    Event::warning(COMPONENT, &pod.object.tree(), "MultiplePodDisruptionBudgets", message)
}

fn unmanaged(budget: &Value) -> String {
    let selector = selectors::spelled(budget.at(&["spec", "selector"]));
    format!(
        "Pods selected by this PodDisruptionBudget (selector: {selector}) were found to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods please set \".spec.minAvailable\" field of the PDB to an integer value."
    )
}

/// The budgets that match a changed pod, or matched it before the change.
fn budgets_of_pod(caches: &Caches, change: &Change, keys: &mut Vec<Key>) {
    if let (Some(old), Some(new)) = (&change.old, &change.new) {
        let (old, new) = (Pod::from(old.clone()), Pod::from(new.clone()));
        let seen = |pod: &Pod| (pod.view.ready, pod.object.deleting, pod.object.uid.clone());
        let same_owner = old.object.controller() == new.object.controller();
        if seen(&old) == seen(&new) && same_owner && old.object.labels == new.object.labels {
            return;
        }
    }
    let budgets = caches.of(&kinds::POD_DISRUPTION_BUDGETS).list(&change.object().key.namespace);
    for budget in &budgets {
        if change.states().any(|pod| selects(budget, pod)) {
            keys.push(budget.key.clone());
        }
    }
}

#[cfg(test)]
mod tests;
