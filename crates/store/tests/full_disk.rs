//! A full disk, simulated: writes are refused in time, and compaction frees space without more of it.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{path::Path, sync::Arc, time::Duration};

use common::{
    commit, delete, put,
    simulated_disk::{ROOT, SimulatedDisk, model::Model},
};
use corten_store::{Error, Options, Store};

const CAPACITY: u64 = 4 << 20;
const VALUE: usize = 20_000;
const DEADLINE: Duration = Duration::from_secs(20);

fn open(disk: &SimulatedDisk) -> Store {
    let options = Options { disk: Arc::new(disk.clone()), ..Options::default() };
    Store::open(&Path::new(ROOT).join("store"), options).unwrap()
}

fn small_disk() -> SimulatedDisk {
    let disk = SimulatedDisk::of(Model::with_directory(Path::new(ROOT)), None);
    disk.set_capacity(CAPACITY);
    disk
}

/// Writes the keys in turn until there is no space.
async fn fill(store: &Store, keys: usize) {
    let value = "v".repeat(VALUE);
    for index in 0..10_000 {
        match commit(store, vec![put(&format!("/{}", index % keys), &value)]).await {
            Ok(_) => {}
            Err(Error::NoSpace(_)) => return,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("space without end");
}

/// Writes until one succeeds.
async fn write_again(disk: &SimulatedDisk, store: &Store) {
    let again = async {
        while commit(store, vec![put("/0", &"w".repeat(VALUE))]).await.is_err() {
            tokio::task::yield_now().await;
        }
    };
    if tokio::time::timeout(DEADLINE, again).await.is_err() {
        panic!("{} of {CAPACITY} bytes are used: {:?}", disk.used(), disk.model().sizes());
    }
}

#[tokio::test]
async fn dropped_history_frees_a_disk_that_it_filled() {
    // Up to two fifths of the disk are live.
    for keys in [1, 20, 80] {
        let disk = small_disk();
        let store = open(&disk);
        fill(&store, keys).await;
        let live = store.range("", "", 0).entries.len();
        for round in 0..3 {
            store.compact(store.revision()).await.unwrap();
            write_again(&disk, &store).await;
            fill(&store, keys).await;
            assert_eq!(store.range("", "", 0).entries.len(), live, "round {round} with {keys} keys");
        }
        let revision = store.revision();
        store.close();
        assert_eq!(open(&disk).revision(), revision);
    }
}

#[tokio::test]
async fn a_disk_that_others_filled_takes_deletions_and_compactions() {
    let disk = small_disk();
    let store = open(&disk);
    let value = "v".repeat(VALUE);
    for index in 0..20 {
        commit(&store, vec![put(&format!("/{index}"), &value)]).await.unwrap();
    }
    disk.set_capacity(disk.used());
    fill(&store, 20).await;
    for index in 1..20 {
        commit(&store, vec![delete(&format!("/{index}"))]).await.unwrap();
    }
    store.compact(store.revision()).await.unwrap();
    write_again(&disk, &store).await;
    store.close();
    assert_eq!(open(&disk).range("", "", 0).entries.len(), 1);
}
