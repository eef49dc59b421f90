//! The scheduling queue: active pods, pods in backoff, unschedulable pods, and gated pods.
//!
//! Unschedulable pods are grouped by shape and rejecting plugins, so that queueing hints are evaluated once per group.
//! The time is an argument; the queue never reads a clock.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use corten_api::Str;
use corten_base::Backoff;
use jiff::{SignedDuration, Timestamp};

use crate::plugins::priority_sort::Turn;
use crate::pod::Pod;

/// The longest time that a pod stays unschedulable without an event.
const MAX_UNSCHEDULABLE: Duration = Duration::from_secs(300);

/// A queued pod and its history.
#[derive(Debug, Clone)]
pub(crate) struct QueuedPod {
    pub(crate) pod: Arc<Pod>,
    /// The number of attempts.
    pub(crate) attempts: u32,
    /// The plugins that rejected it last.
    pub(crate) rejected_by: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq)]
enum State {
    Active(Turn),
    /// Until this time; after an error rather than a rejection if `failed`.
    Backoff {
        due: (Timestamp, u64),
        failed: bool,
    },
    Unschedulable {
        since: (Timestamp, u64),
    },
    Gated,
}

/// A shape and its rejecting plugins: equal for all queueing hints.
type Group = (u64, Vec<&'static str>);

pub(crate) struct Queue {
    backoff: Backoff,
    waiting: HashMap<Str, (QueuedPod, State)>,
    active: BTreeMap<Turn, Str>,
    /// By due time: rejected pods, and pods after errors.
    rejected: BTreeMap<(Timestamp, u64), Str>,
    failed: BTreeMap<(Timestamp, u64), Str>,
    unschedulable: BTreeMap<(Timestamp, u64), Str>,
    /// The same, by group.
    groups: HashMap<Group, BTreeMap<(Timestamp, u64), Str>>,
    number: u64,
}

/// The number of pods in each state.
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
            rejected: BTreeMap::new(),
            failed: BTreeMap::new(),
            unschedulable: BTreeMap::new(),
            groups: HashMap::new(),
            number: 0,
        }
    }

    pub(crate) fn depths(&self) -> Depths {
        let (active, unschedulable) = (self.active.len(), self.unschedulable.len());
        let backoff = self.rejected.len() + self.failed.len();
        let gated = self.waiting.len() - active - backoff - unschedulable;
        Depths { active, backoff, unschedulable, gated }
    }

    pub(crate) fn get(&self, uid: &str) -> Option<&QueuedPod> {
        self.waiting.get(uid).map(|(waiting, _)| waiting)
    }

    /// Adds a new pod; a gated one only waits.
    pub(crate) fn add(&mut self, pod: Arc<Pod>, gated_by: Option<&'static str>, now: Timestamp) {
        let rejected_by = gated_by.into_iter().collect();
        let waiting = QueuedPod { pod, attempts: 0, rejected_by };
        let state = if gated_by.is_some() { State::Gated } else { State::Active(self.turn(&waiting, now)) };
        self.put(waiting, state);
    }

    /// Updates a queued pod. Returns true if the change may make it schedulable.
    pub(crate) fn update(
        &mut self,
        pod: Arc<Pod>,
        gated_by: Option<&'static str>,
        helps: bool,
        now: Timestamp,
    ) {
        let Some((mut waiting, state)) = self.take(&pod.uid) else { return };
        waiting.pod = pod;
        let state = match (gated_by, state) {
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

    pub(crate) fn remove(&mut self, uid: &str) -> Option<QueuedPod> {
        self.take(uid).map(|(waiting, _)| waiting)
    }

    /// Pops the next pod. If none is active, a rejected pod in backoff need not wait any longer.
    pub(crate) fn pop(&mut self, now: Timestamp) -> Option<QueuedPod> {
        self.wake_due(now);
        let next = self.active.values().next().or_else(|| self.rejected.values().next()).cloned()?;
        let (mut waiting, _) = self.take(&next)?;
        waiting.attempts += 1;
        Some(waiting)
    }

    /// Adds a pod that was rejected.
    pub(crate) fn reject(&mut self, mut waiting: QueuedPod, by: Vec<&'static str>, now: Timestamp) {
        waiting.rejected_by = by;
        self.number += 1;
        self.put(waiting, State::Unschedulable { since: (now, self.number) });
    }

    /// Adds a pod whose attempt ended in an error.
    pub(crate) fn retry(&mut self, waiting: QueuedPod, now: Timestamp) {
        self.number += 1;
        let due = (later(now, self.backoff.delay(waiting.attempts)), self.number);
        self.put(waiting, State::Backoff { due, failed: true });
    }

    /// Adds a pod again that was neither tried nor rejected.
    pub(crate) fn resume(&mut self, waiting: QueuedPod, now: Timestamp) {
        let state = self.awake(&waiting, now);
        self.put(waiting, state);
    }

    /// Moves the pods that an event may make schedulable, by a hint for one pod of every group. Pods that are `apart`
    /// are checked one by one.
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

    /// Moves an unschedulable pod, whatever happened.
    pub(crate) fn activate(&mut self, uid: &str, now: Timestamp) {
        if matches!(self.waiting.get(uid), Some((_, State::Unschedulable { .. }))) {
            self.wake_one(uid, now);
        }
    }

    /// The time at which the next pod is due.
    pub(crate) fn next_due(&self) -> Option<Timestamp> {
        let backoff = self.rejected.keys().chain(self.failed.keys()).map(|(due, _)| *due).min();
        let forgotten = self.unschedulable.keys().next().map(|(since, _)| later(*since, MAX_UNSCHEDULABLE));
        backoff.into_iter().chain(forgotten).min()
    }

    fn wake_due(&mut self, now: Timestamp) {
        loop {
            let first = |map: &BTreeMap<(Timestamp, u64), Str>| {
                map.first_key_value().filter(|((due, _), _)| *due <= now).map(|(_, uid)| uid.clone())
            };
            let Some(uid) = first(&self.rejected).or_else(|| first(&self.failed)) else { break };
            if let Some((waiting, _)) = self.take(&uid) {
                let turn = self.turn(&waiting, now);
                self.put(waiting, State::Active(turn));
            }
        }
        while let Some(((since, _), uid)) = self.unschedulable.first_key_value() {
            if later(*since, MAX_UNSCHEDULABLE) > now {
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

    /// The state of a pod that may be tried again: in backoff for the remaining time.
    fn awake(&mut self, waiting: &QueuedPod, now: Timestamp) -> State {
        self.number += 1;
        let due = (later(now, self.backoff.delay(waiting.attempts)), self.number);
        if due.0 <= now {
            State::Active(self.turn(waiting, now))
        } else {
            State::Backoff { due, failed: false }
        }
    }

    fn turn(&mut self, waiting: &QueuedPod, now: Timestamp) -> Turn {
        self.number += 1;
        Turn { priority: waiting.pod.shape.priority, since: now, number: self.number }
    }

    fn put(&mut self, waiting: QueuedPod, state: State) {
        let uid = waiting.pod.uid.clone();
        self.take(&uid);
        match &state {
            State::Active(turn) => drop(self.active.insert(*turn, uid.clone())),
            State::Backoff { due, failed: false } => drop(self.rejected.insert(*due, uid.clone())),
            State::Backoff { due, failed: true } => drop(self.failed.insert(*due, uid.clone())),
            State::Unschedulable { since } => {
                self.unschedulable.insert(*since, uid.clone());
                self.groups.entry(group(&waiting)).or_default().insert(*since, uid.clone());
            }
            State::Gated => {}
        }
        self.waiting.insert(uid, (waiting, state));
    }

    fn take(&mut self, uid: &str) -> Option<(QueuedPod, State)> {
        let (waiting, state) = self.waiting.remove(uid)?;
        match &state {
            State::Active(turn) => drop(self.active.remove(turn)),
            State::Backoff { due, failed: false } => drop(self.rejected.remove(due)),
            State::Backoff { due, failed: true } => drop(self.failed.remove(due)),
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

fn group(waiting: &QueuedPod) -> Group {
    (waiting.pod.shape.serial, waiting.rejected_by.clone())
}

#[cfg(test)]
mod tests;
