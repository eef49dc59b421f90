//! The pressure conditions of the node, from the present and earlier observations. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use corten_api::quantity::{Format, Quantity};
use jiff::Timestamp;

use super::thresholds::{Signal, Threshold};

/// A pressure condition of the node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Condition {
    Memory,
    Disk,
    Pid,
}

impl Condition {
    pub(crate) const ALL: [Condition; 3] = [Condition::Memory, Condition::Disk, Condition::Pid];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Condition::Memory => "MemoryPressure",
            Condition::Disk => "DiskPressure",
            Condition::Pid => "PIDPressure",
        }
    }

    /// The reason and the message of the node's condition.
    pub(crate) fn reason_and_message(self, holds: bool) -> (&'static str, &'static str) {
        match (self, holds) {
            (Condition::Memory, true) => {
                ("KubeletHasInsufficientMemory", "kubelet has insufficient memory available")
            }
            (Condition::Memory, false) => {
                ("KubeletHasSufficientMemory", "kubelet has sufficient memory available")
            }
            (Condition::Disk, true) => ("KubeletHasDiskPressure", "kubelet has disk pressure"),
            (Condition::Disk, false) => ("KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
            (Condition::Pid, true) => ("KubeletHasInsufficientPID", "kubelet has insufficient PID available"),
            (Condition::Pid, false) => ("KubeletHasSufficientPID", "kubelet has sufficient PID available"),
        }
    }

    pub(crate) fn event(self, holds: bool) -> &'static str {
        match (self, holds) {
            (Condition::Memory, true) => "NodeHasInsufficientMemory",
            (Condition::Memory, false) => "NodeHasSufficientMemory",
            (Condition::Disk, true) => "NodeHasDiskPressure",
            (Condition::Disk, false) => "NodeHasNoDiskPressure",
            (Condition::Pid, true) => "NodeHasInsufficientPID",
            (Condition::Pid, false) => "NodeHasSufficientPID",
        }
    }

    fn of(signal: Signal) -> Condition {
        match signal {
            Signal::MemoryAvailable | Signal::AllocatableMemoryAvailable => Condition::Memory,
            Signal::PidAvailable => Condition::Pid,
            _ => Condition::Disk,
        }
    }
}

/// The capacity of a resource, and what of it is available.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Observation {
    pub(super) available: i64,
    pub(super) capacity: i64,
    pub(super) at: Timestamp,
}

pub(super) type Observations = BTreeMap<Signal, Observation>;

/// The quantity format of a signal.
pub(super) fn format(signal: Signal) -> Format {
    match signal.resource() {
        "memory" | "ephemeral-storage" => Format::BinarySi,
        _ => Format::DecimalSi,
    }
}

/// The state of the thresholds between observations.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    /// The conditions that are reported now.
    pub(super) conditions: Vec<Condition>,
    conditions_seen: BTreeMap<Condition, Timestamp>,
    /// The time since which each threshold is met.
    first_met: Vec<(Threshold, Timestamp)>,
    /// The thresholds that have been met for their grace period and are not resolved.
    acute: Vec<Threshold>,
    seen: BTreeMap<Signal, Timestamp>,
}

impl Pressure {
    /// Takes over new observations. Returns the thresholds for which pods have to be evicted.
    pub(super) fn take(
        &mut self,
        thresholds: &[Threshold],
        observations: &Observations,
        transition: Duration,
        now: Timestamp,
    ) -> Vec<Threshold> {
        let mut met = met(thresholds, observations, false);
        // A threshold that was met stays met until its minimum reclaim is available again.
        for threshold in self::met(&self.acute, observations, true) {
            if !met.contains(&threshold) {
                met.push(threshold);
            }
        }
        let since = |threshold: &Threshold| {
            let before = self.first_met.iter().find(|(known, _)| known == threshold);
            before.map_or(now, |(_, since)| *since)
        };
        self.first_met = met.iter().map(|threshold| (*threshold, since(threshold))).collect();
        for threshold in &met {
            self.conditions_seen.insert(Condition::of(threshold.signal), now);
        }
        let lately =
            self.conditions_seen.iter().filter(|(_, seen)| passed(**seen, now) < transition || **seen == now);
        self.conditions = lately.map(|(condition, _)| *condition).collect();
        let long = self.first_met.iter().filter(|(threshold, since)| passed(*since, now) >= threshold.grace);
        self.acute = long.map(|(threshold, _)| *threshold).collect();
        let fresh = |threshold: &&Threshold| {
            let seen = observations.get(&threshold.signal).map(|observation| observation.at);
            seen > self.seen.get(&threshold.signal).copied()
        };
        let acute = self.acute.iter().filter(fresh).copied().collect();
        self.seen = observations.iter().map(|(signal, observation)| (*signal, observation.at)).collect();
        acute
    }
}

fn passed(since: Timestamp, now: Timestamp) -> Duration {
    Duration::try_from(now.duration_since(since)).unwrap_or_default()
}

/// The thresholds that are met; with `rest`, those whose minimum reclaim is not available either.
pub(super) fn met(thresholds: &[Threshold], observations: &Observations, rest: bool) -> Vec<Threshold> {
    let is_met = |threshold: &&Threshold| {
        let Some(seen) = observations.get(&threshold.signal) else { return false };
        let format = format(threshold.signal);
        let mut least = threshold.least.of(seen.capacity, format);
        if let Some(more) = threshold.reclaim.filter(|_| rest) {
            least.add(more.of(seen.capacity, format));
        }
        least > Quantity::new(seen.available, format)
    };
    thresholds.iter().filter(is_met).copied().collect()
}

/// The threshold to act on first: memory before everything else.
pub(super) fn most_urgent(thresholds: &[Threshold]) -> Option<&Threshold> {
    thresholds.iter().min_by_key(|threshold| Condition::of(threshold.signal) != Condition::Memory)
}
