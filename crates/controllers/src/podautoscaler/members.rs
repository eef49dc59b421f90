//! The pods of a target: their groups for metrics, and their requests.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value, time};
use corten_client::Object;
use jiff::{SignedDuration, Timestamp};

use super::HorizontalPodAutoscalerOptions;
use super::metrics::{Samples, milli};
use crate::conditions;

/// A pod of a target.
#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: Str,
    deleting: bool,
    tree: Value,
}

/// The pods of a target, by the state of their metrics.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Groups {
    pub(super) ready: usize,
    /// Pending, or with metrics that are not meaningful yet.
    pub(super) unready: Vec<Str>,
    pub(super) missing: Vec<Str>,
    /// Terminating or failed.
    pub(super) ignored: Vec<Str>,
}

impl From<&Arc<Object>> for Member {
    fn from(pod: &Arc<Object>) -> Member {
        Member { name: pod.key.name.clone(), deleting: pod.deleting, tree: pod.tree() }
    }
}

impl Member {
    fn phase(&self) -> &str {
        self.tree.str_at(&["status", "phase"]).unwrap_or_default()
    }

    pub(super) fn is_running_and_ready(&self) -> bool {
        self.phase() == "Running" && conditions::is_true(&self.tree, "Ready")
    }

    /// True if its CPU usage is not meaningful: while it starts, and if it has never been ready.
    fn is_starting(
        &self,
        samples: &Samples,
        options: &HorizontalPodAutoscalerOptions,
        now: Timestamp,
    ) -> bool {
        let at = |value: Option<&str>| value.and_then(|text| time::parse(text).ok());
        let started = at(self.tree.str_at(&["status", "startTime"]));
        let (Some(ready), Some(started)) = (conditions::condition(&self.tree, "Ready"), started) else {
            return true;
        };
        let is_unready = ready.str_at(&["status"]) == Some("False");
        let since = at(ready.str_at(&["lastTransitionTime"])).unwrap_or(Timestamp::MIN);
        if later(started, options.cpu_initialization_period) > now {
            let sample = samples.get(&self.name);
            return is_unready || sample.is_none_or(|sample| sample.at < later(since, sample.window));
        }
        is_unready && later(started, options.initial_readiness_delay) > since
    }

    /// Its request of a resource in thousandths: of the whole pod, or of one container.
    pub(super) fn request(&self, resource: &str, container: &str) -> Result<i64, String> {
        let pod = &self.name;
        if container.is_empty() && self.has_own_requests() {
            let missing = || format!("missing pod-level request for {resource} in Pod {pod}");
            return self.pod_request(resource).ok_or_else(missing);
        }
        let mut sum = 0;
        for one in self.containers() {
            let name = one.str_at(&["name"]).unwrap_or_default();
            if container.is_empty() || container == name {
                let missing = || format!("missing request for {resource} in container {name} of Pod {pod}");
                sum += requested(one, resource).ok_or_else(missing)?;
            }
            if container == name {
                return Ok(sum);
            }
        }
        match container {
            "" => Ok(sum),
            container => Err(format!("container {container} not found in Pod {pod}")),
        }
    }

    /// Containers that run for the whole life of the pod.
    fn containers(&self) -> impl Iterator<Item = &Value> {
        let sidecars = self.tree.items_at(&["spec", "initContainers"]).iter();
        let sidecars = sidecars.filter(|one| one.str_at(&["restartPolicy"]) == Some("Always"));
        self.tree.items_at(&["spec", "containers"]).iter().chain(sidecars)
    }

    fn has_own_requests(&self) -> bool {
        let requests = self.tree.at(&["spec", "resources", "requests"]).and_then(Value::as_object);
        let counts = |name: &Str| matches!(name.as_str(), "cpu" | "memory") || name.starts_with("hugepages-");
        requests.is_some_and(|requests| requests.keys().any(counts))
    }

    /// The request of the pod as a whole, if it or one of its containers has one.
    fn pod_request(&self, resource: &str) -> Option<i64> {
        let own = milli(self.tree.at(&["spec", "resources", "requests", resource]));
        let own =
            own.or_else(|| self.containers().filter_map(|one| requested(one, resource)).reduce(|a, b| a + b));
        let overhead = milli(self.tree.at(&["spec", "overhead", resource]));
        own.map(|own| own + overhead.unwrap_or(0))
    }
}

fn requested(container: &Value, resource: &str) -> Option<i64> {
    milli(container.at(&["resources", "requests", resource]))
}

fn later(at: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    at.checked_add(by).unwrap_or(Timestamp::MAX)
}

/// Groups the pods of a target by their metrics.
pub(super) fn group(
    members: &[Member],
    samples: &Samples,
    resource: &str,
    options: &HorizontalPodAutoscalerOptions,
    now: Timestamp,
) -> Groups {
    let mut groups = Groups::default();
    for member in members {
        let name = member.name.clone();
        if member.deleting || member.phase() == "Failed" {
            groups.ignored.push(name);
        } else if member.phase() == "Pending" {
            groups.unready.push(name);
        } else if !samples.contains_key(&name) {
            groups.missing.push(name);
        } else if resource == "cpu" && member.is_starting(samples, options, now) {
            groups.unready.push(name);
        } else {
            groups.ready += 1;
        }
    }
    groups
}
