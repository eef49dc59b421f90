//! The state of a pod's worker, with upstream's states: syncing, terminating, terminated. Pure.
//!
//! *Invariant:* a worker never goes back to an earlier state. A pod that is added again after it was removed gets a new
//! worker once the old one is done.

use crate::status::Ended;

/// The state of a pod's worker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PodWorkerState {
    /// The pod is to run: `sync_pod` brings its containers to the desired state.
    Syncing {
        /// True once admission has been decided, which happens once in the life of a worker.
        admitted: bool,
    },
    /// The pod is to stop: `sync_terminating_pod` stops its containers.
    Terminating(Termination),
    /// No container of the pod runs or will run: `sync_terminated_pod` removes what is left.
    Terminated(Termination),
}

/// The reasons for which a pod terminates.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Termination {
    /// The pod was deleted, or its source no longer names it: nothing of it is kept.
    pub(crate) deleted: bool,
    /// The pod was evicted or preempted: its sandboxes go although its object stays.
    pub(crate) evicted: bool,
    /// The kubelet's own reason (eviction, preemption, deadline, rejection), reported as phase `Failed`. The first one
    /// counts.
    pub(crate) ended: Option<Ended>,
}

/// The facts about a pod that decide its worker's state.
#[derive(Debug, Clone, Default)]
pub(crate) struct Facts {
    /// The pod has a deletion timestamp, or its source no longer names it.
    pub(crate) deleted: bool,
    /// The pod was evicted or preempted.
    pub(crate) evicted: bool,
    /// The kubelet's own reason to end the pod.
    pub(crate) ended: Option<Ended>,
    /// Every container has run to its end and none is to be restarted, or the reported phase says so.
    pub(crate) finished: bool,
    /// The runtime has a ready sandbox or a running container of the pod.
    pub(crate) alive: bool,
}

impl PodWorkerState {
    /// The state of a new worker.
    pub(crate) const NEW: PodWorkerState = PodWorkerState::Syncing { admitted: false };

    /// Returns true if containers of the pod may run, now or later.
    pub(crate) fn could_have_running_containers(&self) -> bool {
        !matches!(self, PodWorkerState::Terminated(_))
    }

    /// The reason to terminate, if the pod terminates.
    pub(crate) fn termination(&self) -> Option<&Termination> {
        match self {
            PodWorkerState::Syncing { .. } => None,
            PodWorkerState::Terminating(termination) | PodWorkerState::Terminated(termination) => {
                Some(termination)
            }
        }
    }

    /// The kubelet's own reason for the end of the pod, if there is one.
    pub(crate) fn ended(&self) -> Option<&Ended> {
        self.termination()?.ended.as_ref()
    }
}

impl Termination {
    fn merge(mut self, facts: &Facts) -> Termination {
        self.deleted |= facts.deleted;
        self.evicted |= facts.evicted;
        if self.ended.is_none() {
            self.ended.clone_from(&facts.ended);
        }
        self
    }
}

/// The state that follows from the present one and the facts. One step at a time: a pod that is not alive and is deleted
/// is terminating first, and terminated after the next step.
pub(crate) fn transition(state: PodWorkerState, facts: &Facts) -> PodWorkerState {
    match state {
        PodWorkerState::Syncing { .. } if facts.deleted || facts.ended.is_some() || facts.finished => {
            PodWorkerState::Terminating(Termination::default().merge(facts))
        }
        syncing @ PodWorkerState::Syncing { .. } => syncing,
        PodWorkerState::Terminating(termination) if facts.alive => {
            PodWorkerState::Terminating(termination.merge(facts))
        }
        PodWorkerState::Terminating(termination) | PodWorkerState::Terminated(termination) => {
            PodWorkerState::Terminated(termination.merge(facts))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::PodWorkerState::{Syncing, Terminated, Terminating};
    use super::*;

    fn ended(reason: &str) -> Option<Ended> {
        Some(Ended { reason: reason.to_owned(), ..Ended::default() })
    }

    fn alive() -> Facts {
        Facts { alive: true, ..Facts::default() }
    }

    fn termination(facts: &Facts) -> Termination {
        Termination { deleted: facts.deleted, evicted: facts.evicted, ended: facts.ended.clone() }
    }

    #[test]
    fn a_pod_terminates_for_each_reason() {
        for admitted in [false, true] {
            assert_eq!(transition(Syncing { admitted }, &alive()), Syncing { admitted });
            for facts in [
                Facts { deleted: true, ..alive() },
                Facts { ended: ended("DeadlineExceeded"), ..alive() },
                Facts { ended: ended("Evicted"), evicted: true, ..alive() },
                Facts { finished: true, ..alive() },
                Facts { deleted: true, ..Facts::default() },
            ] {
                let expected = Terminating(termination(&facts));
                assert_eq!(transition(Syncing { admitted }, &facts), expected, "{facts:?}");
            }
        }
    }

    #[test]
    fn a_terminating_pod_is_terminated_once_nothing_runs() {
        let finished = Termination::default();
        for (facts, expected) in [
            (alive(), Terminating(finished.clone())),
            (Facts::default(), Terminated(finished.clone())),
            (Facts { finished: true, ..alive() }, Terminating(finished)),
        ] {
            assert_eq!(transition(Terminating(Termination::default()), &facts), expected, "{facts:?}");
        }
    }

    #[test]
    fn a_terminated_pod_stays_terminated() {
        for facts in [Facts::default(), alive(), Facts { finished: true, ..alive() }] {
            let expected = Terminated(Termination::default());
            assert_eq!(transition(Terminated(Termination::default()), &facts), expected, "{facts:?}");
        }
        let deleted = Facts { deleted: true, ..Facts::default() };
        let expected = Termination { deleted: true, ..Termination::default() };
        assert_eq!(transition(Terminated(Termination::default()), &deleted), Terminated(expected));
    }

    #[test]
    fn the_first_reason_counts_and_later_requests_are_added() {
        let evicted = Facts { ended: ended("Evicted"), evicted: true, ..alive() };
        let first = Termination { ended: ended("DeadlineExceeded"), ..Termination::default() };
        let expected = Termination { evicted: true, ..first.clone() };
        assert_eq!(transition(Terminating(first), &evicted), Terminating(expected));
        let deleted = Termination { deleted: true, ..Termination::default() };
        let expected = Termination { deleted: true, evicted: true, ended: ended("Evicted") };
        assert_eq!(transition(Terminating(deleted), &evicted), Terminating(expected));
    }

    #[test]
    fn containers_may_run_until_the_pod_is_terminated() {
        assert!(PodWorkerState::NEW.could_have_running_containers());
        assert!(Terminating(Termination::default()).could_have_running_containers());
        assert!(!Terminated(Termination::default()).could_have_running_containers());
    }
}
