//! The watch cache of one resource: its current objects, the recent events, and whoever waits for more.
//!
//! The store calls `apply` before it acknowledges a write, so that what was acknowledged is already here:
//! reads from the cache are linearizable. Events are kept in a bounded ring that every watcher reads at its
//! own pace; a watcher the ring has overtaken is never waited for. Older events come from the store's
//! history.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use corten_api::{Status, Value};
use corten_store::{Event as StoreEvent, Observer, Store};
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;

use crate::object::{Form, Object};

/// The ring holds at most this many events…
const RING_EVENTS: usize = 4096;
/// …and, past this many, no more text than this.
const RING_ALWAYS: usize = 256;
const RING_BYTES: usize = 16 << 20;
/// As many trees of what was written last are kept.
const RECENT: usize = 64;

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

/// The event as watchers in JSON see it, made once for all of them.
#[derive(Debug, Default)]
struct Frames {
    added: OnceLock<Bytes>,
    modified: OnceLock<Bytes>,
    deleted: OnceLock<Bytes>,
}

/// What an event is to one watcher.
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
    fn new(revision: u64, current: Option<Arc<Object>>, previous: Option<Arc<Object>>) -> Event {
        Event { revision, current, previous, frames: Frames::default() }
    }

    /// What this event is to someone who sees the objects `visible` lets through.
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

    /// The object that a change is about: as it is, or of a deletion as it was.
    pub(crate) fn object(&self, change: Change) -> &Arc<Object> {
        let (first, second) = match change {
            Change::Deleted => (&self.previous, &self.current),
            _ => (&self.current, &self.previous),
        };
        first.as_ref().or(second.as_ref()).expect("an event has an object")
    }

    /// The object to show for a change, and its text.
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

    fn size(&self) -> usize {
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

pub(crate) struct Cache {
    pub form: Form,
    store: Store,
    inner: RwLock<Inner>,
    progress: watch::Sender<u64>,
    /// How far the store has told everybody what happened, this cache included. Its own revision is ahead of that
    /// while it tells: who took it for what is in here would miss what is not yet.
    published: watch::Receiver<u64>,
    recent: Arc<Recent>,
    /// How many parts of this process follow it.
    followers: AtomicUsize,
}

/// The objects that were written last, of all kinds that parts of this process follow: for so long their trees are
/// kept, so that those who follow and those who write next need not read the text.
#[derive(Default)]
pub(crate) struct Recent(Mutex<VecDeque<Arc<Object>>>);

impl Recent {
    fn push(&self, object: Arc<Object>) {
        self.0.lock().push_back(object);
    }

    /// Lets go of what is not recent any more. For those who make trees, not for the committer: memory is given back where
    /// it was taken.
    fn trim(&self) {
        loop {
            let mut objects = self.0.lock();
            let old = if objects.len() > RECENT { objects.pop_front() } else { None };
            drop(objects);
            let Some(old) = old else { return };
            old.forget_recent();
        }
    }
}

/// Somebody in this process who follows a cache, for as long as it is kept.
pub(crate) struct Follower(Arc<Cache>);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.followers.fetch_sub(1, Ordering::AcqRel);
    }
}

#[derive(Default)]
struct Inner {
    objects: BTreeMap<Arc<str>, Arc<Object>>,
    ring: VecDeque<Arc<Event>>,
    ring_bytes: usize,
    /// Every event after this revision is in the ring.
    complete_after: u64,
    /// Of the newest event applied.
    revision: u64,
}

/// The objects of a moment, in key order.
pub(crate) struct Snapshot {
    pub objects: Vec<Arc<Object>>,
    pub revision: u64,
}

/// A reader that the ring has overtaken.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Overtaken {
    /// The oldest revision that can still be followed from here.
    pub complete_after: u64,
}

impl Cache {
    /// Loads the current objects and follows the store from there.
    pub(crate) fn start(form: Form, store: &Store, recent: &Arc<Recent>) -> Arc<Cache> {
        let cache = Arc::new(Cache {
            store: store.clone(),
            inner: RwLock::default(),
            progress: watch::Sender::new(0),
            published: store.progress(),
            recent: recent.clone(),
            followers: AtomicUsize::new(0),
            form,
        });
        let prefix = cache.form.prefix.clone();
        // Held until the objects are in: an event that comes meanwhile waits in `apply`.
        let mut inner = cache.inner.write();
        let (revision, entries) = store.observe(&prefix, cache.clone());
        inner.objects = cache.read_all(&entries).into_iter().map(|o| (o.key.clone(), o)).collect();
        inner.revision = revision;
        inner.complete_after = revision;
        drop(inner);
        cache.progress.send_replace(revision);
        cache
    }

    /// Reads many entries, on all cores when they are many.
    fn read_all(&self, entries: &[Arc<corten_store::Entry>]) -> Vec<Arc<Object>> {
        const WORTH_A_THREAD: usize = 512;
        let threads = std::thread::available_parallelism()
            .map_or(1, usize::from)
            .min(entries.len() / WORTH_A_THREAD + 1);
        let share = entries.len().div_ceil(threads).max(1);
        std::thread::scope(|scope| {
            let readers: Vec<_> = entries
                .chunks(share)
                .map(|chunk| scope.spawn(|| chunk.iter().filter_map(|e| self.read(e)).collect::<Vec<_>>()))
                .collect();
            readers.into_iter().flat_map(|reader| reader.join().unwrap_or_default()).collect()
        })
    }

    fn read(&self, entry: &corten_store::Entry) -> Option<Arc<Object>> {
        if let Some(written) = entry.note.as_ref().and_then(|note| note.downcast_ref()) {
            return Some(Arc::new(self.form.object(entry, written)));
        }
        match self.form.read(entry) {
            Ok(object) => Some(Arc::new(object)),
            Err(error) => {
                tracing::error!(key = %entry.key, %error, "stored object cannot be read");
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

    /// Counts somebody in this process as following.
    pub(crate) fn follower(self: &Arc<Self>) -> Follower {
        self.followers.fetch_add(1, Ordering::AcqRel);
        Follower(self.clone())
    }

    /// What is to be kept of an object that is written, for those in this process who follow; nothing if nobody does.
    pub(crate) fn keep(&self, mut object: Value) -> Option<Box<Value>> {
        if self.followers.load(Ordering::Acquire) == 0 {
            return None;
        }
        self.recent.trim();
        let map = object.make_object();
        map.insert("kind", self.form.kind);
        map.insert("apiVersion", self.form.api_version.as_str());
        Some(Box::new(object))
    }

    /// Wakes whenever there are new events.
    pub(crate) fn progress(&self) -> watch::Receiver<u64> {
        self.progress.subscribe()
    }

    /// The revision this cache is the state of: nothing under its prefix happened since its own last event.
    pub(crate) fn revision(&self) -> u64 {
        let published = *self.published.borrow();
        self.inner.read().revision.max(published)
    }

    /// Waits until everything is in here that can be known of elsewhere, such as by a watcher of something else.
    pub(crate) async fn catch_up(&self) {
        let happened = self.store.revision();
        if *self.published.borrow() < happened {
            // Fails once the store is closed: then nothing more happens.
            let _ = self.published.clone().wait_for(|published| *published >= happened).await;
        }
    }

    /// All objects under a namespace (all if empty) that come after a key.
    pub(crate) fn snapshot(&self, namespace: &str, after: Option<&str>) -> Snapshot {
        // Read first: everything up to it is applied once the lock is held.
        let revision = *self.published.borrow();
        let inner = self.inner.read();
        let objects = inner.range(&self.scope(namespace), after).map(|(_, o)| o.clone()).collect();
        Snapshot { objects, revision: revision.max(inner.revision) }
    }

    /// The objects as they were at a revision, if the ring reaches back that far and the store still knows it: how much
    /// happened since must not decide how long a list can be continued.
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

    /// The objects as they were at a revision, from the store's history.
    pub(crate) async fn snapshot_from_history(
        &self,
        namespace: &str,
        after: Option<&str>,
        revision: u64,
    ) -> Result<Snapshot, corten_store::Error> {
        let scope = self.scope(namespace);
        let from = after.map(|a| format!("{a}\0")).unwrap_or_default();
        let range = self.store.range_at(&scope, &from, usize::MAX, revision).await?;
        Ok(Snapshot { objects: range.entries.iter().filter_map(|e| self.read(e)).collect(), revision })
    }

    pub(crate) fn scope(&self, namespace: &str) -> String {
        if namespace.is_empty() || !self.form.namespaced {
            self.form.prefix.clone()
        } else {
            format!("{}{namespace}/", self.form.prefix)
        }
    }

    /// Up to `limit` events after a revision, oldest first, and the revision they lead to.
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
        let events: Vec<_> = inner.ring.iter().skip(first).take(limit).cloned().collect();
        let reached = if events.len() < limit { inner.revision } else { events[limit - 1].revision };
        Ok((events, reached.max(revision)))
    }

    /// The events after a revision, wherever they are kept, and the revision they lead to. Refuses a revision
    /// of which nobody knows any more what came after it.
    pub(crate) async fn follow(&self, revision: u64, limit: usize) -> Result<(Vec<Arc<Event>>, u64), Status> {
        if let Ok(found) = self.events_after(revision, limit) {
            return Ok(found);
        }
        self.events_from_history(revision).await.map_err(|error| match error {
            corten_store::Error::Compacted { requested, compacted } => {
                Status::expired(format!("too old resource version: {requested} ({compacted})"))
            }
            error => Status::internal(error),
        })
    }

    /// Events that have left the ring, from the store's history, up to where the ring begins.
    pub(crate) async fn events_from_history(
        &self,
        after: u64,
    ) -> Result<(Vec<Arc<Event>>, u64), corten_store::Error> {
        const PAGE: usize = 500;
        let up_to = self.inner.read().complete_after;
        let events = self.store.events_since(&self.form.prefix, after, up_to, PAGE).await?;
        let reached = if events.len() < PAGE { up_to } else { events[PAGE - 1].revision };
        Ok((events.iter().map(|e| Arc::new(self.event(e))).collect(), reached))
    }

    fn event(&self, event: &StoreEvent) -> Event {
        let read = |entry: &Option<Arc<corten_store::Entry>>| entry.as_ref().and_then(|e| self.read(e));
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

    fn push(&mut self, event: Arc<Event>) {
        self.ring_bytes += event.size();
        self.ring.push_back(event);
        while self.ring.len() > RING_EVENTS || (self.ring.len() > RING_ALWAYS && self.ring_bytes > RING_BYTES)
        {
            let Some(old) = self.ring.pop_front() else { break };
            self.ring_bytes -= old.size();
            self.complete_after = old.revision;
        }
    }
}

impl Observer for Cache {
    fn apply(&self, events: &[Arc<StoreEvent>], _revision: u64) {
        let mut inner = self.inner.write();
        for event in events {
            let previous = inner.objects.get(&*event.key).cloned();
            let current = event.current.as_ref().and_then(|entry| self.read(entry));
            match &current {
                Some(object) => {
                    if object.recent().is_some() {
                        self.recent.push(object.clone());
                    }
                    inner.objects.insert(event.key.clone(), object.clone())
                }
                None => inner.objects.remove(&*event.key),
            };
            inner.revision = event.revision;
            if current.is_some() || previous.is_some() {
                inner.push(Arc::new(Event::new(event.revision, current, previous)));
            }
        }
        let revision = inner.revision;
        drop(inner);
        self.progress.send_replace(revision);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_store::{Expect, Op, Options};

    fn configmaps() -> Form {
        let rules = corten_registry::rules("", "configmaps").unwrap();
        Form {
            rules,
            kind: "ConfigMap",
            api_version: "v1".into(),
            head: corten_api::encoded::head_len("ConfigMap", "v1") as u32,
            namespaced: true,
            prefix: "/registry/configmaps/".into(),
        }
    }

    async fn put(store: &Store, name: &str, label: &str) -> u64 {
        let text =
            format!(r#"{{"metadata":{{"name":"{name}","namespace":"n","labels":{{"l":"{label}"}}}}}}"#);
        let op = Op::Put {
            key: format!("/registry/configmaps/n/{name}").into(),
            expect: Expect::Any,
            value: text.into_bytes().into(),
            lease: None,
        };
        store.commit(op.into()).await.unwrap().revision
    }

    #[tokio::test]
    async fn events_are_followed_and_undone() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let cache = Cache::start(configmaps(), &store, &Arc::default());
        let first = put(&store, "a", "1").await;
        let second = put(&store, "a", "2").await;
        put(&store, "b", "1").await;
        let (events, _) = cache.events_after(first, 10).unwrap();
        let labelled = |value: &'static str| move |o: &Object| o.projection.label("l") == Some(value);
        assert_eq!(events[0].seen_through(labelled("1")), Some(Change::Deleted));
        assert_eq!(events[0].seen_through(labelled("2")), Some(Change::Added));
        assert_eq!(events[1].seen_through(labelled("2")), None);
        let names = |revision| {
            let objects = cache.snapshot_at("n", None, revision).unwrap().objects;
            objects.iter().map(|o| (o.name.to_string(), o.revision)).collect::<Vec<_>>()
        };
        assert_eq!(names(first), [("a".to_owned(), first)]);
        assert_eq!(names(second), [("a".to_owned(), second)]);
        assert_eq!(cache.snapshot("n", None).objects.len(), 2);
        store.compact(second).await.unwrap();
        assert!(cache.snapshot_at("n", None, first).is_none(), "what is compacted is gone from lists");
        assert_eq!(names(second), [("a".to_owned(), second)]);
    }

    #[tokio::test]
    async fn what_was_just_written_need_not_be_read() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let cache = Cache::start(configmaps(), &store, &Arc::default());
        let write = async |name: &str| {
            let object =
                corten_api::value!({"metadata": {"name": name, "namespace": "n"}, "data": {"k": "v"}});
            let value = crate::verbs::new_value(&cache, object);
            let op = Op::Put { key: cache.form.key("n", name), expect: Expect::Any, value, lease: None };
            store.commit(op.into()).await.unwrap();
            cache.get("n", name).unwrap()
        };
        assert_eq!(write("a").await.recent(), None, "nobody follows");
        let follower = cache.follower();
        let first = write("a").await;
        let read = corten_api::json::parse(&first.json).unwrap();
        assert_eq!(first.recent().as_deref(), Some(&read));
        assert_eq!((first.tree(), first.recent(), first.tree()), (read.clone(), None, read));
        let second = write("b").await;
        for other in 0..=RECENT {
            assert!(second.recent().is_some(), "{other}");
            write(&format!("other-{other}")).await;
        }
        assert_eq!(second.recent(), None, "others are more recent");
        drop(follower);
        assert_eq!(write("c").await.recent(), None, "nobody follows any more");
    }

    /// Looks into a cache while the store tells of a change, just before the cache hears of it.
    #[derive(Default)]
    struct Early {
        cache: OnceLock<Arc<Cache>>,
        /// Revisions of changes, what the cache was said to be the state of then, and how many objects it had.
        seen: Mutex<Vec<(u64, [u64; 2], usize)>>,
    }

    impl Observer for Early {
        fn apply(&self, _: &[Arc<StoreEvent>], revision: u64) {
            let cache = self.cache.get().expect("it is there before anything changes");
            let snapshot = cache.snapshot("n", None);
            self.seen.lock().push((revision, [snapshot.revision, cache.revision()], snapshot.objects.len()));
        }
    }

    #[tokio::test]
    async fn no_revision_is_shown_before_its_objects() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let early = Arc::new(Early::default());
        store.observe("/registry/configmaps/", early.clone());
        let cache = early.cache.get_or_init(|| Cache::start(configmaps(), &store, &Arc::default()));
        let first = put(&store, "a", "1").await;
        let second = put(&store, "b", "1").await;
        cache.catch_up().await;
        assert_eq!((cache.revision(), cache.snapshot("n", None).revision), (second, second));
        let seen = early.seen.lock().clone();
        assert_eq!(seen, [(first, [first - 1; 2], 0), (second, [first; 2], 1)]);
    }

    #[tokio::test]
    async fn history_from_before_the_ring_ends_where_it_is_compacted() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), Options::default()).unwrap();
        let first = put(&store, "a", "1").await;
        let second = put(&store, "a", "2").await;
        let cache = Cache::start(configmaps(), &store, &Arc::default());
        assert!(cache.events_after(first, 10).is_err(), "older than the ring");
        let (events, reached) = cache.events_from_history(first).await.unwrap();
        assert_eq!((events.len(), events[0].revision, reached), (1, second, second));
        let past = cache.snapshot_from_history("n", None, first).await.unwrap();
        assert_eq!(past.objects[0].projection.label("l"), Some("1"));
        store.compact(second).await.unwrap();
        let refused = cache.events_from_history(first).await.unwrap_err();
        assert!(matches!(refused, corten_store::Error::Compacted { .. }), "{refused}");
    }
}
