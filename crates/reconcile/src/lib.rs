//! Runs controllers. A controller says what it watches, what it sees and what should be done; everything else
//! happens here, once for all of them: queues with rate limits, the requests, waiting until the caches have seen
//! what was written, events, leader election.
//!
//! Never in here: what any particular controller wants.

mod controller;
mod events;
mod execute;
mod leader;
mod manager;
mod metrics;
mod plan;
mod queue;
mod selection;

pub use controller::{Controller, Watch};
pub use events::{Event, EventKind, Recorder};
pub use leader::{Election, Leadership};
pub use manager::{ClientFor, Manager};
pub use plan::{Action, Outcome, Plan, Report, Step};
pub use queue::Queue;
pub use selection::Selection;
