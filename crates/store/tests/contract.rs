//! The store's contract, one guarantee per test.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{sync::Arc, time::Duration};

use common::{commit, delete, open, put, put_if, show, show_all, show_events};
use corten_store::{
    Error, Event, Expect, NewValue, Observer, Op, Options, Revision, Store, Watch, WorkerThreads,
};
use tempfile::tempdir;

#[tokio::test]
async fn expectations_decide_a_transaction() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("here", "1")]).await.unwrap();
    let table = [
        ("here", Expect::Any, true),
        ("here", Expect::Present, true),
        ("here", Expect::Absent, false),
        ("here", Expect::ModRevision(1), true),
        ("here", Expect::ModRevision(2), false),
        ("here", Expect::ModRevision(0), false),
        ("gone", Expect::Any, true),
        ("gone", Expect::Present, false),
        ("gone", Expect::Absent, true),
        ("gone", Expect::ModRevision(0), true),
        ("gone", Expect::ModRevision(1), false),
    ];
    for (key, expect, holds) in table {
        let check = Op::Check { key: key.into(), expect };
        match commit(&store, vec![check]).await {
            Ok(committed) => {
                assert!(holds, "{key} {expect:?}");
                assert_eq!(committed.revision, 1, "a check writes nothing");
                assert_eq!(committed.entries[0].is_some(), key == "here");
            }
            Err(Error::Conflict { op: 0, current }) => {
                assert!(!holds, "{key} {expect:?}");
                assert_eq!(current.is_some(), key == "here");
            }
            Err(error) => panic!("{key} {expect:?}: {error}"),
        }
    }
    assert_eq!(store.revision(), 1);
}

#[tokio::test]
async fn busy_worker_threads_get_their_responses() {
    let dir = tempdir().unwrap();
    let worker_threads = Some(Arc::new(WorkerThreads::default()));
    let store = Store::open(dir.path(), Options { worker_threads, ..Options::default() }).unwrap();
    let both = tokio::join!(commit(&store, vec![put("a", "1")]), commit(&store, vec![put("b", "1")]));
    both.0.and(both.1).unwrap();
    commit(&store, vec![put("c", "1")]).await.unwrap();
    assert_eq!(store.revision(), 3);
}

#[tokio::test]
async fn a_transaction_is_all_or_nothing_and_has_one_revision() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let done = commit(&store, vec![put("a", "1"), put("b", "1")]).await.unwrap();
    assert_eq!((done.revision, show_all(&store.range("", "", 0).entries)), (1, shown(&["a=1@1", "b=1@1"])));
    let failed = commit(&store, vec![put("a", "2"), put_if("b", "2", Expect::Absent), delete("a")]).await;
    assert!(matches!(failed, Err(Error::Invalid(_))), "the same key twice");
    let failed = commit(&store, vec![put("a", "2"), put_if("b", "2", Expect::Absent)]).await;
    let Err(Error::Conflict { op: 1, current: Some(current) }) = failed else { panic!() };
    assert_eq!(show(&current), "b=1@1");
    let check = Op::Check { key: "c".into(), expect: Expect::Absent };
    let nothing = Op::Delete { key: "d".into(), expect: Expect::Any };
    let done = commit(&store, vec![delete("b"), check, put("a", "3"), nothing]).await.unwrap();
    let entries: Vec<_> = done.entries.iter().map(|entry| entry.as_deref().map(show)).collect();
    assert_eq!((done.revision, entries), (2, vec![Some("b=1@1".into()), None, Some("a=3@2".into()), None]));
    let a = store.get("a").unwrap();
    assert_eq!((a.create_revision, a.mod_revision, a.version), (1, 2, 2));
    assert!(store.get("b").is_none());
    let nothing = Op::Delete { key: "d".into(), expect: Expect::Any };
    assert_eq!(commit(&store, vec![nothing]).await.unwrap().revision, 2, "nothing was written");
}

fn shown(entries: &[&str]) -> Vec<String> {
    entries.iter().map(|entry| (*entry).to_owned()).collect()
}

#[tokio::test]
async fn the_revision_is_spliced_into_the_value() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("other", "")]).await.unwrap();
    for (at, stored) in [(0, "2<>"), (1, "<3>"), (2, "<>4")] {
        let value = NewValue { bytes: b"<>".to_vec(), revision_at: Some(at), note: None };
        let op = Op::Put { key: "a".into(), expect: Expect::Any, value, lease: None };
        commit(&store, vec![op]).await.unwrap();
        assert_eq!(store.get("a").unwrap().value, stored);
    }
    let value = NewValue { bytes: b"<>".to_vec(), revision_at: Some(3), note: None };
    let op = Op::Put { key: "a".into(), expect: Expect::Any, value, lease: None };
    assert!(matches!(commit(&store, vec![op]).await, Err(Error::Invalid(_))));
}

#[tokio::test]
async fn ranges_are_ordered_paged_and_stay_within_the_prefix() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    for key in ["/b/2", "/a/9", "/b/1", "/b/3", "/b", "/c/1"] {
        commit(&store, vec![put(key, "")]).await.unwrap();
    }
    let page = |from: &str, limit| {
        let range = store.range("/b/", from, limit);
        (range.entries.iter().map(|e| e.key.to_string()).collect::<Vec<_>>(), range.remaining)
    };
    assert_eq!(page("", 0), (vec!["/b/1".into(), "/b/2".into(), "/b/3".into()], 0));
    assert_eq!(page("", 2), (vec!["/b/1".into(), "/b/2".into()], 1));
    assert_eq!(page("/b/2\0", 2), (vec!["/b/3".into()], 0));
    assert_eq!(page("/c", 2), (vec![], 0));
    assert_eq!(store.range("", "", 1).remaining, 5);
    assert_eq!(store.range("", "", 1).revision, 6);
}

#[tokio::test]
async fn past_revisions_are_read_unchanged() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("/a", "1"), put("/b", "2"), put("/z", "3")]).await.unwrap();
    commit(&store, vec![put("/b", "4"), put("/c", "5"), delete("/a")]).await.unwrap();
    commit(&store, vec![put("/a", "7"), delete("/c")]).await.unwrap();
    commit(&store, vec![put("x", "9")]).await.unwrap();
    let table: [(Revision, &[&str]); 5] = [
        (0, &[]),
        (1, &["/a=1@1", "/b=2@1", "/z=3@1"]),
        (2, &["/b=4@2", "/c=5@2", "/z=3@1"]),
        (3, &["/a=7@3", "/b=4@2", "/z=3@1"]),
        (4, &["/a=7@3", "/b=4@2", "/z=3@1"]),
    ];
    for (revision, expected) in table {
        let range = store.range_at("/", "", 0, revision).await.unwrap();
        assert_eq!(show_all(&range.entries), expected, "at {revision}");
        assert_eq!(range.revision, revision);
        let page = store.range_at("/", "/b", 1, revision).await.unwrap();
        let rest: Vec<_> = expected.iter().filter(|entry| **entry >= "/b").collect();
        assert_eq!(page.entries.len(), rest.len().min(1), "at {revision}");
        assert_eq!(page.remaining as usize, rest.len().saturating_sub(1), "at {revision}");
    }
    let future = store.range_at("/", "", 0, 5).await;
    assert!(matches!(future, Err(Error::Future { requested: 5, current: 4 })));
}

#[tokio::test]
async fn history_is_replayed_from_any_revision_and_survives_a_restart() {
    let dir = tempdir().unwrap();
    let expected = [
        "1: - -> /a=1@1",
        "2: /a=1@1 -> /a=2@2",
        "2: - -> /b=2@2",
        "4: /a=2@2 -> -",
        "4: /b=2@2 -> /b=4@4",
        "5: - -> /a=3@5",
    ];
    let store = open(dir.path());
    commit(&store, vec![put("/a", "1")]).await.unwrap();
    commit(&store, vec![put("/a", "2"), put("other", ""), put("/b", "2")]).await.unwrap();
    commit(&store, vec![put("other", "")]).await.unwrap();
    commit(&store, vec![delete("/a"), put("/b", "4")]).await.unwrap();
    commit(&store, vec![put("/a", "3")]).await.unwrap();
    store.close();
    let store = open(dir.path());
    for after in 0..=5 {
        let missed: Vec<_> =
            expected.iter().filter(|event| event[..1].parse::<u64>().unwrap() > after).collect();
        let events = store.events_since("/", after, 5, 100).await.unwrap();
        assert_eq!(show_events(&events).iter().collect::<Vec<_>>(), missed, "after {after}");
    }
    for (after, up_to, limit, page) in
        [(0, 2, 1, 0..1), (1, 5, 1, 1..3), (0, 5, 2, 0..3), (0, 5, 3, 0..3), (0, 5, 4, 0..5), (2, 3, 9, 3..3)]
    {
        let events = store.events_since("/", after, up_to, limit).await.unwrap();
        assert_eq!(show_events(&events), expected[page], "after {after}, {limit} and the rest of a revision");
    }
    let again = store.get("/a").unwrap();
    assert_eq!((again.create_revision, again.version), (5, 1));
}

#[tokio::test]
async fn a_watch_continues_from_history_to_new_events_without_a_gap() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("/a", "1"), put("x", "")]).await.unwrap();
    commit(&store, vec![put("/b", "2"), put("x", "2")]).await.unwrap();
    let mut watch = store.watch("/", 1).unwrap();
    commit(&store, vec![put("/c", "3"), put("/a", "4")]).await.unwrap();
    let seen = take(&mut watch, 3).await;
    assert_eq!(seen, ["2: - -> /b=2@2", "3: - -> /c=3@3", "3: /a=1@1 -> /a=4@3"]);
    let writer = store.clone();
    let pending = tokio::spawn(async move { take(&mut watch, 1).await });
    commit(&writer, vec![delete("/b")]).await.unwrap();
    assert_eq!(pending.await.unwrap(), ["4: /b=2@2 -> -"]);
    assert!(matches!(store.watch("/", 5), Err(Error::Future { .. })));
}

#[tokio::test]
async fn a_watch_that_fell_behind_catches_up_from_history() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut watch = store.watch("/", 0).unwrap();
    for round in 0..30 {
        let ops = (0..100).map(|key| put(&format!("/{key}"), &round.to_string())).collect();
        commit(&store, ops).await.unwrap();
    }
    let mut seen = 0;
    while seen < 3000 {
        let events = watch.next().await.unwrap();
        for event in &events {
            assert_eq!(event.revision, seen / 100 + 1);
            seen += 1;
        }
        assert_eq!(seen % 100, 0, "a revision comes whole");
    }
    store.close();
    assert!(matches!(watch.next().await, Err(Error::Closed)));
}

async fn take(watch: &mut Watch, count: usize) -> Vec<String> {
    let mut seen = Vec::new();
    while seen.len() < count {
        seen.extend(show_events(&watch.next().await.unwrap()));
    }
    seen
}

/// Compares events with the state that a reader sees at that moment.
struct Checker {
    store: Store,
    notified: parking_lot::Mutex<Vec<Revision>>,
}

impl Observer for Checker {
    fn apply(&self, events: &[Arc<Event>], revision: Revision) {
        assert_eq!(self.store.revision(), revision);
        self.notified.lock().extend(events.iter().map(|event| event.revision));
    }
}

#[tokio::test]
async fn observers_are_notified_after_readers_see_a_write_and_before_its_writer() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("/a", "1"), put("x", "1")]).await.unwrap();
    let checker = Arc::new(Checker { store: store.clone(), notified: Default::default() });
    let (revision, entries) = store.observe("/", Arc::clone(&checker) as Arc<dyn Observer>);
    assert_eq!((revision, show_all(&entries)), (1, vec!["/a=1@1".to_string()]));
    for expected in [vec![2], vec![2, 3]] {
        let done = commit(&store, vec![put("/a", "2"), put("x", "2")]).await.unwrap();
        assert_eq!(*checker.notified.lock(), expected);
        assert_eq!(*store.progress().borrow(), done.revision);
    }
    store.close();
}

#[tokio::test]
async fn compaction_removes_history_and_keeps_live_entries() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("/a", "1"), put("/b", "1")]).await.unwrap();
    commit(&store, vec![put("/a", "2"), delete("/b")]).await.unwrap();
    commit(&store, vec![put("/a", "3"), put("/c", "3")]).await.unwrap();
    store.compact(2).await.unwrap();
    assert_eq!(store.compacted(), 2);
    store.compact(1).await.unwrap();
    assert_eq!(store.compacted(), 2, "never goes back");
    let future = store.compact(4).await;
    assert!(matches!(future, Err(Error::Future { requested: 4, current: 3 })));
    // Closing and opening completes the removal of files.
    store.close();
    let store = open(dir.path());
    assert_eq!((store.compacted(), store.revision()), (2, 3));
    let gone = store.range_at("/", "", 0, 1).await;
    assert!(matches!(gone, Err(Error::Compacted { requested: 1, compacted: 2 })));
    assert!(matches!(store.watch("/", 1), Err(Error::Compacted { .. })));
    assert!(matches!(store.events_since("/", 1, 3, 9).await, Err(Error::Compacted { .. })));
    let range = store.range_at("/", "", 0, 2).await.unwrap();
    assert_eq!(show_all(&range.entries), ["/a=2@2"]);
    let events = store.events_since("/", 2, 3, 9).await.unwrap();
    assert_eq!(show_events(&events), ["3: /a=2@2 -> /a=3@3", "3: - -> /c=3@3"]);
}

#[tokio::test]
async fn revisions_are_not_reused_after_everything_is_deleted_and_compacted() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("/a", "1")]).await.unwrap();
    commit(&store, vec![delete("/a")]).await.unwrap();
    store.compact(2).await.unwrap();
    store.close();
    let store = open(dir.path());
    assert_eq!(store.revision(), 2);
    assert_eq!(commit(&store, vec![put("/a", "1")]).await.unwrap().revision, 3);
}

#[tokio::test]
async fn history_is_compacted_automatically() {
    let dir = tempdir().unwrap();
    let options = Options { history: Duration::from_millis(20), ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    for value in 0..10 {
        commit(&store, vec![put("/a", &value.to_string())]).await.unwrap();
    }
    let compacted = async {
        while store.compacted() < 10 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), compacted).await.unwrap();
    assert!(matches!(store.watch("/", 9), Err(Error::Compacted { .. })));
}

#[tokio::test]
async fn the_files_do_not_grow_without_bound() {
    let dir = tempdir().unwrap();
    let history = Duration::from_millis(20);
    let options = Options { snapshot_bytes: 500_000, history, ..Options::default() };
    let store = Store::open(dir.path(), options.clone()).unwrap();
    let value = "v".repeat(50_000);
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (store, value) = (store.clone(), value.clone());
            tokio::spawn(async move {
                for count in 0..200 {
                    let key = format!("/{writer}/{}", count % 5);
                    commit(&store, vec![put(&key, &value)]).await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    store.compact(store.revision()).await.unwrap();
    // One million bytes are live: they may be on disk twice, with as many of logs, and with the files before a snapshot
    // that is being written.
    let bytes = || -> u64 {
        let files = std::fs::read_dir(dir.path()).unwrap();
        files.map(|file| file.unwrap().metadata().map_or(0, |file| file.len())).sum()
    };
    let small = async {
        while bytes() > 8_000_000 {
            commit(&store, vec![put("/more", &value)]).await.unwrap();
            store.compact(store.revision()).await.unwrap();
        }
    };
    tokio::time::timeout(Duration::from_secs(20), small).await.unwrap();
    store.close();
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!(store.range("", "", 0).entries.iter().filter(|entry| *entry.key != *"/more").count(), 20);
}

#[tokio::test]
async fn a_revoked_lease_deletes_its_keys() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let hour = store.grant(Duration::from_secs(3600)).await.unwrap();
    let leased = |key: &str, lease| Op::Put {
        key: key.into(),
        expect: Expect::Any,
        value: NewValue::default(),
        lease,
    };
    commit(&store, vec![leased("/a", Some(hour)), leased("/b", Some(hour)), leased("/d", Some(hour))])
        .await
        .unwrap();
    commit(&store, vec![leased("/b", None), put("/c", "")]).await.unwrap();
    store.keep_alive(hour).await.unwrap();
    store.close();

    let store = open(dir.path());
    assert_eq!(store.get("/a").unwrap().lease, Some(hour));
    store.revoke(hour).await.unwrap();
    let events = store.events_since("/", 2, 9, 0).await.unwrap();
    assert_eq!(show_events(&events), ["3: /a=@1 -> -", "3: /d=@1 -> -"], "in one revision");
    assert!(store.get("/b").is_some(), "detached by a later put");
    assert!(matches!(store.revoke(hour).await, Err(Error::UnknownLease)));
    assert!(matches!(store.keep_alive(hour).await, Err(Error::UnknownLease)));
    let late = commit(&store, vec![leased("/a", Some(hour))]).await;
    assert!(matches!(late, Err(Error::UnknownLease)));
    store.close();

    let store = open(dir.path());
    assert_ne!(store.grant(Duration::from_secs(1)).await.unwrap(), hour, "not reused");
}

#[tokio::test]
async fn a_lease_expires_as_an_ordinary_commit_also_across_a_restart() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut watch = store.watch("/", 0).unwrap();
    let expiring = |key: &str, lease| Op::Put {
        key: key.into(),
        expect: Expect::Any,
        value: NewValue::default(),
        lease: Some(lease),
    };
    let lease = store.grant(Duration::from_millis(400)).await.unwrap();
    commit(&store, vec![expiring("/a", lease)]).await.unwrap();
    assert_eq!(take(&mut watch, 2).await, ["1: - -> /a=@1", "2: /a=@1 -> -"]);

    let lease = store.grant(Duration::from_millis(400)).await.unwrap();
    let committed = commit(&store, vec![expiring("/b", lease)]).await.unwrap();
    store.close();
    let store = open(dir.path());
    let mut watch = store.watch("/", committed.revision).unwrap();
    assert_eq!(take(&mut watch, 1).await, ["4: /b=@3 -> -"]);
}

#[tokio::test]
async fn a_second_process_gets_an_error_with_the_locked_path() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let Err(error) = Store::open(dir.path(), Options::default()) else { panic!("opened twice") };
    assert!(matches!(&error, Error::Locked { path } if *path == dir.path().join("lock")));
    assert!(error.to_string().contains("in use by another process"), "{error}");
    let clone = store.clone();
    store.close();
    assert!(matches!(commit(&clone, vec![put("/a", "")]).await, Err(Error::Closed)));
    open(dir.path());
}

struct Panicking;

impl Observer for Panicking {
    fn apply(&self, _: &[Arc<Event>], _: Revision) {
        panic!("an observer's bug");
    }
}

#[tokio::test]
async fn an_observer_that_panics_closes_the_store_instead_of_hanging_it() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    let mut watch = store.watch("/", 0).unwrap();
    store.observe("/", Arc::new(Panicking));
    for _ in 0..2 {
        assert!(matches!(commit(&store, vec![put("/a", "1")]).await, Err(Error::Closed)));
    }
    assert_eq!(take(&mut watch, 1).await, ["1: - -> /a=1@1"]);
    assert!(matches!(watch.next().await, Err(Error::Closed)));
    store.close();
    assert_eq!(show(&open(dir.path()).get("/a").unwrap()), "/a=1@1", "it was on disk");
}

#[tokio::test]
async fn a_closed_store_does_not_read_the_disk() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    commit(&store, vec![put("/a", "1")]).await.unwrap();
    let clone = store.clone();
    store.close();
    assert!(matches!(clone.events_since("/", 0, 1, 9).await, Err(Error::Closed)));
    assert!(matches!(clone.range_at("/", "", 0, 0).await, Err(Error::Closed)));
    assert!(clone.get("/a").is_some());
}

#[tokio::test]
async fn dropping_the_last_handle_closes() {
    let dir = tempdir().unwrap();
    commit(&open(dir.path()), vec![put("/a", "1")]).await.unwrap();
    assert_eq!(show(&open(dir.path()).get("/a").unwrap()), "/a=1@1");
}

#[tokio::test]
async fn a_held_store_commits_only_in_flush() {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    store.hold();
    let writer = tokio::spawn({
        let store = store.clone();
        async move { commit(&store, vec![put("key", "1")]).await }
    });
    tokio::task::yield_now().await;
    assert!(!store.is_quiet());
    assert_eq!(store.revision(), 0);
    store.flush();
    assert_eq!(store.revision(), 1);
    writer.await.unwrap().unwrap();
    assert!(store.is_quiet());
    let last = tokio::spawn({
        let store = store.clone();
        async move { commit(&store, vec![put("key", "2")]).await }
    });
    tokio::task::yield_now().await;
    store.close();
    last.await.unwrap().unwrap();
}

#[tokio::test]
async fn store_files_are_readable_only_by_their_owner() {
    use std::{fs, os::unix::fs::PermissionsExt, path::Path};
    let modes = |dir: &Path, what: &str| {
        let mode = |path: &Path| fs::metadata(path).expect("it is there").permissions().mode() & 0o7777;
        assert_eq!(mode(dir), 0o700, "the directory {what}");
        for entry in fs::read_dir(dir).expect("a directory") {
            let path = entry.expect("an entry").path();
            assert_eq!(mode(&path), 0o600, "{} {what}", path.display());
        }
    };
    let scratch = tempdir().expect("a directory");
    let dir = scratch.path().join("store");
    let store = open(&dir);
    commit(&store, vec![put("/secrets/a", "hidden")]).await.expect("a commit");
    store.close();
    modes(&dir, "when new");
    for entry in fs::read_dir(&dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        fs::set_permissions(path, fs::Permissions::from_mode(0o644)).expect("a wide file");
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("a wide directory");
    open(&dir).close();
    modes(&dir, "after another start");
}
