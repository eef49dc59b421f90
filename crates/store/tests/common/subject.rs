//! A store of either engine for the tests of the contract. Its revisions are numbered from the test's first write on, because
//! etcd has revisions of its own.

use std::sync::Arc;

use corten_store::{Committed, Entry, Error, Event, Op, Revision, Store, Txn};
use parking_lot::Mutex;
use tempfile::{TempDir, tempdir};

use super::{etcd::EtcdServer, open};

pub(crate) struct Subject {
    engine: Engine,
    pub(crate) store: Store,
    /// The revisions of the test's writes.
    revisions: Mutex<Vec<Revision>>,
    base: Revision,
}

enum Engine {
    Embedded(TempDir),
    Etcd(Box<EtcdServer>),
}

impl Subject {
    pub(crate) fn embedded() -> Subject {
        let dir = tempdir().expect("a directory");
        let store = open(dir.path());
        Subject::new(Engine::Embedded(dir), store)
    }

    pub(crate) async fn etcd() -> Subject {
        let server = EtcdServer::start(&[]);
        let store = server.connect().await;
        Subject::new(Engine::Etcd(Box::new(server)), store)
    }

    fn new(engine: Engine, store: Store) -> Subject {
        Subject { engine, base: store.revision(), store, revisions: Mutex::default() }
    }

    /// Closes the store and opens it again.
    pub(crate) async fn reopen(&mut self) {
        self.store.clone().close();
        self.store = match &self.engine {
            Engine::Embedded(dir) => open(dir.path()),
            Engine::Etcd(server) => server.connect().await,
        };
    }

    /// The store of another process on the same data. An embedded store has only one process.
    pub(crate) async fn another(&self) -> Store {
        match &self.engine {
            Engine::Embedded(_) => self.store.clone(),
            Engine::Etcd(server) => server.connect().await,
        }
    }

    pub(crate) async fn commit(&self, ops: Vec<Op>) -> Result<Committed, Error> {
        let is_check: Vec<bool> = ops.iter().map(|op| matches!(op, Op::Check { .. })).collect();
        let committed = self.store.commit(Txn { ops }).await?;
        if committed.entries.iter().zip(is_check).any(|(entry, is_check)| entry.is_some() && !is_check) {
            self.learn(committed.revision);
        }
        Ok(committed)
    }

    fn learn(&self, revision: Revision) {
        let mut revisions = self.revisions.lock();
        if revisions.last().is_none_or(|last| *last < revision) && revision > self.base {
            revisions.push(revision);
        }
    }

    /// The number of a revision: that of the last write at it or before.
    pub(crate) fn number(&self, revision: Revision) -> u64 {
        self.revisions.lock().partition_point(|known| *known <= revision) as u64
    }

    /// The revision with a number.
    pub(crate) fn at(&self, number: u64) -> Revision {
        let index = (number as usize).checked_sub(1);
        index.map_or(self.base, |index| self.revisions.lock()[index])
    }

    /// "key=value@number"
    pub(crate) fn show(&self, entry: &Entry) -> String {
        let number = self.number(entry.mod_revision);
        format!("{}={}@{number}", entry.key, String::from_utf8_lossy(&entry.value))
    }

    pub(crate) fn show_all(&self, entries: &[Arc<Entry>]) -> Vec<String> {
        entries.iter().map(|entry| self.show(entry)).collect()
    }

    /// "number: previous -> current"
    pub(crate) fn show_events(&self, events: &[Arc<Event>]) -> Vec<String> {
        let show = |event: &Arc<Event>| {
            self.learn(event.revision);
            let side =
                |entry: &Option<Arc<Entry>>| entry.as_ref().map_or("-".into(), |entry| self.show(entry));
            format!("{}: {} -> {}", self.number(event.revision), side(&event.previous), side(&event.current))
        };
        events.iter().map(show).collect()
    }
}
