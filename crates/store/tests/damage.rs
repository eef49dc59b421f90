//! Damages the files of a store and opens it: all acknowledged writes are present, or the store reports the loss.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{fs, path::Path};

use common::{commit, copied, delete, open, put, show_all, show_events};
use corten_store::{Damage, Error, Options, Store};
use tempfile::{TempDir, tempdir};

const LOG: &str = "log-00000000000000000000";

fn flip(path: &Path, at: usize) {
    let mut bytes = fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    fs::write(path, bytes).unwrap();
}

fn cut(path: &Path, bytes: u64) {
    let file = fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(file.metadata().unwrap().len() - bytes).unwrap();
}

fn present(store: &Store) -> Vec<String> {
    show_all(&store.range("", "", 0).entries)
}

/// A store with six transactions in the log of a killed process, without the zeros behind them.
async fn six_transactions() -> TempDir {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    for index in 0..5 {
        let value = "v".repeat(index * 3000);
        commit(&store, vec![put(&format!("/{index}"), &value)]).await.unwrap();
    }
    commit(&store, vec![delete("/0"), put("/1", "again")]).await.unwrap();
    let copy = copied(dir.path());
    let log = fs::read(copy.path().join(LOG)).unwrap();
    let zeros = log.rsplit(|byte| *byte != 0).next().unwrap().len();
    assert!(zeros > 100_000, "only {zeros}");
    cut(&copy.path().join(LOG), (zeros - zeros % 8) as u64);
    copy
}

/// A store of seven revisions, a snapshot after them and one more write; and the name of the snapshot.
async fn with_snapshot() -> (TempDir, String) {
    let dir = six_transactions().await;
    let options = Options { snapshot_bytes: 1, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    commit(&store, vec![put("/5", "first of its log")]).await.unwrap();
    let name = format!("snapshot-{:020}", 7);
    while !dir.path().join(&name).exists() {
        tokio::task::yield_now().await;
    }
    store.close();
    let store = open(dir.path());
    commit(&store, vec![put("/1", "after the snapshot")]).await.unwrap();
    store.close();
    (dir, name)
}

/// The start of each frame in a file.
fn frames(file: &[u8]) -> Vec<usize> {
    let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap()) as usize;
    let next = |at: &usize| Some((at + 24 + word(at + 8)).next_multiple_of(8)).filter(|at| *at < file.len());
    std::iter::successors(Some(32), next).collect()
}

fn last_frame(file: &[u8]) -> usize {
    *frames(file).last().unwrap()
}

#[tokio::test]
async fn a_killed_store_is_whole() {
    let dir = six_transactions().await;
    let store = open(dir.path());
    assert_eq!(store.revision(), 6);
    assert_eq!(store.events_since("", 0, 6, 99).await.unwrap().len(), 7);
}

#[tokio::test]
async fn a_truncated_acknowledged_tail_is_detected() {
    let dir = six_transactions().await;
    cut(&dir.path().join(LOG), 10);
    let Err(error) = Store::open(dir.path(), Options::default()) else { panic!("not noticed") };
    let lost = Damage::LostTail { recovered: 5, acknowledged: 6 };
    assert!(matches!(&error, Error::Corrupt(damage) if damage.to_string() == lost.to_string()));
    let again = Store::open(dir.path(), Options::default());
    assert!(again.is_err(), "refused once, opened the second time");
}

#[tokio::test]
async fn a_torn_tail_that_was_never_acknowledged_is_dropped() {
    let dir = six_transactions().await;
    let log = fs::read(dir.path().join(LOG)).unwrap();
    // The commit reached the log in part and so was never witnessed.
    let whole = copied(dir.path());
    fs::remove_file(whole.path().join("witness")).unwrap();
    cut(&whole.path().join(LOG), (log.len() - last_frame(&log)) as u64);
    drop(open(whole.path()));
    fs::copy(whole.path().join("witness"), dir.path().join("witness")).unwrap();
    cut(&dir.path().join(LOG), 10);
    let store = open(dir.path());
    assert_eq!((store.revision(), store.get("/0").is_some()), (5, true));
    assert_eq!(commit(&store, vec![put("/a", "")]).await.unwrap().revision, 6);
}

#[tokio::test]
async fn no_flipped_bit_in_the_log_loses_anything_silently() {
    let dir = six_transactions().await;
    let whole = present(&open(copied(dir.path()).path()));
    let log = fs::read(dir.path().join(LOG)).unwrap();
    let mut refused = 0;
    for at in (0..log.len()).step_by(97).chain(0..32) {
        let damaged = copied(dir.path());
        flip(&damaged.path().join(LOG), at);
        match Store::open(damaged.path(), Options::default()) {
            Ok(store) => assert_eq!(present(&store), whole, "byte {at}"),
            Err(Error::Corrupt(_)) => refused += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(refused > log.len() / 97 / 2, "only {refused} refused");
}

#[tokio::test]
async fn damage_before_the_last_transaction_is_detected_without_the_witness() {
    let dir = six_transactions().await;
    let log = fs::read(dir.path().join(LOG)).unwrap();
    let frames = frames(&log);
    assert_eq!(frames.len(), 6);
    for (frame, next) in frames.iter().zip(&frames[1..]) {
        for at in [*frame, frame + 9, frame + 17, frame + 30, (frame + next) / 2] {
            let damaged = copied(dir.path());
            fs::remove_file(damaged.path().join("witness")).unwrap();
            flip(&damaged.path().join(LOG), at);
            let opened = Store::open(damaged.path(), Options::default());
            let noticed = matches!(opened, Err(Error::Corrupt(Damage::Log { .. })));
            assert!(noticed, "byte {at} of the frame at {frame}");
        }
    }
}

#[tokio::test]
async fn damage_within_the_last_transaction_is_detected_only_by_the_witness() {
    let dir = six_transactions().await;
    let log = fs::read(dir.path().join(LOG)).unwrap();
    for at in (last_frame(&log)..log.len() - 8).step_by(7) {
        let damaged = copied(dir.path());
        flip(&damaged.path().join(LOG), at);
        let opened = Store::open(damaged.path(), Options::default());
        assert!(matches!(opened, Err(Error::Corrupt(Damage::LostTail { .. }))), "byte {at}");
        fs::remove_file(damaged.path().join("witness")).unwrap();
        assert_eq!(open(damaged.path()).revision(), 5, "byte {at}");
    }
}

#[tokio::test]
async fn no_flipped_bit_in_a_snapshot_is_read_silently() {
    let (dir, snapshot) = with_snapshot().await;
    let (whole, bytes) =
        (present(&open(copied(dir.path()).path())), fs::read(dir.path().join(&snapshot)).unwrap());
    let mut refused = 0;
    for at in (0..bytes.len()).step_by(101) {
        let damaged = copied(dir.path());
        flip(&damaged.path().join(&snapshot), at);
        match Store::open(damaged.path(), Options::default()) {
            Ok(store) => assert_eq!(present(&store), whole, "byte {at}"),
            Err(Error::Corrupt(_)) => refused += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(refused > bytes.len() / 101 / 2, "only {refused} refused");
    cut(&dir.path().join(&snapshot), 8);
    assert!(matches!(Store::open(dir.path(), Options::default()), Err(Error::Corrupt(_))), "cut off");
}

#[tokio::test]
async fn no_file_is_missing_silently() {
    let (dir, snapshot) = with_snapshot().await;
    let whole = present(&open(copied(dir.path()).path()));
    let log = snapshot.replace("snapshot", "log");
    let table = [(snapshot.as_str(), false, true), (log.as_str(), true, false), (LOG, false, true)];
    for (name, refused, whole_anyway) in table {
        let damaged = copied(dir.path());
        fs::remove_file(damaged.path().join(name)).unwrap();
        fs::remove_file(damaged.path().join("witness")).unwrap();
        let opened = Store::open(damaged.path(), Options::default());
        assert_eq!(matches!(opened, Err(Error::Corrupt(_))), refused, "{name}");
        assert_eq!(opened.is_ok_and(|store| present(&store) == whole), whole_anyway, "{name}");
    }
    // Without the snapshot, the logs before it are needed.
    fs::remove_file(dir.path().join(&snapshot)).unwrap();
    fs::remove_file(dir.path().join(LOG)).unwrap();
    let Err(Error::Corrupt(damage)) = Store::open(dir.path(), Options::default()) else {
        panic!("not noticed")
    };
    assert_eq!(damage.to_string(), format!("{log} is damaged at byte 0, before acknowledged writes"));
}

/// The names of the logs in a directory, oldest first.
fn logs(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut logs: Vec<String> = names.filter(|name| name.starts_with("log-")).collect();
    logs.sort();
    logs
}

#[tokio::test]
async fn a_full_log_is_followed_by_a_prepared_one() {
    let dir = tempdir().unwrap();
    // Large enough that no snapshot is taken.
    let options = Options { snapshot_bytes: 64 << 20, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    let value = "v".repeat(20_000);
    let mut count = 0;
    while logs(dir.path()).len() < 3 {
        count += 1;
        commit(&store, vec![put(&format!("/{count:05}"), &value), put("/count", &count.to_string())])
            .await
            .unwrap();
        assert!(count < 3000, "nothing was prepared");
    }
    let killed = copied(dir.path());
    let prepared = fs::metadata(killed.path().join(&logs(killed.path())[2])).unwrap().len();
    assert_eq!(prepared, 16 << 20);
    let events = store.events_since("/count", 0, store.revision(), 0).await.unwrap();
    assert_eq!(events.len(), count, "history is in all of them");
    let whole = present(&store);
    store.close();
    assert!(!dir.path().join("spare.tmp").exists());
    for dir in [dir.path(), killed.path()] {
        assert!(present(&open(dir)) == whole);
    }
    for name in &logs(killed.path())[..2] {
        let damaged = copied(killed.path());
        fs::remove_file(damaged.path().join(name)).unwrap();
        fs::remove_file(damaged.path().join("witness")).unwrap();
        let opened = Store::open(damaged.path(), Options::default());
        assert!(matches!(opened, Err(Error::Corrupt(_))), "{name}");
    }
}

#[tokio::test]
async fn damaged_history_is_reported_when_it_is_read() {
    let (dir, _) = with_snapshot().await;
    let log = fs::read(dir.path().join(LOG)).unwrap();
    // Revision 2 is what revision 6 replaces; both are older than the snapshot.
    flip(&dir.path().join(LOG), frames(&log)[1] + 60);
    let store = open(dir.path());
    for damaged in [store.events_since("/1", 0, 6, 9).await.err(), store.range_at("/1", "", 0, 5).await.err()]
    {
        let Some(Error::Corrupt(damage)) = damaged else { panic!("not noticed: {damaged:?}") };
        let expected = format!("{LOG} is damaged at byte {}", frames(&log)[1]);
        assert!(damage.to_string().contains(&expected), "{damage}");
    }
    assert_eq!(store.get("/1").unwrap().value, "after the snapshot");
    assert_eq!(show_events(&store.events_since("", 6, 8, 9).await.unwrap()).len(), 2);
}

#[tokio::test]
async fn history_reaches_back_over_snapshots() {
    let (dir, _) = with_snapshot().await;
    let store = open(dir.path());
    let events = show_events(&store.events_since("/1", 0, 8, 9).await.unwrap());
    let versions = ["v".repeat(3000), "again".into(), "after the snapshot".into()];
    let expected = [
        format!("2: - -> /1={}@2", versions[0]),
        format!("6: /1={}@2 -> /1={}@6", versions[0], versions[1]),
        format!("8: /1={}@6 -> /1={}@8", versions[1], versions[2]),
    ];
    assert_eq!(events, expected);
    // Once the history before the snapshot is compacted, entries are found in the snapshot.
    store.compact(7).await.unwrap();
    while dir.path().join(LOG).exists() {
        tokio::task::yield_now().await;
    }
    assert_eq!(show_events(&store.events_since("/1", 7, 8, 9).await.unwrap()), expected[2..]);
}

#[tokio::test]
async fn history_is_found_in_a_snapshot_with_many_entries_of_one_revision() {
    let dir = tempdir().unwrap();
    let store = Store::open(dir.path(), Options { snapshot_bytes: 1, ..Options::default() }).unwrap();
    let value = "v".repeat(20_000);
    let keys: Vec<String> = (0..9).map(|key| format!("/{key}")).collect();
    let all = |value: &str| keys.iter().map(|key| put(key, value)).collect();
    let first = commit(&store, all(&value)).await.unwrap().revision;
    commit(&store, vec![put("/other", "")]).await.unwrap();
    store.compact(first).await.unwrap();
    while dir.path().join(LOG).exists() {
        commit(&store, vec![put("/other", "")]).await.unwrap();
        store.compact(store.revision()).await.unwrap();
    }
    let before = store.revision();
    let changed = commit(&store, all("changed")).await.unwrap().revision;
    let events = store.events_since("/", before, changed, 1).await.unwrap();
    let previous: Vec<_> = events.iter().filter_map(|event| event.previous.as_ref()).collect();
    assert_eq!(previous.iter().map(|entry| &*entry.key).collect::<Vec<_>>(), keys);
    assert!(previous.iter().all(|entry| entry.mod_revision == first && entry.value == value));
    let past = store.range_at("/", "", 0, before).await.unwrap();
    assert_eq!(past.entries.iter().filter(|entry| entry.mod_revision == first).count(), keys.len());
}

/// A store of the version that gave every write its own revision, also within a transaction: two generations and a snapshot,
/// with keys that were written and deleted in one transaction.
#[tokio::test]
async fn a_store_with_a_revision_for_each_write_is_read_and_continued() {
    let dir = copied(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/revision_for_each_write"));
    let options = Options { snapshot_bytes: 1, ..Options::default() };
    let store = Store::open(dir.path(), options).unwrap();
    assert_eq!((store.revision(), store.compacted()), (18, 0));
    let live = ["/a=<3>@3", "/d=<14>@14", "/f=<18>@18"];
    assert_eq!(present(&store), live);
    let events = store.events_since("", 0, 18, 0).await.unwrap();
    assert!(events.iter().map(|event| event.revision).eq(1..=18), "{:?}", show_events(&events));
    let page = |from: usize, events: &[_]| show_events(&events[from..]);
    assert_eq!(
        page(14, &events),
        [
            "15: /e=<13>@13 -> /e=<15>@15",
            "16: /e=<15>@15 -> /e=<16>@16",
            "17: /e=<16>@16 -> -",
            "18: - -> /f=<18>@18"
        ]
    );
    let past = store.range_at("", "", 0, 6).await.unwrap();
    assert_eq!(show_all(&past.entries), ["/a=<3>@3", "/c=<6>@6"]);

    let done = commit(&store, vec![put("/a", "new"), delete("/f")]).await.unwrap();
    assert_eq!(done.revision, 19);
    let whole = present(&store);
    let killed = copied(dir.path());
    while !dir.path().join(format!("snapshot-{:020}", 19)).exists() {
        tokio::task::yield_now().await;
    }
    store.close();
    for dir in [killed.path(), dir.path()] {
        let store = open(dir);
        assert_eq!((store.revision(), present(&store)), (19, whole.clone()));
        let events = store.events_since("", 18, 19, 1).await.unwrap();
        assert_eq!(show_events(&events), ["19: /a=<3>@3 -> /a=new@19", "19: /f=<18>@18 -> -"]);
    }
}

#[tokio::test]
async fn the_database_of_an_older_version_is_not_changed() {
    let dir = tempdir().unwrap();
    fs::write(dir.path().join("store.db"), "SQLite format 3").unwrap();
    let refused = Store::open(dir.path(), Options::default()).unwrap_err();
    assert!(matches!(&refused, Error::Format { path } if path.ends_with("store.db")), "{refused}");
}

type Harm<'a> = &'a dyn Fn(&Path);

#[tokio::test]
async fn an_operator_can_accept_the_loss() {
    let log_damage = |dir: &Path| cut(&dir.join(LOG), 10);
    let record_damage = |dir: &Path| {
        let log = fs::read(dir.join(LOG)).unwrap();
        flip(&dir.join(LOG), frames(&log)[2] + 100);
    };
    let witness_damage = |dir: &Path| flip(&dir.join("witness"), 9);
    let table: [(Harm<'_>, &[&str]); 3] = [
        (&log_damage, &["/0", "/1", "/2", "/3", "/4"]),
        (&record_damage, &["/1", "/3", "/4"]),
        (&witness_damage, &["/1", "/2", "/3", "/4"]),
    ];
    for (damage, expected) in table {
        let dir = six_transactions().await;
        damage(dir.path());
        assert!(matches!(Store::open(dir.path(), Options::default()), Err(Error::Corrupt(_))));
        let options = Options { accept_loss: true, ..Options::default() };
        let store = Store::open(dir.path(), options).unwrap();
        let keys = |store: &Store| -> Vec<String> {
            store.range("", "", 0).entries.iter().map(|entry| entry.key.to_string()).collect()
        };
        assert_eq!(keys(&store), expected);
        assert_eq!((store.revision(), store.compacted()), (6, 6), "lost revisions stay used");
        store.close();
        let store = open(dir.path());
        assert_eq!(keys(&store), expected, "whole again, without being asked to accept");
        let done = commit(&store, vec![put("/1", "new"), delete("/4")]).await.unwrap();
        assert_eq!(done.revision, 7);
        store.compact(7).await.unwrap();
        store.close();
        assert_eq!(open(dir.path()).revision(), 7);
    }
}
