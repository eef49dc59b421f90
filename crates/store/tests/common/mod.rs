//! Shared by the store's tests: short forms of transactions, and a deterministic random generator.
#![expect(dead_code, reason = "each test binary uses its own part")]

pub(crate) mod etcd;
pub(crate) mod etcd_members;
pub(crate) mod etcd_process;
pub(crate) mod simulated_disk;
pub(crate) mod subject;
pub(crate) mod workload;

use std::{fs, path::Path, sync::Arc};

use corten_store::{Committed, Entry, Error, Event, Expect, NewValue, Op, Options, Store, Txn};
use tempfile::{TempDir, tempdir};

pub(crate) fn open(dir: &Path) -> Store {
    Store::open(dir, Options::default()).expect("a store that opens")
}

pub(crate) fn put(key: &str, value: &str) -> Op {
    put_if(key, value, Expect::Any)
}

pub(crate) fn put_if(key: &str, value: &str, expect: Expect) -> Op {
    let value = NewValue::from(value.as_bytes().to_vec());
    Op::Put { key: key.into(), expect, value, lease: None }
}

pub(crate) fn delete(key: &str) -> Op {
    Op::Delete { key: key.into(), expect: Expect::Present }
}

pub(crate) async fn commit(store: &Store, ops: Vec<Op>) -> Result<Committed, Error> {
    store.commit(Txn { ops }).await
}

/// "key=value@mod_revision"
pub(crate) fn show(entry: &Entry) -> String {
    format!("{}={}@{}", entry.key, String::from_utf8_lossy(&entry.value), entry.mod_revision)
}

pub(crate) fn show_all(entries: &[Arc<Entry>]) -> Vec<String> {
    entries.iter().map(|entry| show(entry)).collect()
}

/// "revision: previous -> current"
pub(crate) fn show_event(event: &Event) -> String {
    let side = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or("-".into(), |entry| show(entry));
    format!("{}: {} -> {}", event.revision, side(&event.previous), side(&event.current))
}

pub(crate) fn show_events(events: &[Arc<Event>]) -> Vec<String> {
    events.iter().map(|event| show_event(event)).collect()
}

/// A small generator (xorshift64*); the same seed gives the same run.
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Chance(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % bound
    }
}

/// The files of a store as a kill at this moment would leave them.
pub(crate) fn copied(dir: &Path) -> TempDir {
    let copy = tempdir().expect("a directory");
    for file in fs::read_dir(dir).expect("a directory to read") {
        let file = file.expect("a file");
        fs::copy(file.path(), copy.path().join(file.file_name())).expect("a copy");
    }
    copy
}
