//! What a controller wants done, as data.

use std::time::Duration;

use corten_api::Value;
use corten_client::{DeleteOptions, Error, Key, Kind, Patch, kinds};

use crate::Event;

/// Everything to be done about one key. Steps happen in order; one that fails is the last.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    pub events: Vec<Event>,
    /// Look again after this long, even if nothing changes.
    pub requeue_after: Option<Duration>,
    /// Look again later and later, as after a request that failed.
    pub retry: bool,
}

impl Plan {
    /// Nothing to do.
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

    /// Looks again after this long, or sooner if that was wanted already.
    pub fn again_after(mut self, delay: Duration) -> Plan {
        self.requeue_after = Some(self.requeue_after.map_or(delay, |other| other.min(delay)));
        self
    }

    /// Looks again later and later, for as long as it says so.
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
    /// All at once.
    Together(Vec<Action>),
    /// One, then two, then four, …: a batch with a failure is the last, so that what cannot work is not tried a
    /// thousand times.
    SlowStart(Vec<Action>),
    /// The same, where each is several actions in order, the first that fails being its last.
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

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    Create {
        kind: &'static Kind,
        object: Value,
    },
    /// Replaces an object in the version it was read in.
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
    /// Writes the scale of something of any kind.
    Scale {
        path: String,
        object: Value,
    },
    /// Creates what a subresource takes.
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

/// What became of an action.
#[derive(Debug, Clone)]
pub struct Outcome {
    pub action: Action,
    /// The object as it is now, or why not.
    pub result: Result<Value, Error>,
}

/// What became of a plan, as far as it got.
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
