//! A full disk: writes fail without a trace, and work again once there is space.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{
    fs,
    path::Path,
    process::Command,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use common::{commit, delete, open, put, show_all};
use corten_store::{Error, Revision, Store};
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

/// A file system of a few megabytes, unmounted when dropped. There is one at a time: a child process that mounts another
/// one would for a moment hold the lock of a store that is being closed.
struct SmallDisk<'a>(&'a Path, #[expect(dead_code, reason = "held")] MutexGuard<'static, ()>);

static ONE: Mutex<()> = Mutex::new(());

impl<'a> SmallDisk<'a> {
    fn mount(at: &'a Path) -> Option<Self> {
        let one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=6m", "tmpfs"]).arg(at);
        mount.status().is_ok_and(|status| status.success()).then_some(SmallDisk(at, one))
    }
}

impl Drop for SmallDisk<'_> {
    fn drop(&mut self) {
        let unmounted = Command::new("umount").arg(self.0).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "cannot unmount");
    }
}

#[tokio::test]
async fn writes_work_again_once_a_full_disk_has_space() {
    let dir = tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else {
        // Mounting needs root.
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
    let failed = commit(&store, vec![put("/large", &"v".repeat(8_000_000))]).await;
    assert!(matches!(failed, Err(Error::NoSpace(_))));
    store.close();
    let next = commit(&open(&disk.0.join("store")), vec![put("/small", "")]).await.unwrap();
    assert_eq!(next.revision, done.revision + 2, "what a failed write was given is not used again");
}

#[tokio::test]
async fn compaction_frees_space() {
    let dir = tempdir().unwrap();
    let Some(disk) = SmallDisk::mount(dir.path()) else { return };
    let store = open(&disk.0.join("store"));
    let value = "v".repeat(100_000);
    let full = async {
        loop {
            match commit(&store, vec![put("/same", &value)]).await {
                Ok(_) => {}
                Err(error) => return error,
            }
        }
    };
    assert!(matches!(full.await, Error::NoSpace(_)));
    // These writes need a few bytes, which the failed large write leaves.
    let last = commit(&store, vec![delete("/same")]).await.unwrap();
    store.compact(last.revision).await.unwrap();
    let again = async {
        while commit(&store, vec![put("/same", &value)]).await.is_err() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), again).await.unwrap();
}
