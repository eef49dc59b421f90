//! One event of a watch cache, and its JSON frames, which all watchers share.

use std::sync::{Arc, OnceLock};

use bytes::Bytes;

use crate::object::Object;

/// One change of one object.
#[derive(Debug)]
pub(crate) struct Event {
    pub revision: u64,
    /// `None` when it was deleted.
    pub current: Option<Arc<Object>>,
    /// `None` when it was created.
    pub previous: Option<Arc<Object>>,
    frames: Frames,
}

/// The event as watchers receive it in JSON, encoded once for all of them.
#[derive(Debug, Default)]
struct Frames {
    added: OnceLock<Bytes>,
    modified: OnceLock<Bytes>,
    deleted: OnceLock<Bytes>,
}

/// The type of an event for one watcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Change {
    Added,
    Modified,
    Deleted,
}

impl Change {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Change::Added => "ADDED",
            Change::Modified => "MODIFIED",
            Change::Deleted => "DELETED",
        }
    }
}

impl Event {
    pub(crate) fn new(revision: u64, current: Option<Arc<Object>>, previous: Option<Arc<Object>>) -> Event {
        Event { revision, current, previous, frames: Frames::default() }
    }

    /// The type of this event for a watcher of the objects that satisfy `visible`; `None` if it is not affected.
    pub(crate) fn seen_through(&self, visible: impl Fn(&Object) -> bool) -> Option<Change> {
        let now = self.current.as_deref().is_some_and(&visible);
        let before = self.previous.as_deref().is_some_and(&visible);
        match (before, now) {
            (false, true) => Some(Change::Added),
            (true, true) => Some(Change::Modified),
            (true, false) => Some(Change::Deleted),
            (false, false) => None,
        }
    }

    /// The object of a change: its new state, or its last state for a deletion.
    pub(crate) fn object(&self, change: Change) -> &Arc<Object> {
        let (first, second) = match change {
            Change::Deleted => (&self.previous, &self.current),
            _ => (&self.current, &self.previous),
        };
        first.as_ref().or(second.as_ref()).expect("an event has a current or a previous object")
    }

    /// The object of a change, and its text at the revision of the event.
    pub(crate) fn shown(&self, change: Change) -> (&Arc<Object>, Bytes) {
        let object = self.object(change);
        match change {
            Change::Deleted => (object, object.json_at(self.revision)),
            _ => (object, object.json.clone()),
        }
    }

    /// The JSON frame of a change in the stored form.
    pub(crate) fn frame(&self, change: Change) -> &Bytes {
        let cell = match change {
            Change::Added => &self.frames.added,
            Change::Modified => &self.frames.modified,
            Change::Deleted => &self.frames.deleted,
        };
        cell.get_or_init(|| frame(change.name(), &self.shown(change).1).into())
    }

    /// The bytes of text that the event holds.
    pub(super) fn size(&self) -> usize {
        [&self.current, &self.previous].into_iter().flatten().map(|o| o.json.len()).sum()
    }
}

/// One event on the JSON wire.
pub(crate) fn frame(change: &str, object: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(object.len() + 40);
    out.extend_from_slice(b"{\"type\":\"");
    out.extend_from_slice(change.as_bytes());
    out.extend_from_slice(b"\",\"object\":");
    out.extend_from_slice(object);
    out.extend_from_slice(b"}\n");
    out
}
