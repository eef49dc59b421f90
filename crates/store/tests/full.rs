//! No space left: writes fail without a trace, and work again once there is room.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{fs, path::Path, process::Command};

use common::{commit, delete, open, put, show_all};
use corten_store::{Error, Options, Revision, Store};
use tempfile::tempdir;

/// Writes until there is no space, then checks that the failed write left nothing behind. Returns
/// the revision of the last write that succeeded.
async fn fill(store: &Store) -> Revision {
    let value = "v".repeat(100_000);
    for index in 0..1_000 {
        let key = format!("/{index}");
        let before = store.revision();
        match commit(store, vec![put("/count", &key), put(&key, &value)]).await {
            Ok(_) => {}
            Err(Error::NoSpace(_)) => {
                assert_eq!(store.revision(), before);
                assert!(store.get(&key).is_none());
                assert_ne!(store.get("/count").unwrap().value, key);
                return before;
            }
            Err(error) => panic!("{error}"),
        }
    }
    panic!("space without end");
}

#[tokio::test]
async fn a_full_database_goes_on_when_it_may_grow() {
    let dir = tempdir().unwrap();
    let options = Options { max_pages: Some(100), ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let before = fill(&store).await;
    // Two revisions were handed out in vain, and stay so across a restart.
    let small = commit(&store, vec![put("/small", "")]).await.unwrap();
    assert_eq!(small.revision, before + 3);
    let failed = commit(&store, vec![put("/large", &"v".repeat(1_000_000))]).await;
    assert!(matches!(failed, Err(Error::NoSpace(_))));
    store.close();
    let store = open(dir.path());
    assert_eq!(store.revision(), before + 3);
    let done = commit(&store, vec![put("/large", &"v".repeat(1_000_000))]).await.unwrap();
    assert_eq!(done.revision, before + 5);
}

#[tokio::test]
async fn compaction_makes_room() {
    let dir = tempdir().unwrap();
    let options = Options { max_pages: Some(100), ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    fill(&store).await;
    let last = commit(&store, vec![delete("/0"), delete("/1"), delete("/2")]).await.unwrap();
    store.compact(last.revision).await.unwrap();
    let value = "v".repeat(200_000);
    // The space comes back after the compaction is acknowledged, with the commits that follow.
    commit(&store, vec![put("/small", "")]).await.unwrap();
    commit(&store, vec![put("/large", &value)]).await.unwrap();
}

/// A file system of a few megabytes, gone when dropped.
struct SmallDisk<'a>(&'a Path);

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(at);
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(at))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "cannot unmount");
    }
}

#[tokio::test]
async fn a_full_disk_goes_on_when_there_is_room() {
    let dir = tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        // Without the right to mount, the limit on pages has to stand for the disk.
        return;
    };
    let ballast = disk.0.join("ballast");
    fs::write(&ballast, vec![0; 3 << 20]).unwrap();
    let store = open(&disk.0.join("store"));
    let before = fill(&store).await;
    let whole = show_all(&store.range("", "", 0).entries);
    fs::remove_file(&ballast).unwrap();
    let done = commit(&store, vec![put("/room", "")]).await.unwrap();
    assert!(done.revision > before + 1, "the failed revisions are skipped");
    store.close();
    let store = open(&disk.0.join("store"));
    assert_eq!(show_all(&store.range("", "", 0).entries).len(), whole.len() + 1);
    let failed = store.events_since("", before, done.revision - 1, 9).await.unwrap();
    assert!(failed.is_empty(), "a failed write came back");
}
