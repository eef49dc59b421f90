//! Errors of the disk at every operation of a workload: nothing is half written, nothing acknowledged is lost, and after a failed
//! sync nothing more is acknowledged until the store is opened again.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{collections::BTreeMap, sync::Arc};

use common::{
    Chance, commit, delete, put, show_all,
    simulated_disk::{
        Fault, Operation, ROOT, SimulatedDisk,
        model::{Loss, Model},
    },
    workload::{directory, options},
};
use corten_store::{Error, Options, Store};

const EIO: i32 = 5;
const ENOSPC: i32 = 28;
const EROFS: i32 = 30;
const REQUESTS: u64 = 40;
/// More operations of any kind than the workload has.
const ALL: usize = 10_000;

fn disk() -> SimulatedDisk {
    SimulatedDisk::of(Model::with_directory(std::path::Path::new(ROOT)), None)
}

fn open(disk: &SimulatedDisk) -> Result<Store, Error> {
    Store::open(&directory(), Options { first_revision: 0, ..options(disk, 0) })
}

/// The live entries after the acknowledged requests, and what each failed one would have made of them.
#[derive(Default)]
struct Outcome {
    acknowledged: BTreeMap<String, String>,
    errors: Vec<Error>,
}

/// Sends requests until the first one fails, and `after` more ones.
async fn work(store: &Store, seed: u64, count: u64, outcome: &mut Outcome) {
    let mut chance = Chance::new(seed);
    for index in 0..count {
        let key = format!("/{}", chance.below(6));
        let value = format!("{seed}.{index}.{}", "x".repeat(chance.below(3_000) as usize));
        let is_deletion = chance.below(5) == 0 && outcome.acknowledged.contains_key(&key);
        let op = if is_deletion { delete(&key) } else { put(&key, &value) };
        match commit(store, vec![op]).await {
            Ok(done) if is_deletion => drop((done, outcome.acknowledged.remove(&key))),
            Ok(done) => {
                outcome.acknowledged.insert(key.clone(), format!("{key}={value}@{}", done.revision));
            }
            Err(error) => outcome.errors.push(error),
        }
        if chance.below(10) == 0 {
            let compacted = store.compact(store.revision()).await;
            outcome.errors.extend(compacted.err());
        }
    }
}

fn is_as_acknowledged(store: &Store, outcome: &Outcome) {
    let expected: Vec<_> = outcome.acknowledged.values().cloned().collect();
    assert_eq!(show_all(&store.range("", "", 0).entries), expected);
}

fn is_write(operation: Operation) -> bool {
    operation == Operation::Write
}

fn is_change(operation: Operation) -> bool {
    !matches!(operation, Operation::Read | Operation::SyncFile | Operation::SyncDirectory)
}

fn is_sync(operation: Operation) -> bool {
    matches!(operation, Operation::SyncFile | Operation::SyncDirectory)
}

fn is_read(operation: Operation) -> bool {
    operation == Operation::Read
}

/// Runs the workload with a fault after each number of operations, from the first on.
async fn at_every_operation(is: fn(Operation) -> bool, count: usize, errno: i32, ends_writes: bool) {
    let mut failed = 0;
    for after in 0.. {
        let disk = disk();
        let store = open(&disk).unwrap();
        let mut outcome = Outcome::default();
        work(&store, 1, 3, &mut outcome).await;
        disk.fail(Some(Fault { is, after, count, errno }));
        work(&store, 2, REQUESTS, &mut outcome).await;
        let was_reached = disk.has_failed();
        failed += outcome.errors.len();
        if !ends_writes {
            assert!(store.is_healthy().await);
            is_as_acknowledged(&store, &outcome);
            if errno == ENOSPC {
                assert!(outcome.errors.iter().all(|error| matches!(error, Error::NoSpace(_))), "{after}");
            }
            // The disk works again.
            disk.fail(None);
            let errors = std::mem::take(&mut outcome.errors);
            work(&store, 3, 5, &mut outcome).await;
            assert!(outcome.errors.is_empty(), "after {errors:?}: {:?}", outcome.errors);
        }
        store.close();
        disk.fail(None);
        let image = disk.model().after(Loss::PowerWithSome, &mut Chance::new(after as u64));
        let store = open(&SimulatedDisk::of(image, None)).unwrap();
        is_as_acknowledged(&store, &outcome);
        store.close();
        if !was_reached {
            assert!(failed > 0, "the fault has never failed a request");
            return;
        }
    }
}

#[tokio::test]
async fn a_disk_that_is_full_for_a_moment_or_for_longer_at_any_write_loses_nothing() {
    at_every_operation(is_write, 1, ENOSPC, false).await;
    at_every_operation(is_write, ALL, ENOSPC, false).await;
}

#[tokio::test]
async fn an_error_of_any_change_loses_nothing() {
    at_every_operation(is_change, 1, EIO, false).await;
    // As after a remount.
    at_every_operation(is_change, ALL, EROFS, false).await;
}

#[tokio::test]
async fn a_failed_sync_ends_all_writes_until_the_store_is_opened_again() {
    let mut ended = 0;
    for after in 0.. {
        let disk = disk();
        let store = open(&disk).unwrap();
        let mut outcome = Outcome::default();
        work(&store, 1, 3, &mut outcome).await;
        // One sync fails; later ones would report success.
        disk.fail(Some(Fault { is: is_sync, after, count: 1, errno: EIO }));
        work(&store, 2, REQUESTS, &mut outcome).await;
        if !disk.has_failed() {
            store.close();
            break;
        }
        if !store.is_healthy().await {
            ended += 1;
            let refused = commit(&store, vec![put("/late", "")]).await;
            assert!(matches!(refused, Err(Error::Sync { .. })), "{after}: {refused:?}");
            assert!(matches!(store.failed().await, Error::Sync { .. }));
        }
        store.close();
        for (index, loss) in [Loss::Process, Loss::PowerWithout, Loss::PowerWithSome].into_iter().enumerate()
        {
            let mut chance = Chance::new((after * 3 + index) as u64);
            let disk = SimulatedDisk::of(disk.model().after(loss, &mut chance), None);
            let store = open(&disk).unwrap();
            contains_acknowledged(&store, &outcome);
            // What is served now is not lost by a power failure, although the failed sync took it for written.
            let served = show_all(&store.range("", "", 0).entries);
            let image = disk.model().after(Loss::PowerWithout, &mut chance);
            store.close();
            let store = open(&SimulatedDisk::of(image, None)).unwrap();
            assert_eq!(show_all(&store.range("", "", 0).entries), served, "sync {after}, {loss:?}");
            store.close();
        }
    }
    assert!(ended > 20, "only {ended} syncs ended writes");
}

/// The last write before a failed sync may be there, although it was not acknowledged.
fn contains_acknowledged(store: &Store, outcome: &Outcome) {
    let found = show_all(&store.range("", "", 0).entries);
    let missing = outcome.acknowledged.values().filter(|entry| !found.contains(entry)).count();
    assert!(missing <= 1, "{found:?} instead of {:?}", outcome.acknowledged);
}

#[tokio::test]
async fn an_error_of_any_read_is_reported_and_changes_nothing() {
    let disk = disk();
    let store = open(&disk).unwrap();
    let mut outcome = Outcome::default();
    work(&store, 1, REQUESTS, &mut outcome).await;
    let compacted = store.compacted();
    store.close();
    let model = Arc::new(disk.model());
    for after in 0.. {
        let disk = SimulatedDisk::of(Model::clone(&model), None);
        disk.fail(Some(Fault { is: is_read, after, count: 1, errno: EIO }));
        match open(&disk) {
            Err(Error::File { .. }) => assert!(disk.has_failed()),
            Err(error) => panic!("{after}: {error:?}"),
            Ok(store) => {
                let history = store.events_since("", compacted, store.revision(), 0).await;
                assert_eq!(history.is_err(), disk.has_failed(), "{after}: {history:?}");
                store.close();
                if !disk.has_failed() {
                    assert!(after > 10, "only {after} reads");
                    break;
                }
            }
        }
        disk.fail(None);
        let store = open(&disk).unwrap();
        is_as_acknowledged(&store, &outcome);
        store.close();
    }
}
