//! The embedded engine: an append-only log that makes commits durable, keeps recent history and loads
//! fast. It knows records; conditions, live entries and watchers are not its business.
//!
//! A store's files come in generations. `log-R` holds every write after revision R, until the next
//! generation begins; `snapshot-R` holds the entries that were live at R. A generation begins when its
//! log is full and another was prepared, or when the logs since the last snapshot have outgrown it: the
//! committer goes on in a new log at once, and in the latter case the snapshot is written beside it. A
//! generation goes when a later one has its snapshot and nothing
//! before it may be asked for any more. What is loaded is the last snapshot and the logs after it.
//!
//! All files are of one form: frames of records, each frame written at once and verified whenever it
//! is read. Every write names the revision it replaces, so the past is found without an index of keys.
//!
//! Invariants: a commit is one frame, and returns after its sync; frames are never changed, except
//! that one which failed is overwritten; a file is named only once its beginning (a log) or all of it
//! (a snapshot) is on disk.

mod file;
mod frame;
mod generations;
pub(crate) mod history;
pub(crate) mod load;
mod record;
mod snapshot;
mod spare;
mod write;

pub(crate) use generations::Generations;
pub(crate) use snapshot::Snapshot;
pub(crate) use write::Engine;
