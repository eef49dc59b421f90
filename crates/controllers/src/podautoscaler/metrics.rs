//! Metrics from the three metrics APIs: resource, custom and external.

use std::collections::BTreeMap;
use std::time::Duration;

use corten_api::quantity::Quantity;
use corten_api::{Str, Value, meta, time};
use jiff::{SignedDuration, Timestamp};

use super::responses::{Missing, Responses, query};
use super::target;
use crate::resources;

/// The default window of custom metrics.
const WINDOW: Duration = Duration::from_secs(60);
const RESOURCE: &str = "/apis/metrics.k8s.io/v1beta1";
const CUSTOM: &str = "custom.metrics.k8s.io";
const EXTERNAL: &str = "/apis/external.metrics.k8s.io/v1beta1";

/// The sample of one pod, in thousandths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Sample {
    pub(super) value: i64,
    pub(super) at: Timestamp,
    pub(super) window: Duration,
}

/// Samples by pod name.
pub(super) type Samples = BTreeMap<Str, Sample>;

/// A quantity in thousandths.
pub(super) fn milli(quantity: Option<&Value>) -> Option<i64> {
    match quantity? {
        Value::String(text) => Quantity::parse(text).ok().map(|quantity| quantity.milli_value()),
        Value::Int(number) => Some(number.saturating_mul(1000)),
        _ => None,
    }
}

fn taken_at(item: &Value) -> Timestamp {
    item.str_at(&["timestamp"]).and_then(|text| time::parse(text).ok()).unwrap_or(Timestamp::MIN)
}

/// The usage of a resource by each pod, or by one container of it.
pub(super) fn of_resource(
    answers: &Responses,
    namespace: &str,
    selector: &str,
    resource: &str,
    container: &str,
) -> Result<Samples, Missing> {
    let path = format!("{RESOURCE}/namespaces/{namespace}/pods{}", query("labelSelector", selector, '?'));
    let list = answers.read(&path, "get pods.metrics.k8s.io").map_err(|lack| {
        lack.within(|why| format!("unable to fetch metrics from resource metrics API: {why}"))
    })?;
    let items = list.items_at(&["items"]);
    if items.is_empty() {
        return Err(Missing::Failed("no metrics returned from resource metrics API".to_owned()));
    }
    let sample = |item: &Value| {
        let window = item.str_at(&["window"]).and_then(|text| text.parse::<SignedDuration>().ok());
        let window = window.and_then(|window| window.try_into().ok()).unwrap_or_default();
        let value = usage(item, resource, container)?;
        Some((Str::new(meta::name(item)), Sample { value, at: taken_at(item), window }))
    };
    Ok(items.iter().filter_map(sample).collect())
}

/// The usage of a resource by a pod; `None` unless it is known for every container.
fn usage(item: &Value, resource: &str, container: &str) -> Option<i64> {
    let containers = item.items_at(&["containers"]);
    let of = |one: &Value| milli(one.at(&["usage", resource]));
    if container.is_empty() {
        let all: Option<Vec<i64>> = containers.iter().map(of).collect();
        return all.filter(|all| !all.is_empty()).map(|all| all.iter().sum());
    }
    containers.iter().find(|one| one.str_at(&["name"]) == Some(container)).and_then(of)
}

/// The served version of the custom metrics API.
fn custom(answers: &Responses) -> Result<String, Missing> {
    let versions = target::versions(CUSTOM, answers)?;
    let newest = ["v1beta2", "v1beta1"].map(|version| format!("{CUSTOM}/{version}"));
    let found = newest.into_iter().find(|version| versions.contains(version));
    found.ok_or_else(|| Missing::Failed(format!("no custom metrics API ({CUSTOM}) registered")))
}

fn custom_failed(lack: Missing) -> Missing {
    lack.within(|why| format!("unable to fetch metrics from custom metrics API: {why}"))
}

/// A metric of each of the selected pods.
pub(super) fn of_pods(
    answers: &Responses,
    namespace: &str,
    selector: &str,
    metric: &str,
    metric_selector: &str,
) -> Result<Samples, Missing> {
    let read = || {
        let root = resources::list_path(&custom(answers)?);
        let pods = query("labelSelector", selector, '?');
        let separator = if pods.is_empty() { '?' } else { '&' };
        let labels = query("metricLabelSelector", metric_selector, separator);
        let path = format!("{root}/namespaces/{namespace}/pods/*/{metric}{pods}{labels}");
        answers.read(&path, &format!("get pods.{CUSTOM}"))
    };
    let list = read().map_err(custom_failed)?;
    let items = list.items_at(&["items"]);
    if items.is_empty() {
        return Err(Missing::Failed("no metrics returned from custom metrics API".to_owned()));
    }
    let sample = |item: &Value| {
        let window = item.int_at(&["windowSeconds"]).and_then(|seconds| u64::try_from(seconds).ok());
        let window = window.map_or(WINDOW, Duration::from_secs);
        let name = item.str_at(&["describedObject", "name"])?;
        Some((Str::new(name), Sample { value: milli(item.get("value"))?, at: taken_at(item), window }))
    };
    Ok(items.iter().filter_map(sample).collect())
}

/// A metric of one object, in thousandths. Of namespaces, only the autoscaler's own.
pub(super) fn of_object(
    answers: &Responses,
    namespace: &str,
    object: &Value,
    metric: &str,
    metric_selector: &str,
) -> Result<i64, Missing> {
    let text = |key: &str| object.str_at(&[key]).unwrap_or_default();
    let labels = query("metricLabelSelector", metric_selector, '?');
    let read = || {
        let root = resources::list_path(&custom(answers)?);
        let (api_version, kind) = (text("apiVersion"), text("kind"));
        let place = if kind == "Namespace" && resources::group(api_version).is_empty() {
            "metrics".to_owned()
        } else {
            let (version, plural) = target::served(api_version, kind, answers)?;
            format!("{}/{}", resources::qualified(&plural, resources::group(&version)), text("name"))
        };
        let path = format!("{root}/namespaces/{namespace}/{place}/{metric}{labels}");
        match answers.read(&path, &format!("get {place}.{CUSTOM}"))?.items_at(&["items"]) {
            [one] => Ok(milli(one.get("value")).unwrap_or(0)),
            several => Err(Missing::Failed(format!(
                "the custom metrics API server returned {} results when we asked for exactly one",
                several.len()
            ))),
        }
    };
    read().map_err(custom_failed)
}

/// The values of an external metric, in thousandths.
pub(super) fn external(
    answers: &Responses,
    namespace: &str,
    metric: &str,
    metric_selector: &str,
) -> Result<Vec<i64>, Missing> {
    let labels = query("labelSelector", metric_selector, '?');
    let path = format!("{EXTERNAL}/namespaces/{namespace}/{metric}{labels}");
    let list = answers.read(&path, &format!("get {metric}.external.metrics.k8s.io")).map_err(|lack| {
        lack.within(|why| format!("unable to fetch metrics from external metrics API: {why}"))
    })?;
    match list.items_at(&["items"]) {
        [] => Err(Missing::Failed("no metrics returned from external metrics API".to_owned())),
        items => Ok(items.iter().map(|item| milli(item.get("value")).unwrap_or(0)).collect()),
    }
}
