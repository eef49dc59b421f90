//! Keeps the graph of what nodes need in step with the store.
//!
//! Pods change all the time and nodes ask rarely, so a change is only noted when it happens (the newest of
//! each object) and read when the graph is next asked. Nobody who asks misses a change that was noted.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use corten_api::{Value, json};
use corten_auth::node::{Graph, VertexKind};
use corten_store::{Entry, Event, Observer, Store};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::rbac_feed::split_key;

/// The kinds that relate objects to nodes, and where they are stored.
const KINDS: [(VertexKind, &str); 5] = [
    (VertexKind::Pod, "/registry/pods/"),
    (VertexKind::PersistentVolume, "/registry/persistentvolumes/"),
    (VertexKind::VolumeAttachment, "/registry/volumeattachments/"),
    (VertexKind::ResourceSlice, "/registry/resourceslices/"),
    (VertexKind::PodCertificateRequest, "/registry/podcertificaterequests/"),
];

#[derive(Default)]
pub(super) struct NodeFeed(Arc<Shared>);

#[derive(Default)]
struct Shared {
    graph: RwLock<Graph>,
    noted: Mutex<Noted>,
}

/// What the graph does not know yet. Bounded by what exists: of what the graph never heard of nothing is
/// kept once it is gone.
#[derive(Default)]
struct Noted {
    changes: HashMap<Arc<str>, Noting>,
    known: HashSet<Arc<str>>,
}

struct Noting {
    kind: VertexKind,
    prefix: &'static str,
    /// `None` once it is gone.
    entry: Option<Arc<Entry>>,
}

struct Follower {
    shared: Arc<Shared>,
    kind: VertexKind,
    prefix: &'static str,
}

impl NodeFeed {
    pub(super) fn start(store: &Store) -> NodeFeed {
        let feed = NodeFeed::default();
        for (kind, prefix) in KINDS {
            let follower = Arc::new(Follower { shared: feed.0.clone(), kind, prefix });
            let mut noted = feed.0.noted.lock();
            let (_, entries) = store.observe(prefix, follower);
            for entry in entries {
                noted.note(entry.key.clone(), Noting { kind, prefix, entry: Some(entry) });
            }
        }
        feed
    }

    /// The graph with every change in it.
    pub(super) fn graph(&self) -> RwLockReadGuard<'_, Graph> {
        let mut noted = self.0.noted.lock();
        if !noted.changes.is_empty() {
            // Taken before the notes are let go, so that nobody reads in between.
            let mut graph = self.0.graph.write();
            let changes = noted.take();
            drop(noted);
            for (key, change) in changes {
                change.tell(&mut graph, &key);
            }
        }
        self.0.graph.read()
    }
}

impl Noted {
    fn note(&mut self, key: Arc<str>, change: Noting) {
        if change.entry.is_none() && !self.known.contains(&key) {
            self.changes.remove(&key);
        } else {
            self.changes.insert(key, change);
        }
    }

    fn take(&mut self) -> HashMap<Arc<str>, Noting> {
        for (key, change) in &self.changes {
            match change.entry {
                Some(_) => self.known.insert(key.clone()),
                None => self.known.remove(key),
            };
        }
        std::mem::take(&mut self.changes)
    }
}

impl Noting {
    fn tell(&self, graph: &mut Graph, key: &str) {
        let (namespace, name) = split_key(key, self.prefix);
        let object: Option<Value> = self.entry.as_ref().and_then(|entry| json::parse(&entry.value).ok());
        match self.kind {
            VertexKind::Pod => graph.set_pod(namespace, name, object.as_ref()),
            VertexKind::PersistentVolume => graph.set_volume(name, object.as_ref()),
            kind => graph.set_placed(kind, namespace, name, object.as_ref()),
        }
    }
}

impl Observer for Follower {
    fn apply(&self, events: &[Arc<Event>], _revision: u64) {
        let mut noted = self.shared.noted.lock();
        for event in events {
            let change = Noting { kind: self.kind, prefix: self.prefix, entry: event.current.clone() };
            noted.note(event.key.clone(), change);
        }
    }
}
