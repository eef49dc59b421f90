//! Tests of the watch cache.

use std::sync::OnceLock;

use parking_lot::Mutex;

use super::*;
use crate::recent_writes::KEPT;
use corten_store::{Expect, Op, Options};

pub(crate) fn configmaps() -> Form {
    let rules = corten_registry::rules("", "configmaps").unwrap();
    Form {
        id: crate::object::FormId::default(),
        rules,
        group: "".into(),
        resource: "configmaps".into(),
        custom: None,
        kind: "ConfigMap".into(),
        api_version: "v1".into(),
        head: corten_api::encoded::head_len("ConfigMap", "v1") as u32,
        namespaced: true,
        prefix: "/registry/configmaps/".into(),
    }
}

async fn put(store: &Store, name: &str, label: &str) -> u64 {
    put_in(store, "n", name, label).await
}

/// Writes a config map with a label and returns its revision.
pub(crate) async fn put_in(store: &Store, namespace: &str, name: &str, label: &str) -> u64 {
    store.commit(put_op(namespace, name, label).into()).await.unwrap().revision
}

/// The write of a config map with a label.
pub(crate) fn put_op(namespace: &str, name: &str, label: &str) -> Op {
    let text =
        format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","labels":{{"l":"{label}"}}}}}}"#);
    Op::Put {
        key: format!("/registry/configmaps/{namespace}/{name}").into(),
        expect: Expect::Any,
        value: text.into_bytes().into(),
        lease: None,
    }
}

#[tokio::test]
async fn events_of_one_revision_are_read_together() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let cache = Cache::start(configmaps(), &store, &Arc::default());
    let begin = cache.revision();
    let commit = async |names: std::ops::Range<usize>| {
        let ops = names.map(|name| put_op("n", &format!("{name:05}"), "1")).collect();
        store.commit(corten_store::Txn { ops }).await.unwrap().revision
    };
    let (first, second) = (commit(0..3).await, commit(3..5).await);
    let read = |after, limit| {
        let (events, reached) = cache.events_after(after, limit).unwrap();
        (events.iter().map(|event| event.revision).collect::<Vec<_>>(), reached)
    };
    assert_eq!(read(begin, 1), (vec![first; 3], first));
    assert_eq!(read(begin, 3), (vec![first; 3], first));
    assert_eq!(read(begin, 4), (vec![first, first, first, second, second], second));
    assert_eq!(read(first, 9), (vec![second; 2], second));
    // The ring drops events one by one, but what is left of a revision is not read.
    let last = commit(5..RING_EVENTS + 2).await;
    assert_eq!(cache.events_after(begin, 9).unwrap_err(), Overtaken { complete_after: first });
    assert_eq!(read(first, 1), (vec![second; 2], second));
    assert_eq!(read(second, 1).0.len(), RING_EVENTS - 3);
    assert!(cache.snapshot_at("n", None, begin).is_none());
    assert_eq!(cache.snapshot_at("n", None, first).unwrap().objects.len(), 3);
    let (events, reached) = cache.events_from_history(begin).await.unwrap();
    assert_eq!((events.len(), reached), (3, first));
    assert_eq!(cache.revision(), last);
}

#[tokio::test]
async fn past_snapshots_are_made_by_undoing_events() {
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
    assert!(cache.snapshot_at("n", None, first).is_none(), "compacted revisions cannot be listed");
    assert_eq!(names(second), [("a".to_owned(), second)]);
}

#[tokio::test]
async fn recent_writes_keep_their_tree() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let cache = Cache::start(configmaps(), &store, &Arc::default());
    let write = async |name: &str| {
        let object = corten_api::value!({"metadata": {"name": name, "namespace": "n"}, "data": {"k": "v"}});
        let value = crate::verbs::new_value(&cache, object);
        let op = Op::Put { key: cache.form.key("n", name), expect: Expect::Any, value, lease: None };
        store.commit(op.into()).await.unwrap();
        cache.get("n", name).unwrap()
    };
    assert_eq!(write("a").await.written_tree.get(), None, "no in-process watcher");
    let watcher = cache.count_in_process_watcher();
    let first = write("a").await;
    let parsed = corten_api::json::parse(&first.json).unwrap();
    assert_eq!(first.written_tree.get().as_deref(), Some(&parsed));
    assert_eq!((first.tree(), first.written_tree.get(), first.tree()), (parsed.clone(), None, parsed));
    let second = write("b").await;
    for other in 0..=KEPT {
        assert!(second.written_tree.get().is_some(), "{other}");
        write(&format!("other-{other}")).await;
    }
    assert_eq!(second.written_tree.get(), None, "trimmed after newer writes");
    drop(watcher);
    assert_eq!(write("c").await.written_tree.get(), None, "no in-process watcher is left");
}

/// Reads a cache during the store's notification, just before the cache itself is notified.
#[derive(Default)]
struct Early {
    cache: OnceLock<Arc<Cache>>,
    /// Per event: its revision, the revisions that the cache reported, and its number of objects.
    seen: Mutex<Vec<(u64, [u64; 2], usize)>>,
}

impl Observer for Early {
    fn apply(&self, _: &[Arc<StoreEvent>], revision: u64) {
        let cache = self.cache.get().expect("the cache is set before the first write");
        let snapshot = cache.snapshot("n", None);
        self.seen.lock().push((revision, [snapshot.revision, cache.revision()], snapshot.objects.len()));
    }
}

#[tokio::test]
async fn the_cache_never_reports_a_revision_before_its_objects() {
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
async fn history_before_the_ring_reaches_back_to_the_compaction() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    let cache = Cache::start(configmaps(), &store, &Arc::default());
    assert!(cache.events_after(first, 10).is_err(), "older than the ring");
    let (events, reached) = cache.events_from_history(first).await.unwrap();
    assert_eq!((events.len(), events[0].revision, reached), (1, second, second));
    let past = cache.snapshot_from_history("n", None, first).await.unwrap().unwrap();
    assert_eq!(past.objects[0].projection.label("l"), Some("1"));
    store.compact(second).await.unwrap();
    let refused = cache.events_from_history(first).await.unwrap_err();
    assert_eq!((refused.code, &*refused.reason), (410, "Expired"), "{refused}");
}

#[tokio::test]
async fn aged_events_come_from_history() {
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path(), Options::default()).unwrap();
    let cache = Cache::start(configmaps(), &store, &Arc::default());
    let begin = cache.revision();
    let first = put(&store, "a", "1").await;
    let second = put(&store, "a", "2").await;
    cache.forget_events(first);
    assert_eq!(cache.events_after(begin, 9).unwrap_err(), Overtaken { complete_after: first });
    assert_eq!(cache.events_after(first, 9).unwrap().0.len(), 1);
    let (events, reached) = cache.events_since(begin, 9).await.unwrap();
    assert_eq!((events.len(), events[0].revision, reached), (1, first, first));
    cache.forget_events(second);
    assert!(cache.events_after(second, 9).unwrap().0.is_empty());
    let inner = cache.inner.read();
    assert_eq!((inner.ring.len(), inner.ring_bytes, inner.ring.capacity()), (0, 0, 0));
}
