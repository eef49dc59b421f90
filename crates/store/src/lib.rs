//! The revisioned store: bytes under keys, revisions, compare-and-set, watch, leases.
//!
//! It knows bytes and keys, not kinds. All live entries are in memory once, so reads of the present
//! never touch the disk; the engine makes commits durable, keeps recent history and loads fast.
//!
//! ```text
//! commit() ─► queue ─► plan ─► engine (one frame, one sync) ─► witness
//!                                   └─► live entries ─► observers ─► acknowledgements
//! ```
//!
//! Invariants:
//! - Nothing is visible before it is on disk; nothing is acknowledged before it is visible.
//! - Revisions only grow and are never reused; those of failed commits are skipped.
//! - What was acknowledged is there at the next open, or opening fails and says what is missing.
//! - Nothing runs at idle.
//!
//! The module `log` is the only one that knows the engine: committing [`plan::Changes`], reading
//! history, and loading. Another engine takes its place behind the same [`Store`].

mod commit;
mod crew;
mod error;
mod housekeeping;
mod lease;
mod log;
mod model;
mod observe;
mod plan;
mod queue;
mod shared;
mod state;
mod store;
mod watch;
mod witness;

pub use crew::Crew;
pub use error::{Damage, Error};
pub use model::{
    Committed, Entry, Event, Expect, LeaseId, NewValue, Note, Observer, Op, Options, Range, Revision, Txn,
};
pub use store::Store;
pub use watch::Watch;
