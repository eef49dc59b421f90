//! Runs controllers. A controller declares what it watches, observes and plans; everything else happens here, once for
//! all of them: queues with backoff, the requests, waiting for the caches, events, leader election.
//!
//! Never in here: the logic of a particular controller.

mod controller;
mod events;
mod execute;
mod leader;
mod manager;
mod metrics;
mod plan;
mod queue;
mod selection;
#[cfg(test)]
mod testing;

pub use controller::{Controller, Watch};
pub use events::{Event, EventKind, Recorder};
pub use leader::{Election, ElectionError, Leadership, LockKind};
pub use manager::{ClientFor, Manager};
pub use plan::{Action, Outcome, Plan, Report, Step};
pub use queue::Queue;
pub use selection::Selection;
