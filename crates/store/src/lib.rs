//! The revisioned store: bytes under keys, revisions, compare-and-set, watch, leases.
//!
//! It stores bytes under keys, not kinds. All live entries are in memory once, so reads of the current state never access
//! the disk; the engine makes commits durable, keeps recent history and loads fast.
//!
//! ```text
//! commit() ─► queue ─► plan ─► engine (one frame, one sync) ─► witness
//!                                   └─► live entries ─► observers ─► acknowledgements
//! ```
//!
//! Invariants:
//! - Nothing is visible before it is on disk; nothing is acknowledged before it is visible.
//! - Revisions only grow and are never reused; those of failed commits are skipped.
//! - Every acknowledged write is present at the next open, or opening fails and reports the loss.
//! - Nothing runs at idle.
//!
//! Only the module `log` depends on the engine: committing [`plan::Changes`], reading history, and loading. Another engine
//! can replace it behind the same [`Store`].

mod commit;
mod error;
mod housekeeping;
mod lease;
mod log;
mod model;
mod observe;
mod plan;
mod program;
mod queue;
mod sealing;
mod shared;
mod state;
mod store;
mod watch;
mod witness;
mod worker_threads;

pub use error::{Damage, Error};
pub use lease::LeaseState;
#[doc(hidden)]
pub use log::fuzz;
pub use model::{
    Committed, Entry, Event, Expect, LeaseId, NewValue, Note, Observer, Op, Options, Range, Revision, Txn,
};
pub use program::{Condition, End, Keys, Outcome, Program, PutLease, Relation, Step, StepResult, Target};
pub use sealing::{Opened, Sealing, SealingError};
pub use store::Store;
pub use watch::Watch;
pub use worker_threads::WorkerThreads;
