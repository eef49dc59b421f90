//! The watcher behind every watch, of network clients (`verbs::watch`) and of parts of this process (`local`).
//!
//! A watcher is a cursor into its cache's ring: it has no queue and never delays a write or another watcher. One that the
//! ring has overtaken continues from the store's history, and is refused once that is compacted.
//!
//! Invariant: a cursor is never between two events of one revision, because no watch could be resumed there.

use std::ops::ControlFlow;
use std::sync::Arc;

use corten_api::Status;
use tokio::sync::watch;

use crate::cache::{Cache, Change, Event, Snapshot};
use crate::filter::Filter;

/// The number of events that are read in one go, before other tasks get their turn.
const BATCH: usize = 256;

pub(crate) struct Watcher {
    cache: Arc<Cache>,
    filter: Filter,
    progress: watch::Receiver<u64>,
    shutdown: watch::Receiver<bool>,
    /// All events up to this revision have been read.
    cursor: u64,
}

impl Watcher {
    /// A watcher of the objects that match a filter, which ends when `shutdown` is true. It begins with `start_after` or
    /// `snapshot`.
    pub(crate) fn new(cache: Arc<Cache>, filter: Filter, shutdown: watch::Receiver<bool>) -> Watcher {
        Watcher { progress: cache.progress(), cache, filter, shutdown, cursor: 0 }
    }

    /// Sets the revision after which events are read.
    pub(crate) fn start_after(&mut self, revision: u64) {
        self.cursor = revision;
    }

    pub(crate) fn cursor(&self) -> u64 {
        self.cursor
    }

    /// The current objects that match. Events are then read from the snapshot's revision on. An error if an object cannot be
    /// read.
    pub(crate) fn snapshot(&mut self) -> Result<Snapshot, Status> {
        self.cache.check_complete()?;
        let mut snapshot = self.cache.snapshot(&self.filter.namespace, None);
        // An object that became unreadable since the check is not in it.
        self.cache.check_complete()?;
        snapshot.objects.retain(|object| self.filter.matches(object));
        self.cursor = snapshot.revision;
        Ok(snapshot)
    }

    /// Reads the next events and calls `show` with those that match, until it breaks; then only with the others of the same
    /// revision.
    pub(crate) async fn read_events(
        &mut self,
        mut show: impl FnMut(&Arc<Event>, Change) -> ControlFlow<()>,
    ) -> Result<(), Status> {
        self.progress.mark_unchanged();
        let (events, reached) = self.cache.events_since(self.cursor, BATCH).await?;
        for events in events.chunk_by(|a, b| a.revision == b.revision) {
            let mut is_enough = false;
            for event in events {
                self.cursor = event.revision;
                let Some(change) = event.seen_through(|object| self.filter.matches(object)) else { continue };
                is_enough |= show(event, change).is_break();
            }
            if is_enough {
                self.progress.mark_changed();
                return Ok(());
            }
        }
        self.cursor = self.cursor.max(reached);
        if self.cursor < *self.progress.borrow() {
            self.progress.mark_changed();
        }
        Ok(())
    }

    /// Waits until there are events to read. False once there will be none: the server stops, or the resource is no longer
    /// served. Cancel-safe.
    pub(crate) async fn changed(&mut self) -> bool {
        if self.cache.has_ended() {
            return false;
        }
        tokio::select! {
            changed = self.progress.changed() => changed.is_ok() && !self.cache.has_ended(),
            () = crate::listen::stopped(&mut self.shutdown) => false,
        }
    }

    /// Moves the cursor to the cache's revision if no event is left to read before it, and returns the cursor.
    pub(crate) fn advance(&mut self) -> u64 {
        let revision = self.cache.revision();
        if let Ok((events, _)) = self.cache.events_after(self.cursor, 1)
            && events.is_empty()
        {
            self.cursor = self.cursor.max(revision);
        }
        self.cursor
    }
}

#[cfg(test)]
mod tests {
    use corten_store::{Options, Store, Txn};

    use super::*;
    use crate::cache::tests::{configmaps, put_in, put_op};

    /// The revisions that one call of `read_events` shows, at most `limit`.
    async fn read(watcher: &mut Watcher, limit: usize) -> Vec<u64> {
        let mut shown = Vec::new();
        let show = |event: &Arc<Event>, _| {
            shown.push(event.revision);
            if shown.len() == limit { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        watcher.read_events(show).await.unwrap();
        shown
    }

    #[tokio::test]
    async fn events_of_history_and_ring_are_read_without_a_new_write() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::default()).unwrap();
        put_in(&store, "other", "a", "1").await;
        let cache = Cache::start(configmaps(), &store, &Arc::default());
        let mut expected = Vec::new();
        for name in ["b", "c"] {
            expected.push(put_in(&store, "n", name, "1").await);
        }
        let mut filter = Filter::default();
        filter.namespace = "n".into();
        let (stop, shutdown) = watch::channel(false);
        let mut watcher = Watcher::new(cache, filter, shutdown);
        watcher.start_after(0);
        assert_eq!(read(&mut watcher, 9).await, [0; 0], "the only event of the history does not match");
        assert!(watcher.changed().await, "the ring has more");
        assert_eq!(read(&mut watcher, 1).await, expected[..1]);
        assert!(watcher.changed().await, "the reader stopped before the last event");
        assert_eq!(read(&mut watcher, 9).await, expected[1..]);
        assert_eq!((watcher.cursor(), watcher.snapshot().unwrap().objects.len()), (expected[1], 2));
        let ops = ["d", "e", "f"].map(|name| put_op("n", name, "1"));
        let together = store.commit(Txn { ops: ops.into() }).await.unwrap().revision;
        let after = put_in(&store, "n", "g", "1").await;
        assert_eq!(read(&mut watcher, 1).await, [together; 3], "a revision is never split");
        assert_eq!(read(&mut watcher, 9).await, [after]);
        stop.send_replace(true);
        assert!(!watcher.changed().await);
    }
}
