//! The revisioned store: bytes under keys, revisions, compare-and-set, watch, leases.
//!
//! It stores bytes under keys, not kinds. All live entries are in memory once, so reads of the current state never access
//! the disk or the network; an engine makes commits durable, keeps recent history and loads fast.
//!
//! ```text
//! embedded:  commit() ─► queue ─► plan ─► log (one frame, one sync) ─► witness ─► live
//! etcd:      commit() ─► Txn ─► etcd ─► watch ─► live
//!            live entries ─► observers ─► acknowledgements
//! ```
//!
//! Invariants:
//! - Nothing is visible before it is durable; nothing is acknowledged before it is visible.
//! - Revisions only grow and are never reused; those of failed commits are skipped. All events of a revision are published
//!   together.
//! - Every acknowledged write is present at the next open, or opening fails and reports the loss.
//! - Nothing runs at idle.
//!
//! [`Store`] is the same for both engines, and so are reads and observers (`live`). `embedded` and the modules it uses (`log`,
//! `plan`, `queue`, …) know nothing of etcd, `etcd` nothing of them.

mod commit;
pub mod disk;
mod embedded;
mod error;
mod etcd;
mod housekeeping;
mod lease;
mod live;
mod log;
mod model;
mod observe;
mod past;
mod plan;
mod program;
mod queue;
mod retention;
mod sealing;
mod shared;
mod state;
mod store;
mod watch;
mod witness;
mod worker_threads;

pub use error::{Damage, Error};
pub use etcd::{EtcdOptions, Preparation, Translation, Unreadable};
pub use lease::LeaseState;
#[doc(hidden)]
pub use log::fuzz;
pub use model::{
    Committed, Entry, Event, Expect, Keep, Kept, LeaseId, NewValue, Note, Observer, Op, Options, PastVersion,
    Range, Revision, Txn,
};
pub use program::{Condition, End, Keys, Outcome, Program, PutLease, Relation, Step, StepResult, Target};
pub use sealing::{Opened, Sealing, SealingError};
pub use store::Store;
pub use watch::Watch;
pub use worker_threads::WorkerThreads;
