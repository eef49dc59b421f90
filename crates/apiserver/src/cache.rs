//! The watch cache of one resource: its current objects and its recent events.
//!
//! The store calls `apply` before it acknowledges a write, so reads from the cache are linearizable. Events are kept in a
//! bounded ring that every watcher reads at its own pace; the ring never waits for a slow watcher. Older events come from
//! the store's history.

pub(crate) mod aging;
mod event;
#[cfg(test)]
pub(crate) mod tests;
mod unreadable;

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use corten_api::{Status, Value};
use corten_store::{Event as StoreEvent, Observer, Store};
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::object::{Form, Object, Written};
use crate::recent_writes::{RecentWrites, WrittenTree};
use unreadable::UnreadableObjects;

pub(crate) use event::{Change, Event, frame};

/// The ring holds at most this many events…
const RING_EVENTS: usize = 4096;
/// …and, past this many, no more text than this.
const RING_ALWAYS: usize = 256;
const RING_BYTES: usize = 16 << 20;

pub(crate) struct Cache {
    pub form: Form,
    store: Store,
    inner: RwLock<Inner>,
    progress: watch::Sender<u64>,
    /// The revision up to which the store has notified all observers, this cache included. The store's own revision is
    /// ahead of it during a notification, so it must not be taken for the revision of this cache.
    published: watch::Receiver<u64>,
    recent_writes: Arc<RecentWrites>,
    in_process_watchers: AtomicUsize,
    /// Set once the resource is no longer served in this form: its watches end.
    ended: AtomicBool,
}

/// Counts an in-process watcher of a cache until it is dropped.
pub(crate) struct InProcessWatcher(Arc<Cache>);

impl Drop for InProcessWatcher {
    fn drop(&mut self) {
        self.0.in_process_watchers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<Arc<str>, Arc<Object>>,
    unreadable: UnreadableObjects,
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    /// The number of objects whose text is in another version than the stored one.
    foreign: usize,
    /// Every event after this revision is in the ring.
    complete_after: u64,
    /// The revision of the newest event applied.
    revision: u64,
    /// The events since the objects were read, while they are being parsed.
    pending: Option<Vec<Arc<StoreEvent>>>,
}

/// The objects at a revision, in key order.
pub(crate) struct Snapshot {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
}

/// A reader that the ring has overtaken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overtaken {
    /// The oldest revision from which the ring has all events.
    pub complete_after: u64,
}

impl Cache {
    /// Loads the current objects and observes the store from there.
    pub(crate) fn start(form: Form, store: &Store, recent_writes: &Arc<RecentWrites>) -> Arc<Cache> {
        let cache = Arc::new(Cache {
            store: store.clone(),
            inner: RwLock::default(),
            progress: watch::Sender::new(0),
            published: store.progress(),
            recent_writes: recent_writes.clone(),
            in_process_watchers: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            form,
        });
        let prefix = cache.form.prefix.clone();
        // Objects are parsed without the lock: the store's committer waits for `apply`. Events that arrive meanwhile are kept.
        cache.inner.write().pending = Some(Vec::new());
        let (revision, entries) = store.observe(&prefix, cache.clone());
        let objects = cache.parse_all(&entries).into_iter().map(|o| (o.key.clone(), o)).collect();
        let unreadable = entries.iter().filter(|entry| entry.unreadable().is_some());
        let mut inner = cache.inner.write();
        inner.objects = objects;
        let unreadable: Vec<_> = unreadable.filter(|entry| !inner.objects.contains_key(&entry.key)).collect();
        inner.unreadable = unreadable.into_iter().map(|entry| (entry.key.clone(), entry.clone())).collect();
        inner.foreign = inner.objects.values().filter(|object| object.is_foreign).count();
        inner.revision = revision;
        inner.complete_after = revision;
        let pending = inner.pending.take().unwrap_or_default();
        cache.apply_to(&mut inner, &pending);
        let revision = inner.revision;
        drop(inner);
        cache.progress.send_replace(revision);
        cache
    }

    /// Parses entries, on all cores if there are many.
    fn parse_all(&self, entries: &[Arc<corten_store::Entry>]) -> Vec<Arc<Object>> {
        const WORTH_A_THREAD: usize = 512;
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(entries.len() / WORTH_A_THREAD + 1);
        let share = entries.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let readers: Vec<_> = entries
                .chunks(share)
                .map(|chunk| scope.spawn(|| chunk.iter().filter_map(|e| self.object(e)).collect::<Vec<_>>()))
                .collect();
            readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()).collect()
        })
    }

    /// The object of a store entry; parsed only if the entry has no note of a write handler, or one in another form.
    pub(crate) fn object(&self, entry: &corten_store::Entry) -> Option<Arc<Object>> {
        if entry.unreadable().is_some() {
            return self.object(&*self.store.read_again(entry)?);
        }
        let written = entry.note.as_ref().and_then(|note| note.downcast_ref::<Written>());
        if let Some(written) = written.filter(|written| written.form == self.form.id) {
            return Some(Arc::new(self.form.object(entry, written)));
        }
        match self.form.parse(entry) {
            Ok(object) => Some(Arc::new(object)),
            Err(err) => {
                tracing::error!(key = %entry.key, %err, "cannot parse stored object; skipping it");
                None
            }
        }
    }

    pub(crate) fn get(&self, namespace: &str, name: &str) -> Option<Arc<Object>> {
        self.inner.read().objects.get(&*self.form.key(namespace, name)).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.inner.read().objects.len()
    }

    /// True if the text of some object is in another version than the stored one.
    pub(crate) fn has_foreign(&self) -> bool {
        self.form.custom.is_some() && self.inner.read().foreign > 0
    }

    /// Ends all watches, and leaves the store: the resource is no longer served in this form.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.progress.send_modify(|_| {});
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Counts a watcher in this process, for as long as the returned guard lives.
    pub(crate) fn count_in_process_watcher(self: &Arc<Self>) -> InProcessWatcher {
        self.in_process_watchers.fetch_add(1, Ordering::AcqRel);
        InProcessWatcher(self.clone())
    }

    /// The tree to keep of an object that is about to be written; none without in-process watchers.
    pub(crate) fn written_tree(&self, object: Value) -> WrittenTree {
        if self.in_process_watchers.load(Ordering::Acquire) == 0 {
            return WrittenTree::default();
        }
        self.recent_writes.trim();
        WrittenTree::new(object, &self.form.kind, &self.form.api_version)
    }

    /// The revision of the newest event, which changes with every event.
    pub(crate) fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// The revision of this cache's state: nothing under its prefix changed since its last event.
    pub(crate) fn revision(&self) -> u64 {
        let published = *self.published.borrow();
        self.inner.read().revision.max(published)
    }

    /// Waits until every revision that a client can know, such as from another resource's watch, is applied.
    pub(crate) async fn catch_up(&self) {
        let current = self.store.revision();
        if *self.published.borrow() < current {
            // Fails once the store is closed: then there are no more events.
            let _ = self.published.clone().wait_for(|published| *published >= current).await;
        }
    }

    /// All objects of a namespace (of all namespaces if empty) after a key.
    pub(crate) fn snapshot(&self, namespace: &str, after: Option<&str>) -> Snapshot {
        // Read before the lock is taken: everything up to this revision is applied then.
        let revision = *self.published.borrow();
        let inner = self.inner.read();
        let objects = inner.range(&self.scope(namespace), after).map(|(_, o)| o.clone()).collect();
        Snapshot { objects, revision: revision.max(inner.revision) }
    }

    /// The objects at a past revision, if the ring reaches back to it and the store has not compacted it: a paginated list
    /// expires by time, not by the number of events since.
    pub(crate) fn snapshot_at(
        &self,
        namespace: &str,
        after: Option<&str>,
        revision: u64,
    ) -> Option<Snapshot> {
        let inner = self.inner.read();
        if revision < inner.complete_after || revision < self.store.compacted() {
            return None;
        }
        let scope = self.scope(namespace);
        let first = inner.ring.partition_point(|e| e.revision <= revision);
        let mut past: BTreeMap<Arc<str>, Arc<Object>> =
            inner.range(&scope, after).map(|(k, o)| (k.clone(), o.clone())).collect();
        for event in inner.ring.iter().skip(first).rev() {
            let object = event.current.as_ref().or(event.previous.as_ref());
            let Some(key) = object.map(|o| &o.key) else { continue };
            if !key.starts_with(&scope) || after.is_some_and(|a| &**key <= a) {
                continue;
            }
            match &event.previous {
                Some(previous) => past.insert(key.clone(), previous.clone()),
                None => past.remove(key),
            };
        }
        Some(Snapshot { objects: past.into_values().collect(), revision })
    }

    /// The objects at a past revision, from the store's history; an error if one of them cannot be read.
    pub(crate) async fn snapshot_from_history(
        &self,
        namespace: &str,
        after: Option<&str>,
        revision: u64,
    ) -> Result<Result<Snapshot, Status>, corten_store::Error> {
        let scope = self.scope(namespace);
        let from = after.map(|a| format!("{a}\0")).unwrap_or_default();
        let range = self.store.range_at(&scope, &from, usize::MAX, revision).await?;
        let objects = range.entries.iter().filter_map(|e| self.object(e)).collect();
        Ok(self.check_entries(range.entries.iter()).map(|()| Snapshot { objects, revision }))
    }

    pub(crate) fn scope(&self, namespace: &str) -> String {
        if namespace.is_empty() || !self.form.namespaced {
            self.form.prefix.clone()
        } else {
            format!("{}{namespace}/", self.form.prefix)
        }
    }

    /// The events of the ring after a revision, oldest first, and the revision they lead to: up to `limit` events, and the
    /// others of the last one's revision.
    pub(crate) fn events_after(
        &self,
        revision: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Overtaken> {
        let inner = self.inner.read();
        if revision < inner.complete_after {
            return Err(Overtaken { complete_after: inner.complete_after });
        }
        let first = inner.ring.partition_point(|e| e.revision <= revision);
        let mut events: Vec<Arc<Event>> = Vec::new();
        for event in inner.ring.iter().skip(first) {
            let last = events.last().map_or(0, |last| last.revision);
            if events.len() >= limit && event.revision != last {
                return Ok((events, last));
            }
            events.push(event.clone());
        }
        Ok((events, inner.revision.max(revision)))
    }

    /// The events after a revision, from the ring or from the store's history, and the revision they lead to. A
    /// compacted revision is an `Expired` error.
    pub(crate) async fn events_since(
        &self,
        revision: u64,
        limit: usize,
    ) -> Result<(Vec<Arc<Event>>, u64), Status> {
        if let Ok(found) = self.events_after(revision, limit) {
            return Ok(found);
        }
        // Rarely needed, and large.
        Box::pin(self.events_from_history(revision)).await
    }

    /// Events that have left the ring, from the store's history, up to where the ring begins.
    pub(crate) async fn events_from_history(&self, after: u64) -> Result<(Vec<Arc<Event>>, u64), Status> {
        const PAGE: usize = 500;
        let up_to = self.inner.read().complete_after;
        let events = self.store.events_since(&self.form.prefix, after, up_to, PAGE).await;
        let events = events.map_err(|error| match error {
            corten_store::Error::Compacted { requested, compacted } => {
                Status::expired(format!("too old resource version: {requested} ({compacted})"))
            }
            error => Status::internal(error),
        })?;
        // A watch that saw the object before must not take it for deleted.
        self.check_entries(events.iter().filter_map(|event| event.current.as_ref()))?;
        let reached = events.last().filter(|_| events.len() >= PAGE).map_or(up_to, |last| last.revision);
        Ok((events.iter().map(|e| Arc::new(self.event(e))).collect(), reached))
    }

    /// Drops the events up to a revision from the ring.
    pub(crate) fn forget_events(&self, up_to: u64) {
        let forgotten: Vec<Arc<Event>> = {
            let mut inner = self.inner.write();
            let count = inner.ring.partition_point(|event| event.revision <= up_to);
            let forgotten: Vec<_> = inner.ring.drain(..count).collect();
            if let Some(last) = forgotten.last() {
                inner.complete_after = last.revision;
                inner.ring_bytes -= forgotten.iter().map(|event| event.size()).sum::<usize>();
                let room = inner.ring.len();
                inner.ring.shrink_to(room);
            }
            forgotten
        };
        // Freed without the lock: the store's committer may wait for it.
        drop(forgotten);
    }

    fn event(&self, event: &StoreEvent) -> Event {
        let read = |entry: &Option<Arc<corten_store::Entry>>| entry.as_ref().and_then(|e| self.object(e));
        Event::new(event.revision, read(&event.current), read(&event.previous))
    }
}

impl Inner {
    fn range<'a>(
        &'a self,
        scope: &'a str,
        after: Option<&str>,
    ) -> impl Iterator<Item = (&'a Arc<str>, &'a Arc<Object>)> + use<'a> {
        let start = match after {
            Some(after) if after >= scope => Bound::Excluded(after),
            _ => Bound::Included(scope),
        };
        self.objects.range::<str, _>((start, Bound::Unbounded)).take_while(move |(k, _)| k.starts_with(scope))
    }

    /// Takes an object out of sight that cannot be read any more. Watches cannot continue from the ring, and end with the
    /// reason.
    fn hide(&mut self, revision: u64, entry: &Arc<corten_store::Entry>) {
        if let Some(previous) = self.objects.remove(&entry.key) {
            self.foreign -= usize::from(previous.is_foreign);
        }
        self.unreadable.insert(entry.key.clone(), entry.clone());
        self.ring.clear();
        self.ring_bytes = 0;
        self.complete_after = revision;
        self.revision = revision;
    }

    fn push(&mut self, event: Arc<Event>) {
        self.ring_bytes += event.size();
        self.ring.push_back(event);
        while self.ring.len() > RING_EVENTS || (self.ring.len() > RING_ALWAYS && self.ring_bytes > RING_BYTES)
        {
            let Some(old) = self.ring.pop_front() else { break };
            self.ring_bytes -= old.size();
            // Other events of this revision may still be in the ring; they are never read.
            self.complete_after = old.revision;
        }
    }
}

impl Observer for Cache {
    fn finished(&self) -> bool {
        self.has_ended()
    }

    fn apply(&self, events: &[Arc<StoreEvent>], _revision: u64) {
        let mut inner = self.inner.write();
        if let Some(pending) = &mut inner.pending {
            pending.extend_from_slice(events);
            return;
        }
        self.apply_to(&mut inner, events);
        let revision = inner.revision;
        drop(inner);
        self.progress.send_replace(revision);
    }
}

impl Cache {
    fn apply_to(&self, inner: &mut Inner, events: &[Arc<StoreEvent>]) {
        for event in events {
            let previous = inner.objects.get(&*event.key).cloned();
            let current = event.current.as_ref().and_then(|entry| self.object(entry));
            inner.unreadable.remove(&event.key);
            if let (Some(entry), None) = (&event.current, &current)
                && entry.unreadable().is_some()
            {
                inner.hide(event.revision, entry);
                continue;
            }
            let is_foreign = |object: &Option<Arc<Object>>| object.as_ref().is_some_and(|o| o.is_foreign);
            inner.foreign += usize::from(is_foreign(&current));
            inner.foreign -= usize::from(is_foreign(&previous));
            match &current {
                Some(object) => {
                    self.recent_writes.keep(object);
                    inner.objects.insert(event.key.clone(), object.clone())
                }
                None => inner.objects.remove(&*event.key),
            };
            inner.revision = event.revision;
            if current.is_some() || previous.is_some() {
                inner.push(Arc::new(Event::new(event.revision, current, previous)));
            }
        }
    }
}
