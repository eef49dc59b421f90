//! The types of the contract: entries, events, conditions and transactions.
//!
//! Values are opaque bytes. An [`Entry`] is immutable and shared: the live map, the events and every
//! reader point at the same allocation.

use std::{any::Any, sync::Arc, time::Duration};

use bytes::Bytes;

use crate::{
    Error, WorkerThreads,
    disk::{Disk, Kernel},
    sealing::{Plain, Sealing},
};

/// A position in the store's single history. All writes of a transaction, and all deletions with a lease, have one revision.
/// The first one of a new store is 1.
pub type Revision = u64;

/// The id of a lease. The store never reuses one, not even after a restart; a caller that chooses ids may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LeaseId(pub u64);

/// One version of one key.
#[derive(Clone, Debug)]
pub struct Entry {
    pub key: Arc<str>,
    pub value: Bytes,
    /// The revision that created the key; unchanged by later puts.
    pub create_revision: Revision,
    /// The revision of this version.
    pub mod_revision: Revision,
    /// 1 for the version that created the key, one more for each put since.
    pub version: u64,
    pub lease: Option<LeaseId>,
    /// The writer's note about the value. It is never stored, so it is absent after a restart.
    pub note: Option<Note>,
}

/// Data that a writer already has about a value, passed to observers so that they need not compute it again.
pub type Note = Arc<dyn Any + Send + Sync>;

/// One change of one key.
#[derive(Clone, Debug)]
pub struct Event {
    pub revision: Revision,
    pub key: Arc<str>,
    /// `None` when the key was deleted.
    pub current: Option<Arc<Entry>>,
    /// `None` when the key was created.
    pub previous: Option<Arc<Entry>>,
}

/// The precondition of an operation on its key, and so of its whole transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expect {
    Any,
    Absent,
    Present,
    /// The key's current version has this revision; 0 means that the key is absent.
    ModRevision(Revision),
}

impl Expect {
    pub(crate) fn holds(self, current: Option<&Arc<Entry>>) -> bool {
        match self {
            Expect::Any => true,
            Expect::Absent => current.is_none(),
            Expect::Present => current.is_some(),
            Expect::ModRevision(revision) => current.map_or(0, |entry| entry.mod_revision) == revision,
        }
    }
}

/// The bytes of a put, with an optional place for the revision that only the committer knows.
///
/// A caller that reserves capacity for the revision's digits (20 at most) saves a copy.
#[derive(Clone, Debug, Default)]
pub struct NewValue {
    pub bytes: Vec<u8>,
    /// The offset at which the decimal revision of this write is inserted into `bytes` before they are stored.
    pub revision_at: Option<usize>,
    pub note: Option<Note>,
}

/// More unused capacity than this is not worth keeping for as long as the entry lives.
const MAX_SLACK: usize = 64;

impl NewValue {
    /// The stored bytes, in an allocation of about their size: they live as long as the entry.
    pub(crate) fn at(self, revision: Revision) -> Bytes {
        let NewValue { mut bytes, revision_at, note: _ } = self;
        if let Some(at) = revision_at {
            let digits = revision.to_string();
            bytes.reserve_exact(digits.len());
            bytes.splice(at..at, digits.into_bytes());
        }
        if bytes.capacity() - bytes.len() > MAX_SLACK {
            bytes.shrink_to_fit();
        }
        Bytes::from(bytes)
    }
}

impl From<Vec<u8>> for NewValue {
    fn from(bytes: Vec<u8>) -> Self {
        NewValue { bytes, revision_at: None, note: None }
    }
}

#[derive(Clone, Debug)]
pub enum Op {
    Put {
        key: Arc<str>,
        expect: Expect,
        value: NewValue,
        lease: Option<LeaseId>,
    },
    /// Deleting an absent key under [`Expect::Any`] succeeds, writes nothing and has no event.
    Delete {
        key: Arc<str>,
        expect: Expect,
    },
    Check {
        key: Arc<str>,
        expect: Expect,
    },
}

impl Op {
    pub(crate) fn key(&self) -> &Arc<str> {
        match self {
            Op::Put { key, .. } | Op::Delete { key, .. } | Op::Check { key, .. } => key,
        }
    }

    pub(crate) fn expect(&self) -> Expect {
        match self {
            Op::Put { expect, .. } | Op::Delete { expect, .. } | Op::Check { expect, .. } => *expect,
        }
    }

    /// The value that it writes, if any.
    pub(crate) fn value(&self) -> Option<&NewValue> {
        match self {
            Op::Put { value, .. } => Some(value),
            Op::Delete { .. } | Op::Check { .. } => None,
        }
    }
}

/// A transaction, all or nothing. The operations are on distinct keys; all writes have one revision and are published
/// together.
///
/// A client cannot resume a watch between two events of one revision, so no transaction should write two keys under one
/// watched prefix.
#[derive(Clone, Debug, Default)]
pub struct Txn {
    pub ops: Vec<Op>,
}

impl From<Op> for Txn {
    fn from(op: Op) -> Self {
        Txn { ops: vec![op] }
    }
}

/// The result of a transaction.
#[derive(Clone, Debug)]
pub struct Committed {
    /// The revision of all its writes, or the revision at which it was decided if it wrote nothing.
    pub revision: Revision,
    /// One per operation: the new entry of a put, the removed one of a delete, the current one of a check.
    pub entries: Vec<Option<Arc<Entry>>>,
}

/// A page of entries in key order.
#[derive(Clone, Debug)]
pub struct Range {
    pub entries: Vec<Arc<Entry>>,
    /// The revision of the state that the entries are from.
    pub revision: Revision,
    /// The number of further entries beyond the limit.
    pub remaining: u64,
}

/// Receives every change under a prefix, synchronously, on the committing thread.
///
/// Every method must return quickly, and must not call [`crate::Store::observe`], `watch` or `close`.
pub trait Observer: Send + Sync {
    /// `events` are in revision order and never empty; `revision` is the store's revision after them. All events of a
    /// revision are in one call.
    /// The writers' acknowledgements wait for this to return.
    fn apply(&self, events: &[Arc<Event>], revision: Revision);

    /// Called before events are delivered; once it returns true, the store drops this observer.
    fn finished(&self) -> bool {
        false
    }

    /// Called when the store was closed: there are no more events.
    fn closed(&self) {}
}

/// The options of the embedded store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The age of history at which it is compacted automatically.
    pub history: Duration,
    /// Opens the store although acknowledged writes are damaged or missing: the readable ones are kept, the rest is
    /// dropped, and all earlier history counts as compacted.
    pub accept_loss: bool,
    /// A snapshot is taken when the logs since the last one have grown to this size, or to the size of that snapshot if
    /// it is larger. The next open reads about as much.
    pub snapshot_bytes: u64,
    /// The revision of a store without any write: 0, or 1 as in etcd.
    pub first_revision: Revision,
    /// The threads that submit requests; with them, a commit may wait for more requests while all are busy.
    pub worker_threads: Option<Arc<WorkerThreads>>,
    /// Encrypts values on disk; by default they are plain.
    pub sealing: Arc<dyn Sealing>,
    pub disk: Arc<dyn Disk>,
    /// Keeps past versions beyond compaction, for [`crate::Store::versions`] and [`crate::Store::past_range`].
    pub keep: Option<Keep>,
}

/// The bounds of history beyond compaction. It is removed in parts: up to a quarter of either may be kept longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keep {
    pub age: Duration,
    /// The bytes of all files.
    pub bytes: u64,
}

/// One version of a key that history has.
#[derive(Clone, Debug)]
pub struct PastVersion {
    pub revision: Revision,
    /// The time of its commit in milliseconds since 1970; unknown for one from before history was kept.
    pub time_ms: Option<u64>,
    /// `None` for a deletion.
    pub entry: Option<Arc<Entry>>,
}

/// The beginning of history beyond compaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The oldest state that can be read.
    pub revision: Revision,
    /// The first time that can be asked for.
    pub time_ms: Option<u64>,
}

impl Default for Options {
    fn default() -> Self {
        let history = Duration::from_secs(5 * 60);
        Options {
            history,
            accept_loss: false,
            snapshot_bytes: 64 << 20,
            first_revision: 0,
            worker_threads: None,
            sealing: Arc::new(Plain),
            disk: Arc::new(Kernel),
            keep: None,
        }
    }
}

impl Txn {
    /// Rejects a transaction that is invalid in every state of the store.
    pub(crate) fn validate(&self) -> Result<(), Error> {
        let mut bytes = 0_usize;
        for (index, op) in self.ops.iter().enumerate() {
            if self.ops[..index].iter().any(|earlier| earlier.key() == op.key()) {
                return Err(Error::Invalid("two operations of a transaction are on the same key"));
            }
            if let Some(value) = op.value() {
                if value.revision_at.is_some_and(|at| at > value.bytes.len()) {
                    return Err(Error::Invalid("the place for the revision is past the value"));
                }
                bytes = bytes.saturating_add(value.bytes.len());
            }
        }
        if bytes > MAX_BYTES {
            return Err(Error::Invalid("a transaction is larger than 64 MiB"));
        }
        Ok(())
    }
}

/// Well below the limit of a frame, so that no transaction can fail its batch.
pub(crate) const MAX_BYTES: usize = 64 << 20;
