//! Zones: how many of their nodes are down, and how fast such nodes may therefore be given up. Pure.
//!
//! If a whole zone is down it is likely the zone; if every zone is down it is likely us, and then nobody is given
//! up at all. Zones come with their first node and stay; one without nodes costs nothing.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use corten_api::Str;
use jiff::Timestamp;

use super::health::after;

/// How fast nodes are given up.
#[derive(Debug, Clone, PartialEq)]
pub struct Rates {
    /// Nodes per second in a zone that is well.
    pub normal: f64,
    /// Nodes per second in one that is not, if it is large.
    pub secondary: f64,
    /// A zone with more nodes than this is large.
    pub large_zone: usize,
    /// From which share of nodes on that are down a zone is not well.
    pub unhealthy_share: f64,
}

impl Default for Rates {
    fn default() -> Rates {
        Rates { normal: 0.1, secondary: 0.01, large_zone: 50, unhealthy_share: 0.55 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// None of its nodes has been counted.
    Initial,
    Normal,
    Partial,
    Full,
}

/// How many nodes of a zone are up and down.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Tally {
    pub(super) up: usize,
    pub(super) down: usize,
}

/// What a change in the state of zones means for all nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shift {
    None,
    /// Every zone went down: no node is to be given up any more.
    AllDown,
    /// Some zone is up again after all were down: every silence counts from now.
    SomeUp,
}

/// Lets through one at a time, at a rate.
#[derive(Debug, Clone, PartialEq)]
struct Limiter {
    rate: f64,
    free_at: Timestamp,
}

impl Limiter {
    fn try_pass(&mut self, now: Timestamp) -> bool {
        let passes = self.rate > 0.0 && self.free_at <= now;
        if passes {
            self.drain(now);
        }
        passes
    }

    fn drain(&mut self, now: Timestamp) {
        let pause = Duration::try_from_secs_f64(1.0 / self.rate).unwrap_or(Duration::MAX);
        self.free_at = after(now, pause);
    }

    /// Goes on at another rate; whoever had to wait still has to.
    fn set_rate(&mut self, rate: f64, now: Timestamp) {
        if self.rate == rate {
            return;
        }
        let waits = !self.try_pass(now);
        *self = Limiter { rate, free_at: now };
        if waits {
            self.drain(now);
        }
    }
}

#[derive(Debug)]
struct Zone {
    state: State,
    limiter: Limiter,
    /// Nodes to be given up, in order.
    queue: VecDeque<Str>,
    /// Nodes that are in line or were given up, and whether they are in line.
    marked: HashMap<Str, bool>,
}

#[derive(Debug)]
pub(super) struct Zones {
    rates: Rates,
    zones: BTreeMap<Str, Zone>,
}

impl Zones {
    pub(super) fn new(rates: Rates) -> Zones {
        Zones { rates, zones: BTreeMap::new() }
    }

    fn zone(&mut self, name: &Str, now: Timestamp) -> &mut Zone {
        let rate = self.rates.normal;
        self.zones.entry(name.clone()).or_insert_with(|| Zone {
            state: State::Initial,
            limiter: Limiter { rate, free_at: now },
            queue: VecDeque::new(),
            marked: HashMap::new(),
        })
    }

    /// Puts a node that is down in line, unless it was given up before and still is.
    pub(super) fn mark(&mut self, zone: &Str, node: &Str, is_given_up: bool, now: Timestamp) {
        let zone = self.zone(zone, now);
        let is_done = zone.marked.get(node).is_some_and(|waits| *waits || is_given_up);
        if !is_done {
            zone.marked.insert(node.clone(), true);
            zone.queue.push_back(node.clone());
        }
    }

    /// Lets a node off.
    pub(super) fn unmark(&mut self, node: &str) {
        for zone in self.zones.values_mut() {
            if zone.marked.remove(node) == Some(true) {
                zone.queue.retain(|queued| queued != node);
            }
        }
    }

    /// A node to be given up now, and its zone.
    pub(super) fn take_due(&mut self, now: Timestamp) -> Option<(Str, Str)> {
        for (name, zone) in &mut self.zones {
            if !zone.queue.is_empty() && zone.limiter.try_pass(now) {
                let node = zone.queue.pop_front()?;
                zone.marked.insert(node.clone(), false);
                return Some((name.clone(), node));
            }
        }
        None
    }

    /// A node that could not be given up comes to the end of the line.
    pub(super) fn put_back(&mut self, zone: &Str, node: Str) {
        let Some(zone) = self.zones.get_mut(zone) else { return };
        if let Some(waits) = zone.marked.get_mut(&node).filter(|waits| !**waits) {
            *waits = true;
            zone.queue.push_back(node);
        }
    }

    /// When the next node may be given up.
    pub(super) fn next_due(&self) -> Option<Timestamp> {
        let waiting = self.zones.values().filter(|zone| !zone.queue.is_empty() && zone.limiter.rate > 0.0);
        waiting.map(|zone| zone.limiter.free_at).min()
    }

    /// Takes note of how many nodes are up and down.
    pub(super) fn weigh(&mut self, tallies: &HashMap<Str, Tally>, now: Timestamp) -> Shift {
        let rates = self.rates.clone();
        for (name, zone) in &mut self.zones {
            if !tallies.contains_key(name) {
                zone.state = State::Initial;
            }
        }
        for name in tallies.keys() {
            self.zone(name, now);
        }
        let mut counted: Vec<_> = self
            .zones
            .iter_mut()
            .filter_map(|(name, zone)| tallies.get(name).map(|tally| (zone, *tally, state(*tally, &rates))))
            .collect();
        let were_all_down = counted.iter().all(|(zone, _, _)| zone.state == State::Full);
        let are_all_down = counted.iter().all(|(_, _, state)| *state == State::Full);
        if were_all_down && are_all_down {
            return Shift::None;
        }
        for (zone, tally, state) in &mut counted {
            let rate = if are_all_down { 0.0 } else { rate(*state, *tally, &rates) };
            if are_all_down || were_all_down || zone.state != *state {
                zone.limiter.set_rate(rate, now);
            }
            zone.state = *state;
        }
        match (were_all_down, are_all_down) {
            (_, true) => Shift::AllDown,
            (true, _) => Shift::SomeUp,
            _ => Shift::None,
        }
    }
}

fn state(tally: Tally, rates: &Rates) -> State {
    let Tally { up, down } = tally;
    let share = down as f64 / (up + down) as f64;
    if up == 0 && down > 0 {
        State::Full
    } else if down > 2 && share >= rates.unhealthy_share {
        State::Partial
    } else {
        State::Normal
    }
}

fn rate(state: State, tally: Tally, rates: &Rates) -> f64 {
    match state {
        State::Partial if tally.up + tally.down > rates.large_zone => rates.secondary,
        State::Partial => 0.0,
        State::Initial | State::Normal | State::Full => rates.normal,
    }
}

#[cfg(test)]
mod tests;
