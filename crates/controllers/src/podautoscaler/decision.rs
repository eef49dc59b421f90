//! What an autoscaler makes of its target's scale and metrics: the new scale, and what is said about it.

use corten_api::quantity::Quantity;
use corten_api::selector::LabelSelector;
use corten_api::{Value, meta};
use corten_reconcile::{Action, Event};
use jiff::Timestamp;

use super::answers::Lack;
use super::behavior::{Behavior, Bounds, Memory, Normalized};
use super::proposals::{Failure, Proposal, Source};
use super::replicas::{Situation, Tolerance};
use super::target::Scale;
use super::{COMPONENT, HorizontalPodAutoscalerOptions, World};
use crate::conditions;

/// What is to be done, and what is said if it is.
#[derive(Debug)]
pub(super) struct Decision {
    /// With the conditions as far as they do not depend on rescaling.
    pub(super) status: Value,
    pub(super) events: Vec<Event>,
    pub(super) rescale: Option<Rescale>,
    pub(super) memory: Memory,
    now: Timestamp,
}

/// A change of scale.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Rescale {
    pub(super) scale: Scale,
    pub(super) from: i64,
    pub(super) to: i64,
    pub(super) reason: String,
    /// Whether nothing is left on the autoscaler's own account.
    pub(super) to_zero: bool,
}

impl Rescale {
    pub(super) fn action(&self) -> Action {
        Action::Scale { path: self.scale.path.clone(), object: self.scale.resized(self.to) }
    }
}

/// What all metrics come to.
struct Computed {
    replicas: i64,
    metric: String,
    statuses: Vec<Value>,
}

/// Scaling is not possible; what was found out until then.
struct Hopeless {
    statuses: Option<Vec<Value>>,
    why: String,
}

pub(super) fn decide(world: &World, options: &HorizontalPodAutoscalerOptions, now: Timestamp) -> Decision {
    let hpa = &world.hpa;
    let status = hpa.get("status").cloned().unwrap_or_else(Value::object);
    let mut decision =
        Decision { status, events: Vec::new(), rescale: None, memory: world.memory.clone(), now };
    match world.scale() {
        Ok(scale) => decision.weigh(world, &scale, options),
        Err(Lack::Failed(why)) => {
            decision.warn(hpa, "FailedGetScale", &why);
            let message = format!("the HPA controller was unable to get the target's current scale: {why}");
            decision.set("AbleToScale", false, "FailedGetScale", &message);
            let desired = hpa.int_at(&["status", "desiredReplicas"]).unwrap_or(0);
            decision.status.set(&["desiredReplicas"], desired);
        }
        Err(Lack::Unasked(_)) => {}
    }
    decision
}

impl Decision {
    pub(super) fn set(&mut self, kind: &str, holds: bool, reason: &str, message: &str) {
        let status = if holds { "True" } else { "False" };
        conditions::put(&mut self.status, conditions::new(kind, status, reason, message, self.now));
    }

    fn warn(&mut self, hpa: &Value, reason: &'static str, message: &str) {
        self.events.push(Event::warning(COMPONENT, hpa, reason, message));
    }

    /// Decides about a target whose scale is known.
    fn weigh(&mut self, world: &World, scale: &Scale, options: &HorizontalPodAutoscalerOptions) {
        let hpa = &world.hpa;
        let message = "the HPA controller was able to get the target's current scale";
        self.set("AbleToScale", true, "SucceededGetScale", message);
        let (current, bounds) = (scale.wanted(), bounds(hpa));
        if self.memory.recommendations.is_empty() {
            self.memory.recommendations.push((self.now, current));
        }
        let mut statuses = None;
        let wanted = match Occasion::of(hpa, scale) {
            Occasion::Disabled => {
                let message = "scaling is disabled since the replica count of the target is zero";
                self.set("ScalingActive", false, "ScalingDisabled", message);
                None
            }
            Occasion::OutOfBounds(replicas, reason) => Some((replicas, reason.to_owned())),
            Occasion::Metrics => match self.compute(world, scale, options) {
                Ok(computed) => {
                    let wanted = self.normalize(hpa, current, &computed, options);
                    statuses = Some(computed.statuses);
                    wanted
                }
                Err(hopeless) => {
                    self.warn(hpa, "FailedComputeMetricsReplicas", &hopeless.why);
                    let desired = hpa.int_at(&["status", "desiredReplicas"]).unwrap_or(0);
                    self.conclude(hpa, current, desired, hopeless.statuses);
                    return;
                }
            },
        };
        let desired = wanted.as_ref().map_or(current, |(replicas, _)| *replicas);
        self.conclude(hpa, current, desired, statuses);
        self.rescale = wanted.map(|(to, reason)| {
            let to_zero = current > 0 && to == 0 && bounds.min == 0 && scales_from_zero(hpa);
            Rescale { scale: scale.clone(), from: current, to, reason, to_zero }
        });
    }

    /// The replicas to go to and why, if that is a change.
    fn normalize(
        &mut self,
        hpa: &Value,
        current: i64,
        computed: &Computed,
        options: &HorizontalPodAutoscalerOptions,
    ) -> Option<(i64, String)> {
        let (proposed, bounds) = (computed.replicas.max(0), bounds(hpa));
        let mut reason = if proposed > current {
            format!("{} above target", computed.metric)
        } else if proposed < current {
            "All metrics below target".to_owned()
        } else {
            String::new()
        };
        let window = options.downscale_stabilization;
        let Normalized { replicas: mut desired, able, limited } = match hpa.at(&["spec", "behavior"]) {
            None => self.memory.normalize(current, proposed, bounds, window, self.now),
            Some(behavior) => {
                let behavior = Behavior::of(behavior, window);
                self.memory.normalize_by(&behavior, current, proposed, bounds, self.now)
            }
        };
        self.set("AbleToScale", true, able.0, able.1);
        self.set("ScalingLimited", limited.0, limited.1, limited.2);
        if current == 0 && desired < bounds.min {
            desired = bounds.min;
            if reason.is_empty() {
                BELOW.clone_into(&mut reason);
            }
        }
        (desired != current).then_some((desired, reason))
    }

    /// What all metrics come to: the most that any of them asks for. If some of them cannot be known, the others
    /// are not reason enough to shrink.
    fn compute(
        &mut self,
        world: &World,
        scale: &Scale,
        options: &HorizontalPodAutoscalerOptions,
    ) -> Result<Computed, Hopeless> {
        let selector = self.selector(world, scale)?;
        let metrics = world.hpa.items_at(&["spec", "metrics"]);
        let situation = situation(world, scale, options, self.now);
        let source =
            Source { hpa: &world.hpa, answers: &world.answers, selector: &selector, situation: &situation };
        let mut computed = Computed { replicas: 0, metric: String::new(), statuses: Vec::new() };
        let (mut invalid, mut first) = (0, None);
        for metric in metrics {
            match source.propose(metric) {
                Ok(Proposal { replicas, metric, status }) => {
                    computed.statuses.push(status);
                    if computed.replicas == 0 || replicas > computed.replicas {
                        (computed.replicas, computed.metric) = (replicas, metric);
                    }
                }
                Err(Failure::Failed { reason, why, whole }) => {
                    self.warn(&world.hpa, reason, &why);
                    computed.statuses.push(corten_api::value!({"type": ""}));
                    invalid += 1;
                    first.get_or_insert((reason, why, whole));
                }
                Err(Failure::Unasked(_)) => {}
            }
        }
        if let Some((reason, why, whole)) = first
            && (invalid >= metrics.len() || computed.replicas < scale.wanted())
        {
            let message = format!("the HPA was unable to compute the replica count: {why}");
            self.set("ScalingActive", false, reason, &message);
            let why = format!(
                "invalid metrics ({invalid} invalid out of {}), first error is: {whole}",
                metrics.len()
            );
            return Err(Hopeless { statuses: Some(computed.statuses), why });
        }
        let message =
            format!("the HPA was able to successfully calculate a replica count from {}", computed.metric);
        self.set("ScalingActive", true, "ValidMetricFound", &message);
        Ok(computed)
    }

    /// What the target's pods are selected by. No other autoscaler may have any of them.
    fn selector(&mut self, world: &World, scale: &Scale) -> Result<LabelSelector, Hopeless> {
        let mut refuse = |event: &'static str, reason: &'static str, message: String, why: String| {
            self.warn(&world.hpa, event, &why);
            self.set("ScalingActive", false, reason, &message);
            Hopeless { statuses: None, why }
        };
        let text = scale.selector();
        if text.is_empty() {
            let message = "the HPA target's scale is missing a selector".to_owned();
            return Err(refuse(
                "SelectorRequired",
                "InvalidSelector",
                message,
                "selector is required".to_owned(),
            ));
        }
        let selector = LabelSelector::parse(text).map_err(|error| {
            let why =
                format!("couldn't convert selector into a corresponding internal selector object: {error}");
            refuse("InvalidSelector", "InvalidSelector", why.clone(), why)
        })?;
        if let Some(other) = &world.rival {
            let named = |name: &str| format!("{{{name} {}}}", meta::namespace(&world.hpa));
            let both = format!("[{} {}]", named(meta::name(&world.hpa)), named(&other.name));
            let why = format!("pods by selector {text} are controlled by more than one HPA (e.g. {both})");
            return Err(refuse("AmbiguousSelector", "AmbiguousSelector", why.clone(), why));
        }
        Ok(selector)
    }

    /// The status, but for what depends on rescaling.
    fn conclude(&mut self, hpa: &Value, current: i64, desired: i64, statuses: Option<Vec<Value>>) {
        let status = &mut self.status;
        match current {
            0 => drop(status.remove(&["currentReplicas"])),
            current => status.set(&["currentReplicas"], current),
        }
        status.set(&["desiredReplicas"], desired);
        status.set(&["observedGeneration"], meta::generation(hpa));
        status.set(&["currentMetrics"], statuses.map_or(Value::Null, Value::from));
    }
}

/// What metrics are held against.
pub(super) fn situation<'a>(
    world: &'a World,
    scale: &Scale,
    options: &'a HorizontalPodAutoscalerOptions,
    now: Timestamp,
) -> Situation<'a> {
    let own = |direction: &str| {
        let text = world.hpa.str_at(&["spec", "behavior", direction, "tolerance"])?;
        Quantity::parse(text).ok().map(|quantity| quantity.as_f64())
    };
    let tolerance = Tolerance {
        down: own("scaleDown").unwrap_or(options.tolerance),
        up: own("scaleUp").unwrap_or(options.tolerance),
    };
    Situation {
        members: &world.members,
        wanted: scale.wanted(),
        there: scale.there(),
        tolerance,
        options,
        now,
    }
}

fn bounds(hpa: &Value) -> Bounds {
    let min = hpa.int_at(&["spec", "minReplicas"]).unwrap_or(1);
    Bounds { min, max: hpa.int_at(&["spec", "maxReplicas"]).unwrap_or(0) }
}

/// Whether there are metrics that say something when there are no pods.
fn scales_from_zero(hpa: &Value) -> bool {
    let is_outside = |metric: &Value| matches!(metric.str_at(&["type"]), Some("Object" | "External"));
    hpa.items_at(&["spec", "metrics"]).iter().any(is_outside)
}

/// What decides about a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Occasion {
    /// Somebody scaled it to nothing; it stays there.
    Disabled,
    /// The bounds of the autoscaler, and why.
    OutOfBounds(i64, &'static str),
    Metrics,
}

const ABOVE: &str = "Current number of replicas above Spec.MaxReplicas";
const BELOW: &str = "Current number of replicas below Spec.MinReplicas";

impl Occasion {
    pub(super) fn of(hpa: &Value, scale: &Scale) -> Occasion {
        let (bounds, current) = (bounds(hpa), scale.wanted());
        if current == 0 {
            let by_itself = conditions::is_true(hpa, "ScaledToZero");
            let comes_back = by_itself && (bounds.min != 0 || scales_from_zero(hpa));
            return if comes_back { Occasion::Metrics } else { Occasion::Disabled };
        }
        if current > bounds.max {
            Occasion::OutOfBounds(bounds.max, ABOVE)
        } else if current < bounds.min {
            Occasion::OutOfBounds(bounds.min, BELOW)
        } else {
            Occasion::Metrics
        }
    }
}
