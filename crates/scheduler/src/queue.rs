//! The pods that wait for a node: those whose turn it is, those that wait out a failure, those that fit nowhere until
//! something happens, and those that must not be tried yet.
//!
//! Pods that fit nowhere are kept in groups of the same shape that the same plugins rejected, so that whether an event
//! may help is asked once for all of them. Time is told to it; it never looks at a clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use corten_api::Str;
use corten_base::Backoff;
use jiff::{SignedDuration, Timestamp};

use crate::plugins::priority_sort::Turn;
use crate::pod::Pod;

/// How long a pod that nothing helped is left alone at most.
const FORGOTTEN: Duration = Duration::from_secs(300);

/// A pod and how it has fared.
#[derive(Debug, Clone)]
pub(crate) struct Waiting {
    pub(crate) pod: Arc<Pod>,
    /// How often it was tried.
    pub(crate) attempts: u32,
    /// Who rejected it last.
    pub(crate) rejected_by: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Active(Turn),
    /// Until then, by number; whether because something went wrong rather than for lack of a node.
    Backoff {
        due: (Timestamp, u64),
        wrong: bool,
    },
    Unschedulable {
        since: (Timestamp, u64),
    },
    Gated,
}

/// Pods that are alike to every plugin.
type Group = (u64, Vec<&'static str>);

pub(crate) struct Queue {
    backoff: Backoff,
    waiting: HashMap<Str, (Waiting, State)>,
    active: BTreeMap<Turn, Str>,
    /// By when they are due: those that lacked a node, and those for whom something went wrong.
    lacking: BTreeMap<(Timestamp, u64), Str>,
    wrong: BTreeMap<(Timestamp, u64), Str>,
    unschedulable: BTreeMap<(Timestamp, u64), Str>,
    /// The same, by group.
    groups: HashMap<Group, BTreeMap<(Timestamp, u64), Str>>,
    number: u64,
}

/// How many wait for what.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Depths {
    pub(crate) active: usize,
    pub(crate) backoff: usize,
    pub(crate) unschedulable: usize,
    pub(crate) gated: usize,
}

fn later(now: Timestamp, by: Duration) -> Timestamp {
    let by = SignedDuration::try_from(by).unwrap_or(SignedDuration::MAX);
    now.checked_add(by).unwrap_or(Timestamp::MAX)
}

impl Queue {
    pub(crate) fn new(backoff: Backoff) -> Queue {
        Queue {
            backoff,
            waiting: HashMap::new(),
            active: BTreeMap::new(),
            lacking: BTreeMap::new(),
            wrong: BTreeMap::new(),
            unschedulable: BTreeMap::new(),
            groups: HashMap::new(),
            number: 0,
        }
    }

    pub(crate) fn depths(&self) -> Depths {
        let (active, unschedulable) = (self.active.len(), self.unschedulable.len());
        let backoff = self.lacking.len() + self.wrong.len();
        let gated = self.waiting.len() - active - backoff - unschedulable;
        Depths { active, backoff, unschedulable, gated }
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&Waiting> {
        self.waiting.get(uid).map(|(waiting, _)| waiting)
    }

    /// A new pod; one that is held back only waits.
    pub(crate) fn add(&mut self, pod: Arc<Pod>, held_back: Option<&'static str>, now: Timestamp) {
        let rejected_by = held_back.into_iter().collect();
        let waiting = Waiting { pod, attempts: 0, rejected_by };
        let state = if held_back.is_some() { State::Gated } else { State::Active(self.turn(&waiting, now)) };
        self.put(waiting, state);
    }

    /// A pod that waits is another than it was; whether that may help it.
    pub(crate) fn update(
        &mut self,
        pod: Arc<Pod>,
        held_back: Option<&'static str>,
        helps: bool,
        now: Timestamp,
    ) {
        let Some((mut waiting, state)) = self.take(&pod.uid) else { return };
        waiting.pod = pod;
        let state = match (held_back, state) {
            (Some(plugin), _) => {
                waiting.rejected_by = vec![plugin];
                State::Gated
            }
            (None, State::Gated | State::Active(_)) => State::Active(self.turn(&waiting, now)),
            (None, State::Unschedulable { .. }) if helps => self.awake(&waiting, now),
            (None, state) => state,
        };
        self.put(waiting, state);
    }

    pub(crate) fn remove(&mut self, uid: &str) -> Option<Waiting> {
        self.take(uid).map(|(waiting, _)| waiting)
    }

    /// The pod whose turn it is. If there is none, one that lacked a node need not wait any longer.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<Waiting> {
        self.wake_due(now);
        let next = self.active.values().next().or_else(|| self.lacking.values().next()).cloned()?;
        let (mut waiting, _) = self.take(&next)?;
        waiting.attempts += 1;
        Some(waiting)
    }

    /// A pod was tried and fits nowhere.
    pub(crate) fn reject(&mut self, mut waiting: Waiting, by: Vec<&'static str>, now: Timestamp) {
        waiting.rejected_by = by;
        self.number += 1;
        self.put(waiting, State::Unschedulable { since: (now, self.number) });
    }

    /// A pod was tried and something went wrong.
    pub(crate) fn retry(&mut self, waiting: Waiting, now: Timestamp) {
        self.number += 1;
        let due = (later(now, self.backoff.delay(waiting.attempts)), self.number);
        self.put(waiting, State::Backoff { due, wrong: true });
    }

    /// A pod that was neither tried nor rejected goes on where it was.
    pub(crate) fn resume(&mut self, waiting: Waiting, now: Timestamp) {
        let state = self.awake(&waiting, now);
        self.put(waiting, state);
    }

    /// Something happened: wakes those it may help, as told for one of every group. Of those that are apart each is
    /// asked about by itself.
    pub(crate) fn wake(
        &mut self,
        now: Timestamp,
        apart: &[Str],
        mut helps: impl FnMut(&Pod, &[&'static str]) -> bool,
    ) {
        let mut woken = Vec::new();
        for ((_, plugins), uids) in &self.groups {
            let mut alike = uids.values().filter(|uid| !apart.contains(uid));
            let first = alike.next().and_then(|uid| self.get(uid));
            if first.is_some_and(|waiting| helps(&waiting.pod, plugins)) {
                woken.extend(uids.values().filter(|uid| !apart.contains(uid)).cloned());
            }
        }
        for uid in apart {
            if let Some((waiting, State::Unschedulable { .. })) = self.waiting.get(uid)
                && helps(&waiting.pod, &waiting.rejected_by)
            {
                woken.push(uid.clone());
            }
        }
        for uid in woken {
            self.wake_one(&uid, now);
        }
    }

    /// A pod that fits nowhere may be tried again, whatever happened.
    pub(crate) fn wake_anyway(&mut self, uid: &str, now: Timestamp) {
        if matches!(self.waiting.get(uid), Some((_, State::Unschedulable { .. }))) {
            self.wake_one(uid, now);
        }
    }

    /// When something is due by itself.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let backoff = self.lacking.keys().chain(self.wrong.keys()).map(|(due, _)| *due).min();
        let forgotten = self.unschedulable.keys().next().map(|(since, _)| later(*since, FORGOTTEN));
        backoff.into_iter().chain(forgotten).min()
    }

    fn wake_due(&mut self, now: Timestamp) {
        loop {
            let first = |map: &BTreeMap<(Timestamp, u64), Str>| {
                map.first_key_value().filter(|((due, _), _)| *due <= now).map(|(_, uid)| uid.clone())
            };
            let Some(uid) = first(&self.lacking).or_else(|| first(&self.wrong)) else { break };
            if let Some((waiting, _)) = self.take(&uid) {
                let turn = self.turn(&waiting, now);
                self.put(waiting, State::Active(turn));
            }
        }
        while let Some(((since, _), uid)) = self.unschedulable.first_key_value() {
            if later(*since, FORGOTTEN) > now {
                break;
            }
            let uid = uid.clone();
            self.wake_one(&uid, now);
        }
    }

    fn wake_one(&mut self, uid: &str, now: Timestamp) {
        let Some((waiting, _)) = self.take(uid) else { return };
        let state = self.awake(&waiting, now);
        self.put(waiting, state);
    }

    /// Where a pod goes that may be tried again: it waits out what is left since it was last tried.
    fn awake(&mut self, waiting: &Waiting, now: Timestamp) -> State {
        self.number += 1;
        let due = (later(now, self.backoff.delay(waiting.attempts)), self.number);
        if due.0 <= now {
            State::Active(self.turn(waiting, now))
        } else {
            State::Backoff { due, wrong: false }
        }
    }

    fn turn(&mut self, waiting: &Waiting, now: Timestamp) -> Turn {
        self.number += 1;
        Turn { priority: waiting.pod.shape.priority, since: now, number: self.number }
    }

    fn put(&mut self, waiting: Waiting, state: State) {
        let uid = waiting.pod.uid.clone();
        self.take(&uid);
        match &state {
            State::Active(turn) => drop(self.active.insert(*turn, uid.clone())),
            State::Backoff { due, wrong: false } => drop(self.lacking.insert(*due, uid.clone())),
            State::Backoff { due, wrong: true } => drop(self.wrong.insert(*due, uid.clone())),
            State::Unschedulable { since } => {
                self.unschedulable.insert(*since, uid.clone());
                self.groups.entry(group(&waiting)).or_default().insert(*since, uid.clone());
            }
            State::Gated => {}
        }
        self.waiting.insert(uid, (waiting, state));
    }

    fn take(&mut self, uid: &str) -> Option<(Waiting, State)> {
        let (waiting, state) = self.waiting.remove(uid)?;
        match &state {
            State::Active(turn) => drop(self.active.remove(turn)),
            State::Backoff { due, wrong: false } => drop(self.lacking.remove(due)),
            State::Backoff { due, wrong: true } => drop(self.wrong.remove(due)),
            State::Unschedulable { since } => {
                self.unschedulable.remove(since);
                let group = group(&waiting);
                if let Some(uids) = self.groups.get_mut(&group) {
                    uids.remove(since);
                    if uids.is_empty() {
                        self.groups.remove(&group);
                    }
                }
            }
            State::Gated => {}
        }
        Some((waiting, state))
    }
}

fn group(waiting: &Waiting) -> Group {
    (waiting.pod.shape.serial, waiting.rejected_by.clone())
}

#[cfg(test)]
mod tests;
