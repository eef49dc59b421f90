//! The metrics of the whole of admission, with upstream's names, labels and buckets: its two steps, its plugins, and match
//! conditions. Webhooks and policies count their own (`webhooks/metrics`, `policies/metrics`).
//!
//! A histogram is made when it first counts. Counting what every request does takes no lock, except for the summary.

use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use corten_api::Str;
use corten_serving::metrics::{Exposition, Histogram, Kind, Summary};
use parking_lot::Mutex;

use super::Operation;
use super::plugins::Plugin;

const BUCKETS: [f64; 6] = [0.005, 0.025, 0.1, 0.5, 1.0, 2.5];
const CONDITION_BUCKETS: [f64; 7] = [0.001, 0.005, 0.01, 0.025, 0.1, 0.2, 0.25];
/// The age of the observations in the summary.
const MAX_AGE: Duration = Duration::from_secs(5 * 3600);
/// The limit of webhooks and policies whose conditions are counted, so that no configuration makes the metrics grow without
/// end.
const MOST_CONDITIONS: usize = 5000;

const OPERATIONS: [Operation; 4] =
    [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

/// The two phases of admission.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Admit,
    Validate,
}

impl Step {
    const ALL: [Step; 2] = [Step::Admit, Step::Validate];

    fn label(self) -> &'static str {
        match self {
            Step::Admit => "admit",
            Step::Validate => "validate",
        }
    }
}

/// One value for each step, operation and outcome.
struct Cells<T>([OnceLock<Box<T>>; 16]);

impl<T> Default for Cells<T> {
    fn default() -> Cells<T> {
        Cells(std::array::from_fn(|_| OnceLock::new()))
    }
}

impl<T> Cells<T> {
    fn at(&self, step: Step, operation: Operation, rejected: bool, new: impl FnOnce() -> T) -> Option<&T> {
        let at = (step as usize) << 3 | (operation as usize) << 1 | usize::from(rejected);
        self.0.get(at).map(|cell| &**cell.get_or_init(|| Box::new(new())))
    }

    /// The values that exist, with their labels.
    fn present(&self) -> impl Iterator<Item = (Step, Operation, bool, &T)> {
        let keys = Step::ALL.into_iter().flat_map(|step| {
            let of = move |operation| [false, true].map(|rejected| (step, operation, rejected));
            OPERATIONS.into_iter().flat_map(of)
        });
        keys.zip(&self.0).filter_map(|((step, operation, rejected), cell)| {
            Some((step, operation, rejected, &**cell.get()?))
        })
    }
}

struct StepStats {
    durations: Histogram,
    summary: Summary,
}

/// The owner of match conditions.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct ConditionKey {
    name: Str,
    kind: &'static str,
    type_: &'static str,
    operation: &'static str,
}

struct ConditionStats {
    errors: u64,
    exclusions: u64,
    durations: Histogram,
}

/// The webhook or policy whose match conditions were evaluated.
#[derive(Debug, Clone, Copy)]
pub(super) struct ConditionOwner<'a> {
    pub name: &'a Str,
    /// `webhook` or `policy`.
    pub kind: &'static str,
    /// The type in metrics: `admit`, `validating` or `validate`.
    pub type_: &'static str,
}

/// The outcome of match conditions.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ConditionOutcome {
    /// Conditions that could not be evaluated.
    pub errors: u64,
    /// The webhook is not called.
    pub is_excluded: bool,
    pub took: Duration,
}

/// The counters of admission.
pub(super) struct Metrics {
    steps: Cells<StepStats>,
    /// Those of the enabled plugins, in their order.
    plugins: Box<[(&'static str, Cells<Histogram>)]>,
    conditions: Mutex<BTreeMap<ConditionKey, ConditionStats>>,
}

impl Metrics {
    pub(super) fn new(plugins: &[&'static Plugin]) -> Metrics {
        Metrics {
            steps: Cells::default(),
            plugins: plugins.iter().map(|plugin| (plugin.name, Cells::default())).collect(),
            conditions: Mutex::default(),
        }
    }

    /// Counts a step of a request.
    pub(super) fn step(&self, step: Step, operation: Operation, rejected: bool, began: Instant) {
        let now = Instant::now();
        let took = now.saturating_duration_since(began).as_secs_f64();
        let new = || StepStats { durations: Histogram::new(&BUCKETS), summary: Summary::new(MAX_AGE, now) };
        if let Some(stats) = self.steps.at(step, operation, rejected, new) {
            stats.durations.observe(took);
            stats.summary.observe(took, now);
        }
    }

    /// Counts what one of the enabled plugins did.
    pub(super) fn plugin(
        &self,
        number: usize,
        step: Step,
        operation: Operation,
        rejected: bool,
        took: Duration,
    ) {
        let Some((_, cells)) = self.plugins.get(number) else { return };
        if let Some(histogram) = cells.at(step, operation, rejected, || Histogram::new(&BUCKETS)) {
            histogram.observe(took.as_secs_f64());
        }
    }

    /// Counts match conditions that decided something. As upstream, those that are all true are not counted.
    pub(super) fn conditions(
        &self,
        owner: ConditionOwner<'_>,
        operation: Operation,
        outcome: ConditionOutcome,
    ) {
        let ConditionOwner { name, kind, type_ } = owner;
        let key = ConditionKey { name: name.clone(), kind, type_, operation: operation.name() };
        let mut all = self.conditions.lock();
        if all.len() >= MOST_CONDITIONS && !all.contains_key(&key) {
            return;
        }
        let new =
            || ConditionStats { errors: 0, exclusions: 0, durations: Histogram::new(&CONDITION_BUCKETS) };
        let stats = all.entry(key).or_insert_with(new);
        stats.errors += outcome.errors;
        stats.exclusions += u64::from(outcome.is_excluded);
        stats.durations.observe(outcome.took.as_secs_f64());
    }

    pub(super) fn render(&self, out: &mut Exposition) {
        self.render_steps(out);
        self.render_plugins(out);
        self.render_conditions(out);
    }

    fn render_steps(&self, out: &mut Exposition) {
        if self.steps.present().next().is_none() {
            return;
        }
        let name = "apiserver_admission_step_admission_duration_seconds";
        out.family(name, Kind::Histogram, "Durations of the steps of admission.");
        for (step, operation, rejected, stats) in self.steps.present() {
            out.histogram(name, &step_labels(step, operation, rejected), &stats.durations);
        }
        let name = "apiserver_admission_step_admission_duration_seconds_summary";
        out.family(name, Kind::Summary, "Quantiles of the durations of the steps of admission.");
        let now = Instant::now();
        for (step, operation, rejected, stats) in self.steps.present() {
            out.summary(name, &step_labels(step, operation, rejected), &stats.summary, now);
        }
    }

    fn render_plugins(&self, out: &mut Exposition) {
        if self.plugins.iter().all(|(_, cells)| cells.present().next().is_none()) {
            return;
        }
        let name = "apiserver_admission_controller_admission_duration_seconds";
        out.family(name, Kind::Histogram, "Durations of admission plugins.");
        for (plugin, cells) in &self.plugins {
            for (step, operation, rejected, histogram) in cells.present() {
                let [operation, rejected, step] = step_labels(step, operation, rejected);
                out.histogram(name, &[("name", plugin), operation, rejected, step], histogram);
            }
        }
    }

    fn render_conditions(&self, out: &mut Exposition) {
        let all = self.conditions.lock();
        let labels = |key: &ConditionKey| {
            let ConditionKey { name, kind, type_, operation } = key.clone();
            [
                ("kind", Str::from(kind)),
                ("name", name),
                ("operation", operation.into()),
                ("type", type_.into()),
            ]
        };
        let mut counter = |name: &str, about: &str, count: fn(&ConditionStats) -> u64| {
            let mut counted = all.iter().filter(|(_, stats)| count(stats) > 0).peekable();
            if counted.peek().is_some() {
                out.family(name, Kind::Counter, about);
            }
            for (key, stats) in counted {
                let labels = labels(key);
                out.sample(name, &labels.each_ref().map(|(name, text)| (*name, text.as_str())), count(stats));
            }
        };
        let name = "apiserver_admission_match_condition_evaluation_errors_total";
        counter(name, "Match conditions that could not be evaluated.", |stats| stats.errors);
        let name = "apiserver_admission_match_condition_exclusions_total";
        counter(name, "Requests that match conditions excluded.", |stats| stats.exclusions);
        let name = "apiserver_admission_match_condition_evaluation_seconds";
        if !all.is_empty() {
            out.family(name, Kind::Histogram, "Durations of the evaluation of match conditions.");
        }
        for (key, stats) in all.iter() {
            let labels = labels(key);
            let labels = labels.each_ref().map(|(name, text)| (*name, text.as_str()));
            out.histogram(name, &labels, &stats.durations);
        }
    }
}

fn step_labels(step: Step, operation: Operation, rejected: bool) -> [(&'static str, &'static str); 3] {
    let rejected = if rejected { "true" } else { "false" };
    [("operation", operation.name()), ("rejected", rejected), ("type", step.label())]
}

/// A clock whose readings divide time into laps: one reading ends a plugin and begins the next.
pub(super) struct Laps(Instant);

impl Laps {
    pub(super) fn start() -> Laps {
        Laps(Instant::now())
    }

    /// The time since the last lap.
    pub(super) fn lap(&mut self) -> Duration {
        let last = std::mem::replace(&mut self.0, Instant::now());
        self.0.saturating_duration_since(last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_plugins_and_conditions_have_upstreams_labels() {
        let metrics = Metrics::new(&[]);
        let text = |metrics: &Metrics| {
            let mut out = Exposition::default();
            metrics.render(&mut out);
            out.finish()
        };
        assert_eq!(text(&metrics), "", "nothing is counted yet");
        metrics.step(Step::Validate, Operation::Connect, true, Instant::now());
        let owner = ConditionOwner { name: &Str::from("w"), kind: "webhook", type_: "admit" };
        let outcome = ConditionOutcome { errors: 2, is_excluded: true, took: Duration::from_millis(7) };
        metrics.conditions(owner, Operation::Update, outcome);
        let text = text(&metrics);
        let (step, conditions) = (
            r#"{operation="CONNECT",rejected="true",type="validate""#,
            r#"{kind="webhook",name="w",operation="UPDATE",type="admit""#,
        );
        for line in [
            format!("apiserver_admission_step_admission_duration_seconds_bucket{step},le=\"2.5\"}} 1"),
            format!("apiserver_admission_step_admission_duration_seconds_summary_count{step}}} 1"),
            format!("apiserver_admission_match_condition_evaluation_errors_total{conditions}}} 2"),
            format!("apiserver_admission_match_condition_exclusions_total{conditions}}} 1"),
            format!(
                "apiserver_admission_match_condition_evaluation_seconds_bucket{conditions},le=\"0.005\"}} 0"
            ),
            format!(
                "apiserver_admission_match_condition_evaluation_seconds_bucket{conditions},le=\"0.01\"}} 1"
            ),
        ] {
            assert!(text.contains(&line), "{line} is missing in\n{text}");
        }
    }

    #[test]
    fn conditions_of_very_many_policies_are_not_all_counted() {
        let metrics = Metrics::new(&[]);
        for number in 0..MOST_CONDITIONS + 10 {
            let owner =
                ConditionOwner { name: &Str::from(number.to_string()), kind: "policy", type_: "validate" };
            metrics.conditions(owner, Operation::Create, ConditionOutcome::default());
        }
        assert_eq!(metrics.conditions.lock().len(), MOST_CONDITIONS);
    }
}
