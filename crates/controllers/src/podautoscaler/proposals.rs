//! The proposal of each metric of an autoscaler, or the error.

use corten_api::quantity::{Format, Quantity};
use corten_api::selector::LabelSelector;
use corten_api::{Value, meta, value};

use super::metrics;
use super::replicas::Situation;
use super::responses::{Missing, Responses};
use crate::selectors;

/// The number of replicas that a metric proposes.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Proposal {
    pub(super) replicas: i64,
    /// The name of the metric in messages.
    pub(super) metric: String,
    /// The current value of the metric, for the status.
    pub(super) status: Value,
}

/// The reason why a metric proposes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Failure {
    /// This path has to be read first.
    Unasked(String),
    Failed {
        reason: &'static str,
        /// The message of conditions and events.
        why: String,
        /// The same, with the failed operation.
        whole: String,
    },
}

/// The source of metrics.
pub(super) struct Source<'a> {
    pub(super) hpa: &'a Value,
    pub(super) answers: &'a Responses,
    /// The selector of the target's pods.
    pub(super) selector: &'a LabelSelector,
    pub(super) situation: &'a Situation<'a>,
}

/// A metric source: its field in the spec, and the wording of its failures.
struct Kind<'a> {
    reason: &'static str,
    tried: String,
    spec: &'a Value,
}

impl Kind<'_> {
    fn failed(&self, lack: Missing) -> Failure {
        self.failed_at(lack, "")
    }

    /// A failure with the failed step in its message.
    fn failed_at(&self, lack: Missing, step: &str) -> Failure {
        match lack {
            Missing::Unasked(path) => Failure::Unasked(path),
            Missing::Failed(why) => {
                let whole = format!("{}: {step}{why}", self.tried);
                Failure::Failed { reason: self.reason, why, whole }
            }
        }
    }

    fn target(&self, key: &str) -> Option<i64> {
        metrics::milli(self.spec.at(&["target", key]))
    }

    fn metric(&self) -> &str {
        self.spec.str_at(&["metric", "name"]).unwrap_or_default()
    }

    fn metric_selector(&self) -> Option<&Value> {
        self.spec.at(&["metric", "selector"])
    }

    /// The selector of the metric, as a query parameter.
    fn metric_labels(&self) -> Result<String, Failure> {
        let selector = LabelSelector::from_object(self.metric_selector());
        selector
            .map(|selector| selector.to_string())
            .map_err(|error| self.failed(Missing::Failed(error.to_string())))
    }

    /// The identity of a metric in a status.
    fn identity(&self) -> Value {
        let mut identity = value!({"name": (self.metric())});
        if let Some(selector) = self.metric_selector() {
            identity.set(&["selector"], selector.clone());
        }
        identity
    }
}

fn quantity(milli: i64, format: Format) -> Value {
    Value::from(Quantity::from_milli(milli, format).to_str())
}

fn decimal(milli: i64) -> Value {
    quantity(milli, Format::DecimalSi)
}

impl Source<'_> {
    /// The proposal of a metric.
    pub(super) fn propose(&self, metric: &Value) -> Result<Proposal, Failure> {
        let spec = |key: &str| metric.get(key).unwrap_or(&Value::Null);
        let kind = |reason, tried: String, key: &str| Kind {
            reason,
            tried,
            spec: metric.get(key).unwrap_or(&Value::Null),
        };
        match metric.str_at(&["type"]).unwrap_or_default() {
            "Resource" => {
                let name = spec("resource").str_at(&["name"]).unwrap_or_default();
                let tried = format!("failed to get {name} resource metric value");
                self.by_resource(&kind("FailedGetResourceMetric", tried, "resource"), "")
            }
            "ContainerResource" => {
                let container = spec("containerResource").str_at(&["container"]).unwrap_or_default();
                let tried = format!("failed to get {container} container metric value");
                self.by_resource(
                    &kind("FailedGetContainerResourceMetric", tried, "containerResource"),
                    container,
                )
            }
            "Pods" => self.by_pods(&kind(
                "FailedGetPodsMetric",
                "failed to get pods metric value".to_owned(),
                "pods",
            )),
            "Object" => self.by_object(&kind(
                "FailedGetObjectMetric",
                "failed to get object metric value".to_owned(),
                "object",
            )),
            "External" => {
                let name = spec("external").str_at(&["metric", "name"]).unwrap_or_default();
                let tried = format!("failed to get {name} external metric value");
                self.by_external(&kind("FailedGetExternalMetric", tried, "external"))
            }
            other => {
                let why = format!("unknown metric source type {other:?}");
                Err(Failure::Failed { reason: "InvalidMetricSourceType", whole: why.clone(), why })
            }
        }
    }

    fn namespace(&self) -> &str {
        meta::namespace(self.hpa)
    }

    fn by_resource(&self, kind: &Kind, container: &str) -> Result<Proposal, Failure> {
        let resource = kind.spec.str_at(&["name"]).unwrap_or_default();
        let format = if resource == "memory" { Format::BinarySi } else { Format::DecimalSi };
        let samples = || {
            let selector = self.selector.to_string();
            metrics::of_resource(self.answers, self.namespace(), &selector, resource, container).map_err(
                |lack| lack.within(|why| format!("unable to get metrics for resource {resource}: {why}")),
            )
        };
        let (replicas, metric, current) = if let Some(target) = kind.target("averageValue") {
            let (replicas, average) = samples()
                .and_then(|samples| {
                    self.situation.by_average(samples, resource, target).map_err(Missing::Failed)
                })
                .map_err(|lack| {
                    kind.failed(lack.within(|why| format!("failed to get {resource} usage: {why}")))
                })?;
            (replicas, format!("{resource} resource"), value!({"averageValue": (quantity(average, format))}))
        } else if let Some(target) = kind.spec.int_at(&["target", "averageUtilization"]) {
            let (replicas, utilization, average) = samples()
                .and_then(|samples| {
                    self.situation
                        .by_utilization(samples, resource, container, target)
                        .map_err(Missing::Failed)
                })
                .map_err(|lack| {
                    kind.failed(lack.within(|why| format!("failed to get {resource} utilization: {why}")))
                })?;
            let of = if container.is_empty() { "resource" } else { "container resource" };
            let metric = format!("{resource} {of} utilization (percentage of request)");
            let current =
                value!({"averageUtilization": (utilization), "averageValue": (quantity(average, format))});
            (replicas, metric, current)
        } else {
            let why = "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set";
            return Err(kind.failed(Missing::Failed(why.to_owned())));
        };
        let status = if container.is_empty() {
            value!({"type": "Resource", "resource": {"name": (resource), "current": (current)}})
        } else {
            value!({"type": "ContainerResource", "containerResource": {"name": (resource), "container": (container), "current": (current)}})
        };
        Ok(Proposal { replicas, metric, status })
    }

    fn by_pods(&self, kind: &Kind) -> Result<Proposal, Failure> {
        let (metric, labels) = (kind.metric(), kind.metric_labels()?);
        let target = kind.target("averageValue").unwrap_or(0);
        let (replicas, average) =
            metrics::of_pods(self.answers, self.namespace(), &self.selector.to_string(), metric, &labels)
                .map_err(|lack| lack.within(|why| format!("unable to get metric {metric}: {why}")))
                .and_then(|samples| self.situation.by_average(samples, "", target).map_err(Missing::Failed))
                .map_err(|lack| kind.failed(lack))?;
        let current = value!({"averageValue": (decimal(average))});
        let status = value!({"type": "Pods", "pods": {"metric": (kind.identity()), "current": (current)}});
        Ok(Proposal { replicas, metric: format!("pods metric {metric}"), status })
    }

    fn by_object(&self, kind: &Kind) -> Result<Proposal, Failure> {
        let (metric, labels) = (kind.metric(), kind.metric_labels()?);
        let object = kind.spec.get("describedObject").unwrap_or(&Value::Null);
        let text = |key: &str| object.str_at(&[key]).unwrap_or_default();
        let (namespace, of_kind, name) = (self.namespace(), text("kind"), text("name"));
        let measured = || {
            metrics::of_object(self.answers, namespace, object, metric, &labels).map_err(|lack| {
                lack.within(|why| {
                    format!("unable to get metric {metric} on {of_kind} {namespace}/{name}: {why}")
                })
            })
        };
        let target_type = kind.spec.str_at(&["target", "type"]).unwrap_or_default();
        let (replicas, called, current) = match (
            target_type,
            kind.target("value"),
            kind.target("averageValue"),
        ) {
            ("Value", Some(target), _) => {
                let now = measured().map_err(|lack| kind.failed(lack))?;
                let replicas =
                    self.situation.by_value(now, target).map_err(|why| kind.failed(Missing::Failed(why)))?;
                (replicas, format!("{of_kind} metric {metric}"), value!({"value": (decimal(now))}))
            }
            ("AverageValue", _, Some(target)) => {
                let step = format!("failed to get {metric} object metric: ");
                let now = measured().map_err(|lack| kind.failed_at(lack, &step))?;
                let (replicas, share) = self.situation.by_share(now, target);
                (replicas, external_name(kind), value!({"averageValue": (decimal(share))}))
            }
            _ => {
                let why = "invalid object metric source: neither a value target nor an average value target was set";
                return Err(kind.failed(Missing::Failed(why.to_owned())));
            }
        };
        let status = value!({
            "type": "Object",
            "object": {"describedObject": (object.clone()), "metric": (kind.identity()), "current": (current)},
        });
        Ok(Proposal { replicas, metric: called, status })
    }

    fn by_external(&self, kind: &Kind) -> Result<Proposal, Failure> {
        let metric = kind.metric();
        let labels = kind.metric_labels()?;
        let namespace = self.namespace();
        let measured = || {
            let values = metrics::external(self.answers, namespace, metric, &labels).map_err(|lack| {
                let selector = selectors::spelled(kind.metric_selector());
                lack.within(|why| {
                    format!("unable to get external metric {namespace}/{metric}/{selector}: {why}")
                })
            })?;
            Ok(values.into_iter().fold(0i64, i64::saturating_add))
        };
        let (replicas, current) = if let Some(target) = kind.target("averageValue") {
            let step = format!("failed to get {metric} external metric: ");
            let total = measured().map_err(|lack| kind.failed_at(lack, &step))?;
            let (replicas, share) = self.situation.by_share(total, target);
            (replicas, value!({"averageValue": (decimal(share))}))
        } else if let Some(target) = kind.target("value") {
            let step = format!("failed to get external metric {metric}: ");
            let total = measured().map_err(|lack| kind.failed_at(lack, &step))?;
            let replicas = self.situation.by_value(total, target);
            let replicas = replicas.map_err(|why| kind.failed_at(Missing::Failed(why), &step))?;
            (replicas, value!({"value": (decimal(total))}))
        } else {
            let why =
                "invalid external metric source: neither a value target nor an average value target was set";
            return Err(kind.failed(Missing::Failed(why.to_owned())));
        };
        let status =
            value!({"type": "External", "external": {"metric": (kind.identity()), "current": (current)}});
        Ok(Proposal { replicas, metric: external_name(kind), status })
    }
}

fn external_name(kind: &Kind) -> String {
    format!("external metric {}({})", kind.metric(), selectors::spelled(kind.metric_selector()))
}
