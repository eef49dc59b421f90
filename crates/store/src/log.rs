//! The embedded engine: a write-ahead log that makes commits durable, keeps recent history and loads fast. It stores records;
//! conditions, live entries and watchers are elsewhere.
//!
//! A store's files form generations. `log-R` contains every write after revision R, until the next generation;
//! `snapshot-R` contains the entries that were live at R. A generation starts when the current log is full and the next is
//! prepared, or when the logs since the last snapshot have outgrown it: the committer continues in a new log at once, and in
//! the latter case another thread writes the snapshot. A generation is removed when a later one has its snapshot and all
//! history before that one is compacted. Loading reads the last snapshot and the logs after it.
//!
//! All files have one format: frames of records, each frame written at once and verified whenever it is read. Every write has
//! the revision that it replaces, so history is read without an index of keys.
//!
//! Invariants: a commit is one frame, and returns after its sync; frames are never changed, except that a failed one is
//! overwritten; a file gets its name only once its header (a log) or all of it (a snapshot) is on disk.

mod file;
mod frame;
pub mod fuzz;
mod generations;
pub(crate) mod history;
pub(crate) mod load;
pub(crate) mod past;
mod record;
mod snapshot;
mod spare;
mod write;

pub(crate) use generations::Generations;
pub(crate) use snapshot::Snapshot;
pub(crate) use write::{Engine, Next};
