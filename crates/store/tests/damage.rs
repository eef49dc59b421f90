//! Damages the files of a store and opens it: whatever was acknowledged is either all there, or the
//! store says that it is not.
#![expect(clippy::unwrap_used, reason = "helpers of a test may panic as the test itself")]

mod common;

use std::{fs, path::Path};

use common::{commit, delete, open, put, show_all, show_events};
use corten_store::{Damage, Error, Options, Store};
use tempfile::{TempDir, tempdir};

const LOG: &str = "store.db-wal";
const FILES: [&str; 3] = ["store.db", LOG, "witness"];

/// The files as a kill at this moment would leave them.
fn killed(dir: &Path) -> TempDir {
    let copy = tempdir().unwrap();
    for name in FILES {
        if dir.join(name).exists() {
            fs::copy(dir.join(name), copy.path().join(name)).unwrap();
        }
    }
    copy
}

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

/// A store with six transactions, as they are in the log of a process that was killed.
async fn six_transactions() -> TempDir {
    let dir = tempdir().unwrap();
    let store = open(dir.path());
    for index in 0..5 {
        let value = "v".repeat(index * 3000);
        commit(&store, vec![put(&format!("/{index}"), &value)]).await.unwrap();
    }
    commit(&store, vec![delete("/0"), put("/1", "again")]).await.unwrap();
    killed(dir.path())
}

/// The start of each frame in a log, and whether it ends a transaction.
fn frames(log: &[u8]) -> Vec<(usize, bool)> {
    let word = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
    let page = word(8) as usize;
    let starts = (32..log.len()).step_by(24 + page);
    starts.map(|at| (at, word(at + 4) != 0)).collect()
}

/// The start of the first frame of the last transaction.
fn last_transaction(log: &[u8]) -> usize {
    let frames = frames(log);
    let before = frames[..frames.len() - 1].iter().rposition(|(_, commits)| *commits).unwrap();
    frames[before + 1].0
}

#[tokio::test]
async fn a_killed_store_is_whole() {
    let dir = six_transactions().await;
    let store = open(dir.path());
    assert_eq!(store.revision(), 7);
    assert_eq!(store.events_since("", 0, 7, 99).await.unwrap().len(), 7);
}

#[tokio::test]
async fn an_acknowledged_tail_that_was_cut_off_is_missed() {
    let dir = six_transactions().await;
    cut(&dir.path().join(LOG), 10);
    let Err(error) = Store::open(dir.path(), Options::default()) else { panic!("not noticed") };
    let lost = Damage::LostTail { recovered: 5, acknowledged: 7 };
    assert!(matches!(&error, Error::Corrupt(damage) if damage.to_string() == lost.to_string()));
    let again = Store::open(dir.path(), Options::default());
    assert!(again.is_err(), "refused once, opened the second time");
}

#[tokio::test]
async fn a_torn_tail_that_was_never_acknowledged_is_dropped() {
    let dir = six_transactions().await;
    let log = fs::read(dir.path().join(LOG)).unwrap();
    // The commit reached the log in part and so was never witnessed.
    let whole = killed(dir.path());
    fs::remove_file(whole.path().join("witness")).unwrap();
    cut(&whole.path().join(LOG), (log.len() - last_transaction(&log)) as u64);
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
    let whole = present(&open(killed(dir.path()).path()));
    let log = fs::read(dir.path().join(LOG)).unwrap();
    let mut refused = 0;
    for at in (0..log.len()).step_by(997).chain(0..32) {
        let damaged = killed(dir.path());
        flip(&damaged.path().join(LOG), at);
        match Store::open(damaged.path(), Options::default()) {
            Ok(store) => assert_eq!(present(&store), whole, "byte {at}"),
            Err(Error::Corrupt(_)) => refused += 1,
            Err(error) => panic!("byte {at}: {error}"),
        }
    }
    assert!(refused > log.len() / 997 / 2, "only {refused} refused");
}

#[tokio::test]
async fn damage_before_the_last_transaction_is_noticed_without_the_witness() {
    let dir = six_transactions().await;
    let log = fs::read(dir.path().join(LOG)).unwrap();
    let last = last_transaction(&log);
    let header = 24;
    for (frame, _) in frames(&log).into_iter().filter(|(frame, _)| *frame < last) {
        for at in [frame, frame + header, frame + header + 5000] {
            let damaged = killed(dir.path());
            fs::remove_file(damaged.path().join("witness")).unwrap();
            flip(&damaged.path().join(LOG), at);
            let opened = Store::open(damaged.path(), Options::default());
            let noticed = matches!(opened, Err(Error::Corrupt(Damage::Log { .. })));
            assert!(noticed, "byte {at} of the frame at {frame}");
        }
    }
}

#[tokio::test]
async fn damage_within_the_last_transaction_is_a_torn_tail_to_all_but_the_witness() {
    let dir = six_transactions().await;
    let log = fs::read(dir.path().join(LOG)).unwrap();
    let last = last_transaction(&log);
    for at in (last..log.len()).step_by(5000) {
        let damaged = killed(dir.path());
        flip(&damaged.path().join(LOG), at);
        let opened = Store::open(damaged.path(), Options::default());
        assert!(matches!(opened, Err(Error::Corrupt(Damage::LostTail { .. }))), "byte {at}");
        fs::remove_file(damaged.path().join("witness")).unwrap();
        assert_eq!(open(damaged.path()).revision(), 5, "byte {at}");
    }
}

#[tokio::test]
async fn no_flipped_bit_in_the_database_is_read_silently() {
    let dir = six_transactions().await;
    open(dir.path()).close();
    let (whole, history) = {
        let copy = killed(dir.path());
        let store = open(copy.path());
        (present(&store), show_events(&store.events_since("", 0, 7, 99).await.unwrap()))
    };
    let database = fs::read(dir.path().join("store.db")).unwrap();
    let mut refused = 0;
    for at in (0..database.len()).step_by(499) {
        let damaged = killed(dir.path());
        flip(&damaged.path().join("store.db"), at);
        let Ok(store) = Store::open(damaged.path(), Options::default()) else {
            refused += 1;
            continue;
        };
        assert_eq!(present(&store), whole, "byte {at}");
        match store.events_since("", 0, 7, 99).await {
            Ok(events) => assert_eq!(show_events(&events), history, "byte {at}"),
            Err(_) => refused += 1,
        }
    }
    assert!(refused > 20, "only {refused} refused");
}

#[tokio::test]
async fn damaged_records_are_named() {
    let table = [
        ("UPDATE kv SET value = x'00' WHERE rev = 3", "\"/2\" at revision 3"),
        ("UPDATE kv SET deleted = 1 WHERE rev = 4", "\"/3\" at revision 4"),
        ("UPDATE kv SET key = '/x' WHERE rev = 1", "\"/x\" at revision 1"),
        ("UPDATE kv SET rev = 100 WHERE rev = 5", "\"/4\" at revision 100"),
        ("DELETE FROM kv WHERE rev = 2", "revision 7 of key \"/1\" replaces revision 2"),
        ("DELETE FROM kv WHERE rev = 5", "not those that existed at revision 7"),
        ("DELETE FROM kv WHERE rev = 7", "acknowledged revisions 7 to 7 are missing"),
    ];
    let dir = six_transactions().await;
    open(dir.path()).close();
    for (statement, expected) in table {
        let damaged = killed(dir.path());
        let connection = rusqlite::Connection::open(damaged.path().join("store.db")).unwrap();
        connection.execute(statement, []).unwrap();
        drop(connection);
        let Err(Error::Corrupt(damage)) = Store::open(damaged.path(), Options::default()) else {
            panic!("not noticed: {statement}");
        };
        assert!(damage.to_string().contains(expected), "{statement}: {damage}");
    }
}

#[tokio::test]
async fn damaged_history_is_reported_when_it_is_read() {
    let dir = six_transactions().await;
    open(dir.path()).close();
    let connection = rusqlite::Connection::open(dir.path().join("store.db")).unwrap();
    connection.execute("UPDATE kv SET value = x'00' WHERE rev = 2", []).unwrap();
    drop(connection);
    let store = open(dir.path());
    for damaged in [store.events_since("/1", 0, 7, 9).await.err(), store.range_at("/1", "", 0, 2).await.err()]
    {
        let Some(Error::Corrupt(damage)) = damaged else { panic!("not noticed: {damaged:?}") };
        assert!(damage.to_string().contains("\"/1\" at revision 2"), "{damage}");
    }
    assert_eq!(store.get("/1").unwrap().value, "again");
}

type Harm<'a> = &'a dyn Fn(&Path);

#[tokio::test]
async fn an_operator_can_accept_the_loss() {
    let log_damage = |dir: &Path| cut(&dir.join(LOG), 10);
    let record_damage = |dir: &Path| {
        let connection = rusqlite::Connection::open(dir.join("store.db")).unwrap();
        connection.execute("UPDATE kv SET value = x'00' WHERE rev = 3", []).unwrap();
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
        assert_eq!((store.revision(), store.compacted()), (7, 7), "lost revisions stay used");
        store.close();
        let store = open(dir.path());
        assert_eq!(keys(&store), expected, "whole again, without being asked to accept");
        let done = commit(&store, vec![put("/1", "new"), delete("/4")]).await.unwrap();
        assert_eq!(done.revision, 9);
        store.compact(8).await.unwrap();
        store.close();
        assert_eq!(open(dir.path()).revision(), 9);
    }
}
