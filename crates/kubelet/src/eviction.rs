//! Evicts pods before the node runs out of memory, disk or processes.
//!
//! Pressure is decided in `pressure`, the order of eviction in `ranking`, exceeded limits of single pods in `limits`,
//! all pure. This file measures, reclaims node resources, and evicts one pod at a time.

mod limits;
mod measure;
mod message;
mod pressure;
mod ranking;
#[cfg(test)]
mod tests;
mod thresholds;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::admission::Rejection;
use crate::garbage_collection;
use crate::kubelet::Kubelet;
use crate::pod::Pod;
use crate::resources::Qos;
use crate::stats::{self, Detail, PodStats};
use crate::status::Ended;

pub(crate) use pressure::Condition;
pub(crate) use thresholds::{Options, Signal, Threshold, ThresholdError};

use pressure::Pressure;

const REASON: &str = "Evicted";
/// The grace period of a pod that is evicted for a hard threshold or its own limits.
const IMMEDIATE: Duration = Duration::from_secs(1);
/// The longest wait for an evicted pod to terminate before others are evicted.
const TERMINATION_WAIT: Duration = Duration::from_secs(30);
/// From this priority on a pod is never evicted.
const CRITICAL: i64 = 2_000_000_000;

/// Evicts pods while the node is under pressure.
pub(crate) struct EvictionManager {
    pub(crate) options: Options,
    pressure: Mutex<Pressure>,
    counts: Mutex<std::collections::BTreeMap<&'static str, u64>>,
    /// The lack of pods to evict has been logged, and no pod was evicted since.
    is_helpless: AtomicBool,
}

impl EvictionManager {
    pub(crate) fn new(options: Options) -> EvictionManager {
        EvictionManager {
            options,
            pressure: Mutex::default(),
            counts: Mutex::default(),
            is_helpless: AtomicBool::new(false),
        }
    }

    /// The pressure conditions of the node, including those within the transition period.
    pub(crate) fn conditions(&self) -> Vec<Condition> {
        self.pressure.lock().conditions.clone()
    }

    /// The number of evicted pods, by signal.
    pub(crate) fn counts(&self) -> Vec<(&'static str, u64)> {
        self.counts.lock().iter().map(|(signal, count)| (*signal, *count)).collect()
    }

    /// Returns a rejection if a pod must not start on this node under pressure.
    pub(crate) fn admits(&self, pod: &Pod) -> Result<(), Rejection> {
        let conditions = self.conditions();
        if conditions.is_empty() || is_critical(pod) {
            return Ok(());
        }
        if conditions == [Condition::Memory]
            && (Qos::of(pod) != Qos::BestEffort || tolerates_memory_pressure(pod))
        {
            return Ok(());
        }
        Err(Rejection { reason: REASON.to_owned(), message: message::of_conditions(&conditions) })
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

/// A pod to evict, and the reason.
struct Eviction {
    pod: Pod,
    ended: Ended,
    signal: &'static str,
}

/// Checks the thresholds once. Returns true if a pod was evicted, so that the next check follows soon.
pub(crate) async fn synchronize(kubelet: &Arc<Kubelet>) -> bool {
    let options = &kubelet.eviction.options;
    if let Some(verdict) = find_over_limits(kubelet).await {
        return evict(kubelet, verdict).await;
    }
    let observations = measure::measure(kubelet, options).await;
    let now = kubelet.clock.now();
    let (acute, told) = {
        let mut state = kubelet.eviction.pressure.lock();
        let before = state.conditions.clone();
        let acute = state.take(&options.thresholds, &observations, options.transition, now);
        (acute, (before, state.conditions.clone()))
    };
    if told.0 != told.1 {
        kubelet.node.changed.notify_one();
    }
    let Some(threshold) = pressure::most_urgent(&acute) else {
        log_pressure_relieved(kubelet);
        return false;
    };
    let resource = threshold.signal.resource();
    let text = format!("Attempting to reclaim {resource}");
    kubelet.api.record_node_event(true, "EvictionThresholdMet", text);
    if reclaim(kubelet, threshold.signal).await {
        let observations = measure::measure(kubelet, options).await;
        if pressure::met(&options.thresholds, &observations, true).is_empty() {
            tracing::info!(resource, "node resources reclaimed without evicting pods");
            return false;
        }
    }
    let Ok(summary) = stats::summary(kubelet, detail(threshold.signal)).await else { return false };
    let has_dedicated_image_fs = measure::has_dedicated_image_fs(kubelet).await;
    let mut pods = active(kubelet);
    ranking::rank(&mut pods, threshold.signal, has_dedicated_image_fs, &summary.pods);
    let Some(pod) = pods.into_iter().find(|pod| !is_critical(pod)) else {
        log_no_candidate(kubelet, resource);
        return false;
    };
    let stats = summary.pods.iter().find(|stats| stats.pod.uid() == pod.uid());
    let message = message::of_pressure(resource, &pod, stats, &acute, &observations);
    let ended = Ended {
        reason: REASON.to_owned(),
        disrupted: Some(message.clone()),
        message,
        grace: Some(grace(&pod, threshold, options)),
        ..Ended::default()
    };
    evict(kubelet, Eviction { pod, ended, signal: threshold.signal.name() }).await
}

/// Logs once, not with every check, that nothing is left to evict.
fn log_no_candidate(kubelet: &Kubelet, resource: &'static str) {
    if !kubelet.eviction.is_helpless.swap(true, Ordering::Relaxed) {
        tracing::warn!(resource, "eviction threshold met, but no pod can be evicted; retrying until one can");
    }
}

/// Logs the end of what [`log_no_candidate`] logged.
fn log_pressure_relieved(kubelet: &Kubelet) {
    let is_over = kubelet.eviction.conditions().is_empty();
    if is_over && kubelet.eviction.is_helpless.swap(false, Ordering::Relaxed) {
        tracing::info!("eviction thresholds no longer met");
    }
}

/// The statistics that ranking by a signal needs.
fn detail(signal: Signal) -> Detail {
    match signal {
        Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable | Signal::PidAvailable => {
            Detail::CpuAndMemory
        }
        _ => Detail::Everything,
    }
}

/// The grace period of an evicted pod: the shortest for a hard threshold, at most `evictionMaxPodGracePeriod` for a
/// soft one.
fn grace(pod: &Pod, threshold: &Threshold, options: &Options) -> Duration {
    match threshold.grace.is_zero() {
        true => IMMEDIATE,
        false => options.most_grace.min(pod.grace()),
    }
}

/// Reclaims node-level resources. Returns true if that could help against the signal.
async fn reclaim(kubelet: &Arc<Kubelet>, signal: Signal) -> bool {
    let has_dedicated_image_fs = measure::has_dedicated_image_fs(kubelet).await;
    if !signal.is_of_disk() || (has_dedicated_image_fs && signal.is_of_node_fs()) {
        return false;
    }
    garbage_collection::remove_dead_containers(kubelet, true).await;
    garbage_collection::remove_unused_images(kubelet).await;
    true
}

/// The pods that are not in a final phase.
fn active(kubelet: &Kubelet) -> Vec<Pod> {
    kubelet.pod_workers.pods().into_iter().filter(|pod| !kubelet.is_terminal(pod)).collect()
}

/// A pod that exceeds its own limits on disk usage.
async fn find_over_limits(kubelet: &Kubelet) -> Option<Eviction> {
    let limited: Vec<Pod> = active(kubelet).into_iter().filter(limits::has_any).collect();
    if limited.is_empty() {
        return None;
    }
    let all = stats::of_pods(kubelet, &limited).await.ok()?;
    let has_dedicated_image_fs = measure::has_dedicated_image_fs(kubelet).await;
    all.iter().filter(|stats| !is_critical(&stats.pod)).find_map(|stats: &PodStats| {
        let (signal, message) = limits::exceeded(stats, has_dedicated_image_fs)?;
        let ended = Ended { reason: REASON.to_owned(), message, grace: Some(IMMEDIATE), ..Ended::default() };
        Some(Eviction { pod: stats.pod.clone(), ended, signal })
    })
}

/// Evicts a pod and waits for its termination, up to [`TERMINATION_WAIT`].
async fn evict(kubelet: &Kubelet, verdict: Eviction) -> bool {
    let Eviction { pod, ended, signal } = verdict;
    kubelet.api.pod_events(&pod).warning(REASON, ended.message.clone());
    tracing::info!(pod = %pod.key(), signal, reason = ended.message.trim_end(), "evicting pod");
    kubelet.eviction.is_helpless.store(false, Ordering::Relaxed);
    *kubelet.eviction.counts.lock().entry(signal).or_default() += 1;
    kubelet.pod_workers.evict_pod(pod.uid(), ended);
    let gone = async {
        while kubelet.pod_workers.could_have_running_containers(pod.uid()) {
            kubelet.clock.sleep(Duration::from_millis(500)).await;
        }
    };
    kubelet.clock.timeout(TERMINATION_WAIT, gone).await;
    true
}
