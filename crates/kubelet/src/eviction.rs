//! Keeps the node from running out of memory, disk and processes: pods that use too much go before everybody suffers.
//!
//! What is short is decided in `pressure`, who goes first in `ranking`, whose own limits are exceeded in `limits`, all
//! pure. This file looks, lets the node be cleaned up, and ends one pod at a time.

mod limits;
mod message;
mod observe;
mod pressure;
mod ranking;
#[cfg(test)]
mod tests;
mod thresholds;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use crate::admission::Refusal;
use crate::collection;
use crate::machine::Machine;
use crate::node;
use crate::pod::Pod;
use crate::resources::Qos;
use crate::stats::{self, Detail, PodStats};
use crate::status::Ended;

pub(crate) use pressure::Condition;
pub(crate) use thresholds::{Options, Signal, Threshold};

use pressure::Pressure;

const REASON: &str = "Evicted";
/// How long a pod that has to go at once is given.
const AT_ONCE: Duration = Duration::from_secs(1);
/// How long to wait for a pod to be gone before others are looked at.
const GOING: Duration = Duration::from_secs(30);
/// From this priority on a pod is never evicted.
const CRITICAL: i64 = 2_000_000_000;

/// What the node is short of.
#[derive(Default)]
pub(crate) struct Evictions {
    state: Mutex<Pressure>,
    counts: Mutex<std::collections::BTreeMap<&'static str, u64>>,
}

impl Evictions {
    /// What the node is short of now, or was lately.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        self.state.lock().conditions.clone()
    }

    /// How many pods had to go, by what was short.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counts.lock().iter().map(|(signal, count)| (*signal, *count)).collect()
    }

    /// Whether a pod that has not begun may begin here.
    pub(crate) fn admits(&self, pod: &Pod) -> Result<(), Refusal> {
        let conditions = self.conditions();
        if conditions.is_empty() || is_critical(pod) {
            return Ok(());
        }
        if conditions == [Condition::Memory]
            && (Qos::of(pod) != Qos::BestEffort || tolerates_memory_pressure(pod))
        {
            return Ok(());
        }
        Err(Refusal { reason: REASON.to_owned(), message: message::of_conditions(&conditions) })
    }
}

pub(crate) fn is_critical(pod: &Pod) -> bool {
    pod.is_static() || pod.tree().int_at(&["spec", "priority"]).is_some_and(|priority| priority >= CRITICAL)
}

fn tolerates_memory_pressure(pod: &Pod) -> bool {
    let key = "node.kubernetes.io/memory-pressure";
    pod.tree().items_at(&["spec", "tolerations"]).iter().any(|toleration| {
        let text = |field: &str| toleration.str_at(&[field]).unwrap_or_default();
        let exists = text("operator") == "Exists";
        let keyed = text("key") == key || (text("key").is_empty() && exists);
        let valued = exists || text("value").is_empty();
        keyed && valued && matches!(text("effect"), "" | "NoSchedule")
    })
}

/// A pod that has to go, and what it is told.
struct Verdict {
    pod: Pod,
    ended: Ended,
    signal: &'static str,
}

/// Looks once; true if a pod had to go, so that it is worth looking again soon.
pub(crate) async fn look(machine: &Arc<Machine>) -> bool {
    let options = &machine.housekeeping.eviction;
    if let Some(verdict) = over_their_limits(machine).await {
        return evict(machine, verdict).await;
    }
    let observations = observe::observe(machine, options).await;
    let now = machine.clock.now();
    let (acute, told) = {
        let mut state = machine.evictions.state.lock();
        let before = state.conditions.clone();
        let acute = state.take(&options.thresholds, &observations, options.transition, now);
        (acute, (before, state.conditions.clone()))
    };
    if told.0 != told.1 {
        machine.news.notify_one();
    }
    let Some(threshold) = pressure::most_urgent(&acute) else { return false };
    let resource = threshold.signal.resource();
    let text = format!("Attempting to reclaim {resource}");
    node::tell(machine, true, "EvictionThresholdMet", text);
    if reclaim(machine, threshold.signal).await {
        let observations = observe::observe(machine, options).await;
        if pressure::met(&options.thresholds, &observations, true).is_empty() {
            tracing::info!(resource, "enough was cleaned up");
            return false;
        }
    }
    let Ok(summary) = stats::summary(machine, detail(threshold.signal)).await else { return false };
    let images_apart = observe::images_apart(machine).await;
    let mut pods = active(machine);
    ranking::rank(&mut pods, threshold.signal, images_apart, &summary.pods);
    let Some(pod) = pods.into_iter().find(|pod| !is_critical(pod)) else {
        tracing::warn!(resource, "the node is short of something, and no pod can go");
        return false;
    };
    let stats = summary.pods.iter().find(|stats| stats.pod.uid() == pod.uid());
    let message = message::of_shortage(resource, &pod, stats, &acute, &observations);
    let ended = Ended {
        reason: REASON.to_owned(),
        disrupted: Some(message.clone()),
        message,
        grace: Some(grace(&pod, threshold, options)),
        ..Ended::default()
    };
    evict(machine, Verdict { pod, ended, signal: threshold.signal.name() }).await
}

/// How much has to be known of pods to say who uses most.
fn detail(signal: Signal) -> Detail {
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => {
            Detail::CpuAndMemory
        }
        _ => Detail::Everything,
    }
}

/// What is short at once leaves no time; what has been short for a while leaves as much as the node allows.
fn grace(pod: &Pod, threshold: &Threshold, options: &Options) -> Duration {
    match threshold.grace.is_zero() {
        true => AT_ONCE,
        false => options.most_grace.min(pod.grace()),
    }
}

/// Cleans the node up; true if there was anything that could help.
async fn reclaim(machine: &Arc<Machine>, signal: Signal) -> bool {
    let images_apart = observe::images_apart(machine).await;
    if !signal.is_of_disk() || (images_apart && signal.is_of_node_fs()) {
        return false;
    }
    collection::remove_dead_containers(machine, true).await;
    collection::remove_unused_images(machine).await;
    true
}

/// Pods that may still be running.
fn active(machine: &Machine) -> Vec<Pod> {
    machine.pods.all().into_iter().filter(|pod| !machine.has_ended(pod)).collect()
}

/// A pod that has more on disk than it may.
async fn over_their_limits(machine: &Machine) -> Option<Verdict> {
    let limited: Vec<Pod> = active(machine).into_iter().filter(limits::has_any).collect();
    if limited.is_empty() {
        return None;
    }
    let all = stats::of_pods(machine, &limited).await.ok()?;
    let images_apart = observe::images_apart(machine).await;
    all.iter().filter(|stats| !is_critical(&stats.pod)).find_map(|stats: &PodStats| {
        let (signal, message) = limits::exceeded(stats, images_apart)?;
        let ended = Ended { reason: REASON.to_owned(), message, grace: Some(AT_ONCE), ..Ended::default() };
        Some(Verdict { pod: stats.pod.clone(), ended, signal })
    })
}

/// Ends a pod and waits for it to be gone, within reason.
async fn evict(machine: &Machine, verdict: Verdict) -> bool {
    let Verdict { pod, ended, signal } = verdict;
    machine.teller(&pod).warning(REASON, ended.message.clone());
    tracing::info!(pod = %pod.key(), signal, why = ended.message.trim_end(), "evicting a pod");
    *machine.evictions.counts.lock().entry(signal).or_default() += 1;
    machine.pods.end(pod.uid(), ended);
    let gone = async {
        while machine.pods.is_at_work(pod.uid()) {
            machine.clock.sleep(Duration::from_millis(500)).await;
        }
    };
    machine.clock.timeout(GOING, gone).await;
    true
}
