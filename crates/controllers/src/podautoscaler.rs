//! HorizontalPodAutoscaler controller: scales targets to the replicas that their metrics propose.
//!
//! Owns the scale of its targets and the status of autoscalers. Watches autoscalers and looks up pods; requests scales
//! and metrics from the API server once per sync period and autoscaler. Never touches pods, and nothing of a target but
//! its scale.

mod behavior;
mod decision;
mod members;
mod metrics;
mod proposals;
mod replicas;
mod responses;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use corten_api::selector::LabelSelector;
use corten_api::{Value, meta, time};
use corten_base::Backoff;
use corten_client::{Caches, Change, Error, Key, Object, kinds};
use corten_reconcile::{Action, Controller, Event, Plan, Report, Watch};
use jiff::Timestamp;
use parking_lot::Mutex;

use behavior::{Behavior, Memory};
use decision::{Case, Decision, Rescale};
use members::Member;
use proposals::{Failure, Source};
use responses::{Missing, Responses};
use target::Scale;

/// The component of its events.
const COMPONENT: &str = "horizontal-pod-autoscaler";

/// Options of the autoscaler.
#[derive(Debug, Clone, PartialEq)]
pub struct HorizontalPodAutoscalerOptions {
    /// The interval of reconciles of each autoscaler.
    pub sync_period: Duration,
    /// The default stabilization window of scale-downs.
    pub downscale_stabilization: Duration,
    /// The tolerated deviation of a metric from its target, as a share.
    pub tolerance: f64,
    /// The time after a pod's start in which its CPU usage may be ignored.
    pub cpu_initialization_period: Duration,
    /// The time after a pod's start in which changes of readiness count as the first one.
    pub initial_readiness_delay: Duration,
    /// The number of autoscalers that are reconciled concurrently.
    pub concurrent_syncs: usize,
}

impl Default for HorizontalPodAutoscalerOptions {
    fn default() -> HorizontalPodAutoscalerOptions {
        HorizontalPodAutoscalerOptions {
            sync_period: Duration::from_secs(15),
            downscale_stabilization: Duration::from_secs(300),
            tolerance: 0.1,
            cpu_initialization_period: Duration::from_secs(300),
            initial_readiness_delay: Duration::from_secs(30),
            concurrent_syncs: 5,
        }
    }
}

pub(crate) struct HorizontalPodAutoscalers {
    pub(crate) options: HorizontalPodAutoscalerOptions,
    /// The state of each autoscaler between reconciles, which no object holds.
    remembered: Mutex<BTreeMap<Key, Remembered>>,
}

#[derive(Debug, Clone, Default)]
struct Remembered {
    memory: Memory,
    /// The selector of its target's pods.
    selector: Option<LabelSelector>,
}

/// The state of one autoscaler.
#[derive(Debug)]
pub(crate) struct World {
    hpa: Value,
    answers: Responses,
    memory: Memory,
    /// The pods of its namespace, until the target's selector is known.
    pods: Vec<Arc<Object>>,
    /// The target's pods.
    members: Vec<Member>,
    /// The selectors of the other autoscalers of its namespace.
    others: Vec<(Key, LabelSelector)>,
    /// The first of them that selects one of the same pods.
    rival: Option<Key>,
}

impl HorizontalPodAutoscalers {
    pub(crate) fn new(options: HorizontalPodAutoscalerOptions) -> HorizontalPodAutoscalers {
        HorizontalPodAutoscalers { options, remembered: Mutex::default() }
    }

    /// A world without responses.
    fn world(&self, hpa: Value, pods: Vec<Arc<Object>>) -> World {
        let key = Key::of(&hpa);
        let remembered = self.remembered.lock();
        let memory = remembered.get(&key).map(|known| known.memory.clone()).unwrap_or_default();
        let is_other = |other: &Key| other.namespace == key.namespace && *other != key;
        let others = remembered.iter().filter(|(other, _)| is_other(other));
        let others =
            others.filter_map(|(other, known)| Some((other.clone(), known.selector.clone()?))).collect();
        World { hpa, answers: Responses::default(), memory, pods, members: Vec::new(), others, rival: None }
    }

    /// The paths that proposals need.
    fn metrics_to_ask(&self, world: &World, scale: &Scale) -> Vec<String> {
        let Ok(selector) = LabelSelector::parse(scale.selector()) else { return Vec::new() };
        let situation = decision::situation(world, scale, &self.options, Timestamp::MIN);
        let source =
            Source { hpa: &world.hpa, answers: &world.answers, selector: &selector, situation: &situation };
        let unasked = |metric: &Value| match source.propose(metric) {
            Err(Failure::Unasked(path)) => Some(path),
            _ => None,
        };
        world.hpa.items_at(&["spec", "metrics"]).iter().filter_map(unasked).collect()
    }
}

impl World {
    fn scale(&self) -> Result<Scale, Missing> {
        target::scale(&self.hpa, &self.answers)
    }

    /// Selects the target's pods, once its selector is known.
    fn gather(&mut self) {
        let Ok(scale) = self.scale() else { return };
        let Ok(selector) = LabelSelector::parse(scale.selector()) else { return };
        if self.pods.is_empty() || scale.selector().is_empty() {
            return;
        }
        let mut pods = std::mem::take(&mut self.pods);
        pods.retain(|pod| pod.is_selected_by(&selector));
        let takes = |other: &&(Key, LabelSelector)| pods.iter().any(|pod| pod.is_selected_by(&other.1));
        self.rival = self.others.iter().find(takes).map(|(key, _)| key.clone());
        self.members = pods.iter().map(Member::from).collect();
    }
}

impl Controller for HorizontalPodAutoscalers {
    type World = Option<World>;

    fn name(&self) -> &'static str {
        "horizontal-pod-autoscaler-controller"
    }

    fn account(&self) -> &'static str {
        "horizontal-pod-autoscaler"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![
            Watch { kind: &kinds::HORIZONTAL_POD_AUTOSCALERS, keys: respecified },
            Watch::lookup(&kinds::PODS),
        ]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<World> {
        let Some(object) = caches.of(&kinds::HORIZONTAL_POD_AUTOSCALERS).get(key) else {
            self.remembered.lock().remove(key);
            return None;
        };
        Some(self.world(object.tree(), caches.of(&kinds::PODS).list(&key.namespace)))
    }

    fn ask(&self, world: &Option<World>) -> Vec<String> {
        let Some(world) = world else { return Vec::new() };
        let mut paths = match world.scale() {
            Err(Missing::Unasked(path)) => vec![path],
            Ok(scale) if Case::of(&world.hpa, &scale) == Case::Metrics => self.metrics_to_ask(world, &scale),
            _ => Vec::new(),
        };
        paths.sort_unstable();
        paths.dedup();
        paths.retain(|path| !world.answers.has(path));
        paths
    }

    fn learn(&self, world: &mut Option<World>, path: &str, answer: Result<Value, Error>) {
        if let Some(world) = world {
            world.answers.learn(path, answer);
            world.gather();
        }
    }

    fn plan(&self, _: &Key, world: &Option<World>, now: Timestamp) -> Plan {
        let Some(world) = world else { return Plan::done() };
        let plan = Plan::done().requeue_after(self.options.sync_period);
        match decision::decide(world, &self.options, now).rescale {
            Some(rescale) => plan.then(rescale.action()),
            None => plan,
        }
    }

    /// Also remembers the decision.
    fn conclude(&self, key: &Key, world: &Option<World>, report: &Report, now: Timestamp) -> Plan {
        let Some(world) = world else { return Plan::done() };
        let mut decision = decision::decide(world, &self.options, now);
        if let Some(rescale) = decision.rescale.take() {
            let failure = report.failures().find(|(action, _)| matches!(action, Action::Scale { .. }));
            match failure {
                Some((_, error)) => refused(&world.hpa, &mut decision, &rescale, error),
                None => self.rescaled(&world.hpa, &mut decision, &rescale, now),
            }
        }
        let selector = world.scale().ok().and_then(|scale| LabelSelector::parse(scale.selector()).ok());
        let memory = std::mem::take(&mut decision.memory);
        self.remembered.lock().insert(key.clone(), Remembered { memory, selector });
        let mut plan = Plan { events: decision.events, ..Plan::done() };
        if !is_same(world.hpa.get("status"), &decision.status) {
            let mut object = world.hpa.clone();
            object.set(&["status"], decision.status);
            let kind = &kinds::HORIZONTAL_POD_AUTOSCALERS;
            plan = plan.then(Action::Update { kind, object, subresource: "status" });
        }
        plan
    }

    fn workers(&self) -> usize {
        self.options.concurrent_syncs
    }

    /// Autoscalers are reconciled once per period, also after failures.
    fn retry(&self) -> Backoff {
        Backoff { first: self.options.sync_period, longest: self.options.sync_period }
    }
}

impl HorizontalPodAutoscalers {
    fn rescaled(&self, hpa: &Value, decision: &mut Decision, rescale: &Rescale, now: Timestamp) {
        let Rescale { from, to, reason, to_zero, .. } = rescale;
        let message = format!("the HPA controller was able to update the target scale to {to}");
        decision.set("AbleToScale", true, "SucceededRescale", &message);
        let text = format!("New size: {to}; reason: {reason}");
        decision.events.push(Event::normal(COMPONENT, hpa, "SuccessfulRescale", text));
        if let Some(behavior) = hpa.at(&["spec", "behavior"]) {
            let behavior = Behavior::of(behavior, self.options.downscale_stabilization);
            decision.memory.rescaled(&behavior, *from, *to, now);
        }
        let (reason, message) = match to_zero {
            true => ("ScaledToZero", "the HPA controller scaled the workload to zero"),
            false => ("NotScaledToZero", "the HPA controller did not scale the workload to zero"),
        };
        decision.set("ScaledToZero", *to_zero, reason, message);
        decision.status.set(&["lastScaleTime"], time::format(now));
    }
}

fn refused(hpa: &Value, decision: &mut Decision, rescale: &Rescale, error: &Error) {
    let text = format!("New size: {}; reason: {}; error: {error}", rescale.to, rescale.reason);
    decision.events.push(Event::warning(COMPONENT, hpa, "FailedRescale", text));
    let message = format!("the HPA controller was unable to update the target scale: {error}");
    decision.set("AbleToScale", false, "FailedUpdateScale", &message);
    let desired = hpa.int_at(&["status", "desiredReplicas"]).unwrap_or(0);
    decision.status.set(&["desiredReplicas"], desired);
}

/// True if two statuses are equal; missing metrics have several encodings.
fn is_same(known: Option<&Value>, new: &Value) -> bool {
    let plain = |status: &Value| {
        let mut status = status.clone();
        if matches!(status.get("currentMetrics"), Some(Value::Null)) {
            status.remove(&["currentMetrics"]);
        }
        status
    };
    known.is_some_and(|known| plain(known) == plain(new))
}

/// An autoscaler that was added, deleted, or has a new spec. Its status is no reason to reconcile.
fn respecified(_: &Caches, change: &Change, keys: &mut Vec<Key>) {
    let generation = |object: &Arc<Object>| meta::generation(&object.tree());
    match (&change.old, &change.new) {
        (Some(old), Some(new)) if old.uid == new.uid && generation(old) == generation(new) => {}
        _ => keys.push(change.object().key.clone()),
    }
}

#[cfg(test)]
mod tests;
