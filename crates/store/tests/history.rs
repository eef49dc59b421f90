//! History beyond compaction: what is compacted stays readable by name, and for nothing else.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use corten_store::{Error, Expect, Keep, Op, Options, Store, Txn};
use tempfile::TempDir;

const KEY: &str = "/registry/maps/a";

fn options(keep: Option<Keep>) -> Options {
    Options { history: Duration::from_secs(3600), keep, ..Options::default() }
}

fn open(dir: &TempDir, keep: Option<Keep>) -> Store {
    Store::open(dir.path(), options(keep)).unwrap()
}

fn keep(seconds: u64, bytes: u64) -> Option<Keep> {
    Some(Keep { age: Duration::from_secs(seconds), bytes })
}

fn now_ms() -> u64 {
    u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()).unwrap()
}

async fn put(store: &Store, key: &str, value: &str) -> u64 {
    let value = value.as_bytes().to_vec().into();
    let op = Op::Put { key: key.into(), expect: Expect::Any, value, lease: None };
    store.commit(Txn::from(op)).await.unwrap().revision
}

async fn delete(store: &Store, key: &str) -> u64 {
    let op = Op::Delete { key: key.into(), expect: Expect::Any };
    store.commit(Txn::from(op)).await.unwrap().revision
}

/// The versions of a key as text, newest first.
async fn versions(store: &Store, before: u64, limit: usize) -> Vec<String> {
    let found = store.versions(KEY, before, limit).await.unwrap();
    let text = |value: &[u8]| String::from_utf8_lossy(value).into_owned();
    found.iter().map(|v| v.entry.as_ref().map_or("-".to_owned(), |entry| text(&entry.value))).collect()
}

#[tokio::test]
async fn compacted_versions_are_read_by_name_and_expired_for_all_others() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, keep(3600, 1 << 30));
    let began = now_ms();
    let first = put(&store, KEY, "one").await;
    put(&store, "/registry/maps/b", "other").await;
    let second = put(&store, KEY, "two").await;
    delete(&store, KEY).await;
    put(&store, KEY, "three").await;
    let last = put(&store, KEY, "four").await;
    for round in 0..2 {
        let store = if round == 0 { store.clone() } else { open(&dir, keep(3600, 1 << 30)) };
        store.compact(last).await.unwrap();
        store.shrink().await.unwrap();
        assert!(matches!(store.range_at("/registry/", "", 0, second).await, Err(Error::Compacted { .. })));
        assert!(matches!(store.watch("/registry/", second), Err(Error::Compacted { .. })));
        assert_eq!(versions(&store, u64::MAX, 100).await, ["four", "three", "-", "two", "one"]);
        assert_eq!(versions(&store, u64::MAX, 2).await, ["four", "three"]);
        assert_eq!(versions(&store, second, 2).await, ["one"]);
        let at = |revision| store.past_range("/registry/", revision);
        let values: Vec<_> = at(second).await.unwrap().entries.iter().map(|e| e.value.clone()).collect();
        assert_eq!(values, ["two", "other"]);
        assert_eq!(at(first).await.unwrap().entries.len(), 1);
        let times: Vec<u64> =
            store.versions(KEY, u64::MAX, 100).await.unwrap().iter().filter_map(|v| v.time_ms).collect();
        assert!(times.len() == 5 && times.iter().all(|time| (began..=now_ms()).contains(time)), "{times:?}");
        assert_eq!(store.revision_at(now_ms()).await.unwrap().map(|(revision, _)| revision), Some(last));
        assert_eq!(store.revision_at(began - 1).await.unwrap(), None);
        if round == 0 {
            store.close();
        }
    }
}

#[tokio::test]
async fn history_is_bounded_by_size_and_goes_when_it_is_turned_off() {
    let dir = tempfile::tempdir().unwrap();
    let bound = 256 << 10;
    let store = open(&dir, keep(3600, bound));
    let first = put(&store, KEY, "first").await;
    let value = "x".repeat(4096);
    let mut last = 0;
    for _ in 0..1000 {
        last = put(&store, KEY, &value).await;
    }
    store.compact(last).await.unwrap();
    // Four megabytes were written.
    let deadline = std::time::Instant::now() + Duration::from_secs(60);
    while store.disk_bytes() > 2 * bound {
        assert!(std::time::Instant::now() < deadline, "{} bytes", store.disk_bytes());
        put(&store, "/registry/maps/b", "wakes the housekeeper").await;
        store.compact(store.revision()).await.unwrap();
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(matches!(store.past_range("/registry/", first).await, Err(Error::Compacted { .. })));
    assert!(store.kept().await.unwrap().is_some_and(|kept| kept.revision > first));
    store.close();
    let store = open(&dir, None);
    assert!(store.kept().await.unwrap().is_none());
    assert!(matches!(store.versions(KEY, u64::MAX, 1).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn a_store_without_history_has_no_times_and_can_get_it_later() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(&dir, None);
    put(&store, KEY, "before").await;
    store.close();
    let store = open(&dir, keep(3600, 1 << 30));
    assert_eq!(versions(&store, u64::MAX, 10).await, ["before"]);
    put(&store, KEY, "after").await;
    let found = store.versions(KEY, u64::MAX, 10).await.unwrap();
    let times: Vec<bool> = found.iter().map(|version| version.time_ms.is_some()).collect();
    assert_eq!(times, [true, false]);
    // A page ends between them.
    assert_eq!(versions(&store, u64::MAX, 1).await, ["after"]);
    assert_eq!(versions(&store, found[0].revision, 1).await, ["before"]);
    assert!(versions(&store, found[1].revision, 1).await.is_empty());
}
