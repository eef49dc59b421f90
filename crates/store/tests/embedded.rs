//! The guarantees of the embedded engine that others do not have: its files, its lock, its threads.

mod common;

use std::{sync::Arc, time::Duration};

use common::{commit, open, put, show};
use corten_store::{Error, Options, Store, WorkerThreads};
use tempfile::tempdir;

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
async fn files_are_small_again_after_load() {
    let dir = tempdir().unwrap();
    let options = Options { history: Duration::from_millis(400), ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let value = "v".repeat(50_000);
    for count in 0..400 {
        commit(&store, vec![put(&format!("/{}", count % 10), &value)]).await.unwrap();
    }
    let bytes = || -> u64 {
        let files = std::fs::read_dir(dir.path()).unwrap();
        files.map(|file| file.unwrap().metadata().map_or(0, |file| file.len())).sum()
    };
    let small = async {
        // Nothing is written any more: half a megabyte is live.
        while bytes() > 3 * 500_000 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), small).await.unwrap();
    assert_eq!(store.compacted(), store.revision());
    assert_eq!(store.range("", "", 0).entries.len(), 10);
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
