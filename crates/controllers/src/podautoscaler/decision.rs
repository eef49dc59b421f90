//! The decision of an autoscaler by its target's scale and metrics: the new scale, conditions and events.

use corten_api::quantity::Quantity;
use corten_api::selector::LabelSelector;
use corten_api::{Value, meta};
use corten_reconcile::{Action, Event};
use jiff::Timestamp;

use super::behavior::{Behavior, Bounds, Memory, Normalized};
use super::proposals::{Failure, Proposal, Source};
use super::replicas::{Situation, Tolerance};
use super::responses::Missing;
use super::target::Scale;
use super::{COMPONENT, HorizontalPodAutoscalerOptions, World};
use crate::conditions;

/// The change of scale, the status and the events.
#[derive(Debug)]
pub(super) struct Decision {
    /// The status, with the conditions that do not depend on the outcome of rescaling.
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
    /// True if the autoscaler itself scales to zero.
    pub(super) to_zero: bool,
}

impl Rescale {
    pub(super) fn action(&self) -> Action {
        Action::Scale { path: self.scale.path.clone(), object: self.scale.resized(self.to) }
    }
}

/// The result of all metrics.
struct Computed {
    replicas: i64,
    metric: String,
    statuses: Vec<Value>,
}

/// Scaling is impossible; the conditions and statuses so far.
struct Impossible {
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
        Err(Missing::Failed(why)) => {
            decision.warn(hpa, "FailedGetScale", &why);
            let message = format!("the HPA controller was unable to get the target's current scale: {why}");
            decision.set("AbleToScale", false, "FailedGetScale", &message);
            let desired = hpa.int_at(&["status", "desiredReplicas"]).unwrap_or(0);
            decision.status.set(&["desiredReplicas"], desired);
        }
        Err(Missing::Unasked(_)) => {}
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
        let wanted = match Case::of(hpa, scale) {
            Case::Disabled => {
                let message = "scaling is disabled since the replica count of the target is zero";
                self.set("ScalingActive", false, "ScalingDisabled", message);
                None
            }
            Case::OutOfBounds(replicas, reason) => Some((replicas, reason.to_owned())),
            Case::Metrics => match self.compute(world, scale, options) {
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

    /// The desired replicas and the reason, if that is a change.
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

    /// The result of all metrics: the highest proposal. If some metrics are unknown, the others are not enough to scale
    /// down.
    fn compute(
        &mut self,
        world: &World,
        scale: &Scale,
        options: &HorizontalPodAutoscalerOptions,
    ) -> Result<Computed, Impossible> {
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
            return Err(Impossible { statuses: Some(computed.statuses), why });
        }
        let message =
            format!("the HPA was able to successfully calculate a replica count from {}", computed.metric);
        self.set("ScalingActive", true, "ValidMetricFound", &message);
        Ok(computed)
    }

    /// The selector of the target's pods. No other autoscaler may select any of them.
    fn selector(&mut self, world: &World, scale: &Scale) -> Result<LabelSelector, Impossible> {
        let mut refuse = |event: &'static str, reason: &'static str, message: String, why: String| {
            self.warn(&world.hpa, event, &why);
            self.set("ScalingActive", false, reason, &message);
            Impossible { statuses: None, why }
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

    /// Writes the status, without the parts that depend on the outcome of rescaling.
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

/// The input of metric calculations.
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

/// True if there are metrics that work without pods.
fn scales_from_zero(hpa: &Value) -> bool {
    let is_outside = |metric: &Value| matches!(metric.str_at(&["type"]), Some("Object" | "External"));
    hpa.items_at(&["spec", "metrics"]).iter().any(is_outside)
}

/// The case that decides about a target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Case {
    /// A user scaled it to zero, which disables the autoscaler.
    Disabled,
    /// The current replicas are out of the bounds: the nearest bound, and the reason.
    OutOfBounds(i64, &'static str),
    Metrics,
}

const ABOVE: &str = "Current number of replicas above Spec.MaxReplicas";
const BELOW: &str = "Current number of replicas below Spec.MinReplicas";

impl Case {
    pub(super) fn of(hpa: &Value, scale: &Scale) -> Case {
        let (bounds, current) = (bounds(hpa), scale.wanted());
        if current == 0 {
            let by_itself = conditions::is_true(hpa, "ScaledToZero");
            let comes_back = by_itself && (bounds.min != 0 || scales_from_zero(hpa));
            return if comes_back { Case::Metrics } else { Case::Disabled };
        }
        if current > bounds.max {
            Case::OutOfBounds(bounds.max, ABOVE)
        } else if current < bounds.min {
            Case::OutOfBounds(bounds.min, BELOW)
        } else {
            Case::Metrics
        }
    }
}
