//! The number of replicas that a metric proposes.
//!
//! Pods without samples count against a change: as idle when scaling up, as fully used when scaling down.

use std::collections::BTreeMap;
use std::time::Duration;

use corten_api::Str;
use jiff::Timestamp;

use super::HorizontalPodAutoscalerOptions;
use super::members::{self, Member};
use super::metrics::{Sample, Samples};

/// The tolerated deviation of a metric from its target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Tolerance {
    pub(super) down: f64,
    pub(super) up: f64,
}

impl Tolerance {
    fn covers(self, ratio: f64) -> bool {
        1.0 - self.down <= ratio && ratio <= 1.0 + self.up
    }
}

/// The input of metric calculations.
pub(super) struct Situation<'a> {
    pub(super) members: &'a [Member],
    /// The desired and the current number of replicas.
    pub(super) wanted: i64,
    pub(super) there: i64,
    pub(super) tolerance: Tolerance,
    pub(super) options: &'a HorizontalPodAutoscalerOptions,
    pub(super) now: Timestamp,
}

const NO_PODS: &str = "no pods returned by selector while calculating replica count";

/// The requests of pods by name, in thousandths.
type Requests = BTreeMap<Str, i64>;

/// A number of replicas, within the range of the API.
fn whole(replicas: f64) -> i64 {
    replicas.ceil().min(f64::from(i32::MAX)) as i64
}

impl Situation<'_> {
    /// Replicas for a utilization of the requests in percent; also the current utilization and average usage.
    pub(super) fn by_utilization(
        &self,
        samples: Samples,
        resource: &str,
        container: &str,
        target: i64,
    ) -> Result<(i64, i64, i64), String> {
        let (replicas, (utilization, average)) = self.by_samples(
            samples,
            resource,
            |members| {
                let request = |one: &Member| Ok((one.name.clone(), one.request(resource, container)?));
                members.iter().map(request).collect::<Result<Requests, String>>()
            },
            |requests, samples| {
                utilization(samples, requests).map(|(now, average)| (ratio(now, target), (now, average)))
            },
            |requests, name| requests.get(name).unwrap_or(&0) * target.max(100) / 100,
        )?;
        Ok((replicas, utilization, average))
    }

    /// Replicas for an average per pod; also the current average.
    pub(super) fn by_average(
        &self,
        samples: Samples,
        resource: &str,
        target: i64,
    ) -> Result<(i64, i64), String> {
        self.by_samples(
            samples,
            resource,
            |_| Ok(()),
            |(), samples| {
                let total: i64 = samples.values().map(|sample| sample.value).sum();
                let average = total / samples.len() as i64;
                Ok((ratio(average, target), average))
            },
            |(), _| target,
        )
    }

    /// Replicas for samples of pods. The needed data of pods is gathered once, then evaluated with the samples: as they
    /// are, and with assumed values for pods without samples.
    fn by_samples<G, T>(
        &self,
        mut samples: Samples,
        resource: &str,
        gather: impl FnOnce(&[Member]) -> Result<G, String>,
        measure: impl Fn(&G, &Samples) -> Result<(f64, T), String>,
        busy: impl Fn(&G, &Str) -> i64,
    ) -> Result<(i64, T), String> {
        if self.members.is_empty() {
            return Err(NO_PODS.to_owned());
        }
        let groups = members::group(self.members, &samples, resource, self.options, self.now);
        samples.retain(|name, _| !groups.ignored.contains(name) && !groups.unready.contains(name));
        if samples.is_empty() {
            return Err("did not receive metrics for targeted pods (pods might be unready)".to_owned());
        }
        let gathered = gather(self.members)?;
        let (ratio, reported) = measure(&gathered, &samples)?;
        let grows_unready = !groups.unready.is_empty() && ratio > 1.0;
        if !grows_unready && groups.missing.is_empty() {
            let replicas =
                if self.tolerance.covers(ratio) { self.wanted } else { whole(ratio * groups.ready as f64) };
            return Ok((replicas, reported));
        }
        let guess = |value| Sample { value, at: self.now, window: Duration::ZERO };
        for name in &groups.missing {
            if ratio < 1.0 {
                samples.insert(name.clone(), guess(busy(&gathered, name)));
            } else if ratio > 1.0 {
                samples.insert(name.clone(), guess(0));
            }
        }
        if grows_unready {
            samples.extend(groups.unready.iter().map(|name| (name.clone(), guess(0))));
        }
        let (guessed, _) = measure(&gathered, &samples)?;
        let turns = (ratio < 1.0 && guessed > 1.0) || (ratio > 1.0 && guessed < 1.0);
        if self.tolerance.covers(guessed) || turns {
            return Ok((self.wanted, reported));
        }
        let replicas = whole(guessed * samples.len() as f64);
        let turns = (guessed < 1.0 && replicas > self.wanted) || (guessed > 1.0 && replicas < self.wanted);
        Ok((if turns { self.wanted } else { replicas }, reported))
    }

    /// Replicas for a value that all pods cause together.
    pub(super) fn by_value(&self, value: i64, target: i64) -> Result<i64, String> {
        let ratio = ratio(value, target);
        if self.wanted == 0 {
            return Ok(whole(ratio));
        }
        if self.tolerance.covers(ratio) {
            return Ok(self.wanted);
        }
        if self.members.is_empty() {
            return Err(format!("unable to calculate ready pods: {NO_PODS}"));
        }
        let ready = self.members.iter().filter(|member| member.is_running_and_ready()).count();
        Ok(whole(ratio * ready as f64))
    }

    /// Replicas for a value that is divided among all pods; also the current share of each.
    pub(super) fn by_share(&self, value: i64, target: i64) -> (i64, i64) {
        let ratio = value as f64 / (target as f64 * self.there as f64);
        let replicas =
            if self.tolerance.covers(ratio) { self.there } else { whole(value as f64 / target as f64) };
        let share = if value == i64::MAX { value } else { (value as f64 / self.there as f64).ceil() as i64 };
        (replicas, share)
    }
}

fn ratio(value: i64, target: i64) -> f64 {
    value as f64 / target as f64
}

/// The utilization of the requests in percent, and the average usage.
fn utilization(samples: &Samples, requests: &Requests) -> Result<(i64, i64), String> {
    let (mut used, mut asked, mut count) = (0i64, 0i64, 0i64);
    for (name, request) in requests {
        if let Some(sample) = samples.get(name) {
            used += sample.value;
            asked += request;
            count += 1;
        }
    }
    if asked == 0 {
        return Err("no metrics returned matched known pods".to_owned());
    }
    Ok((used * 100 / asked, used / count))
}
