//! Plans: the actions of one reconcile, as data.

use std::time::Duration;

use corten_api::Value;
use corten_client::{DeleteOptions, Error, Key, Kind, Patch, kinds};

use crate::Event;

/// The actions for one key. Steps are executed in order, up to and including the first that fails.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub events: Vec<Event>,
    /// Reconcile again after this delay, even without a change.
    pub requeue_after: Option<Duration>,
    /// Reconcile again with backoff, as after a failed request.
    pub retry: bool,
}

impl Plan {
    /// A plan without actions.
    pub fn done() -> Plan {
        Plan::default()
    }

    pub fn is_done(&self) -> bool {
        *self == Plan::default()
    }

    pub fn then(mut self, action: Action) -> Plan {
        self.steps.push(Step::One(action));
        self
    }

    pub fn event(mut self, event: Event) -> Plan {
        self.events.push(event);
        self
    }

    /// Requeues after this delay, or sooner if an earlier call said so.
    pub fn requeue_after(mut self, delay: Duration) -> Plan {
        self.requeue_after = Some(self.requeue_after.map_or(delay, |other| other.min(delay)));
        self
    }

    /// Requeues with backoff, as long as plans say so.
    pub fn retry(mut self) -> Plan {
        self.retry = true;
        self
    }

    /// Every action, in order.
    pub fn actions(&self) -> impl Iterator<Item = &Action> {
        self.steps.iter().flat_map(Step::actions)
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Step {
    One(Action),
    /// All actions concurrently.
    Together(Vec<Action>),
    /// One, then two, then four, …: a batch with a failure is the last, so that an action that cannot succeed is not
    /// tried a thousand times.
    SlowStart(Vec<Action>),
    /// The same with chains of actions: each chain is executed in order, up to and including its first failure.
    SlowStartEach(Vec<Vec<Action>>),
}

impl Step {
    fn actions(&self) -> Box<dyn Iterator<Item = &Action> + '_> {
        match self {
            Step::One(action) => Box::new(std::iter::once(action)),
            Step::Together(actions) | Step::SlowStart(actions) => Box::new(actions.iter()),
            Step::SlowStartEach(chains) => Box::new(chains.iter().flatten()),
        }
    }
}

/// A request.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Create {
        kind: &'static Kind,
        object: Value,
    },
    /// Replaces an object, provided it still has the version it was read in.
    Update {
        kind: &'static Kind,
        object: Value,
        subresource: &'static str,
    },
    Patch {
        kind: &'static Kind,
        key: Key,
        patch: Patch,
        subresource: &'static str,
    },
    Delete {
        kind: &'static Kind,
        key: Key,
        options: DeleteOptions,
    },
    /// Writes a scale subresource of any kind.
    Scale {
        path: String,
        object: Value,
    },
    /// Creates a subresource such as a binding or an eviction.
    Post {
        kind: &'static Kind,
        key: Key,
        subresource: &'static str,
        object: Value,
    },
}

impl Action {
    pub fn kind(&self) -> &'static Kind {
        match self {
            Action::Create { kind, .. }
            | Action::Update { kind, .. }
            | Action::Patch { kind, .. }
            | Action::Delete { kind, .. }
            | Action::Post { kind, .. } => kind,
            Action::Scale { .. } => &kinds::SCALES,
        }
    }
}

/// An action and its result.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub action: Action,
    /// The object as the server returned it, or the error.
    pub result: Result<Value, Error>,
}

/// The outcomes of a plan, as far as it was executed.
#[derive(Debug, Clone, Default)]
pub struct Report {
    pub outcomes: Vec<Outcome>,
}

impl Report {
    pub fn failures(&self) -> impl Iterator<Item = (&Action, &Error)> {
        self.outcomes.iter().filter_map(|o| o.result.as_ref().err().map(|error| (&o.action, error)))
    }

    pub fn is_success(&self) -> bool {
        self.failures().next().is_none()
    }
}
