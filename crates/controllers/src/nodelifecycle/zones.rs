//! Zones: their disruption states, and the rate at which their nodes get NoExecute taints. Pure.
//!
//! One fully disrupted zone is a failure of that zone. If all zones are fully disrupted, the failure is probably on the
//! control plane's side, and no node is tainted. A zone appears with its first node and stays; an empty one costs
//! nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use corten_api::Str;
use jiff::Timestamp;

use super::health::after;

/// The rates of NoExecute tainting, as the flags of kube-controller-manager name them.
#[derive(Debug, Clone, PartialEq)]
pub struct EvictionRates {
    /// Nodes per second in a zone without disruption.
    pub node_eviction_rate: f64,
    /// Nodes per second in a large zone with partial disruption.
    pub secondary_node_eviction_rate: f64,
    /// A zone with more nodes is large; in smaller ones, partial disruption suspends tainting.
    pub large_cluster_size_threshold: usize,
    /// The share of nodes that are not ready from which on a zone is partially disrupted.
    pub unhealthy_zone_threshold: f64,
}

impl Default for EvictionRates {
    fn default() -> EvictionRates {
        EvictionRates {
            node_eviction_rate: 0.1,
            secondary_node_eviction_rate: 0.01,
            large_cluster_size_threshold: 50,
            unhealthy_zone_threshold: 0.55,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ZoneState {
    /// No node has been counted yet.
    Initial,
    Normal,
    PartialDisruption,
    FullDisruption,
}

/// The number of ready and not ready nodes of a zone.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct ReadyCounts {
    pub(super) ready: usize,
    pub(super) not_ready: usize,
}

/// A change of the cluster-wide disruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Disruption {
    Unchanged,
    /// All zones became fully disrupted: NoExecute tainting is suspended.
    AllZones,
    /// Some zone is no longer fully disrupted: tainting resumes, and all grace periods start again.
    Recovered,
}

/// Accepts one node per interval.
#[derive(Debug, Clone, PartialEq)]
struct RateLimiter {
    rate: f64,
    next_at: Timestamp,
}

impl RateLimiter {
    fn try_accept(&mut self, now: Timestamp) -> bool {
        let accepted = self.rate > 0.0 && self.next_at <= now;
        if accepted {
            self.drain(now);
        }
        accepted
    }

    fn drain(&mut self, now: Timestamp) {
        let pause = Duration::try_from_secs_f64(1.0 / self.rate).unwrap_or(Duration::MAX);
        self.next_at = after(now, pause);
    }

    /// Changes the rate. A limiter that is waiting waits for a full interval of the new rate.
    fn set_rate(&mut self, rate: f64, now: Timestamp) {
        if self.rate == rate {
            return;
        }
        let waits = !self.try_accept(now);
        *self = RateLimiter { rate, next_at: now };
        if waits {
            self.drain(now);
        }
    }
}

#[derive(Debug)]
struct Zone {
    state: ZoneState,
    limiter: RateLimiter,
    /// The nodes to be tainted, in order.
    queue: VecDeque<Str>,
    /// The queued and the tainted nodes; true for the queued ones.
    nodes: HashMap<Str, bool>,
}

#[derive(Debug)]
pub(super) struct Zones {
    rates: EvictionRates,
    zones: BTreeMap<Str, Zone>,
}

impl Zones {
    pub(super) fn new(rates: EvictionRates) -> Zones {
        Zones { rates, zones: BTreeMap::new() }
    }

    fn zone(&mut self, name: &Str, now: Timestamp) -> &mut Zone {
        let rate = self.rates.node_eviction_rate;
        self.zones.entry(name.clone()).or_insert_with(|| Zone {
            state: ZoneState::Initial,
            limiter: RateLimiter { rate, next_at: now },
            queue: VecDeque::new(),
            nodes: HashMap::new(),
        })
    }

    /// Queues a node that is not ready, unless it is queued already or still has the taint.
    pub(super) fn add(&mut self, zone: &Str, node: &Str, is_tainted: bool, now: Timestamp) {
        let zone = self.zone(zone, now);
        let is_done = zone.nodes.get(node).is_some_and(|waits| *waits || is_tainted);
        if !is_done {
            zone.nodes.insert(node.clone(), true);
            zone.queue.push_back(node.clone());
        }
    }

    /// Removes a node from the queue and from the tainted nodes.
    pub(super) fn remove(&mut self, node: &str) {
        for zone in self.zones.values_mut() {
            if zone.nodes.remove(node) == Some(true) {
                zone.queue.retain(|queued| queued != node);
            }
        }
    }

    /// Takes a node that is to be tainted now from its queue; returns its zone and its name.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(Str, Str)> {
        for (name, zone) in &mut self.zones {
            if !zone.queue.is_empty() && zone.limiter.try_accept(now) {
                let node = zone.queue.pop_front()?;
                zone.nodes.insert(node.clone(), false);
                return Some((name.clone(), node));
            }
        }
        None
    }

    /// Queues a node again after a failed attempt.
    pub(super) fn requeue(&mut self, zone: &Str, node: Str) {
        let Some(zone) = self.zones.get_mut(zone) else { return };
        if let Some(waits) = zone.nodes.get_mut(&node).filter(|waits| !**waits) {
            *waits = true;
            zone.queue.push_back(node);
        }
    }

    /// The time at which the next node may be tainted.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let waiting = self.zones.values().filter(|zone| !zone.queue.is_empty() && zone.limiter.rate > 0.0);
        waiting.map(|zone| zone.limiter.next_at).min()
    }

    /// Updates the states and rate limits of all zones from the node counts.
    pub(super) fn update_states(&mut self, counts: &HashMap<Str, ReadyCounts>, now: Timestamp) -> Disruption {
        let rates = self.rates.clone();
        for (name, zone) in &mut self.zones {
            if !counts.contains_key(name) {
                zone.state = ZoneState::Initial;
            }
        }
        for name in counts.keys() {
            self.zone(name, now);
        }
        let mut counted: Vec<_> = self
            .zones
            .iter_mut()
            .filter_map(|(name, zone)| counts.get(name).map(|count| (zone, *count, state(*count, &rates))))
            .collect();
        let were_all_disrupted = counted.iter().all(|(zone, _, _)| zone.state == ZoneState::FullDisruption);
        let are_all_disrupted = counted.iter().all(|(_, _, state)| *state == ZoneState::FullDisruption);
        if were_all_disrupted && are_all_disrupted {
            return Disruption::Unchanged;
        }
        for (zone, count, state) in &mut counted {
            let rate = if are_all_disrupted { 0.0 } else { rate(*state, *count, &rates) };
            if are_all_disrupted || were_all_disrupted || zone.state != *state {
                zone.limiter.set_rate(rate, now);
            }
            zone.state = *state;
        }
        match (were_all_disrupted, are_all_disrupted) {
            (_, true) => Disruption::AllZones,
            (true, _) => Disruption::Recovered,
            _ => Disruption::Unchanged,
        }
    }
}

fn state(count: ReadyCounts, rates: &EvictionRates) -> ZoneState {
    let ReadyCounts { ready, not_ready } = count;
    let share = not_ready as f64 / (ready + not_ready) as f64;
    if ready == 0 && not_ready > 0 {
        ZoneState::FullDisruption
    } else if not_ready > 2 && share >= rates.unhealthy_zone_threshold {
        ZoneState::PartialDisruption
    } else {
        ZoneState::Normal
    }
}

fn rate(state: ZoneState, count: ReadyCounts, rates: &EvictionRates) -> f64 {
    match state {
        ZoneState::PartialDisruption
            if count.ready + count.not_ready > rates.large_cluster_size_threshold =>
        {
            rates.secondary_node_eviction_rate
        }
        ZoneState::PartialDisruption => 0.0,
        ZoneState::Initial | ZoneState::Normal | ZoneState::FullDisruption => rates.node_eviction_rate,
    }
}

#[cfg(test)]
mod tests;
