//! Updates the node authorizer's graph from the store.
//!
//! Pods change often and nodes' requests need the graph rarely, so a change is only queued (the newest of each object) and
//! parsed when the graph is next used. The graph always includes every queued change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use corten_api::{Value, json};
use corten_auth::node::{Graph, VertexKind};
use corten_store::{Entry, Event, Observer, Store};
use parking_lot::{Mutex, RwLock, RwLockReadGuard};

use super::rbac_feed::split_key;

/// The kinds in the graph, and their key prefixes.
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

/// A change that is not in the graph yet. The queue is bounded by the existing objects: an object that was never in the
/// graph leaves no entry when it is deleted.
#[derive(Default)]
struct Noted {
    changes: HashMap<Arc<str>, Noting>,
    known: HashSet<Arc<str>>,
}

struct Noting {
    kind: VertexKind,
    prefix: &'static str,
    /// `None` after a deletion.
    entry: Option<Arc<Entry>>,
}

struct KindObserver {
    shared: Arc<Shared>,
    kind: VertexKind,
    prefix: &'static str,
}

impl NodeFeed {
    pub(super) fn start(store: &Store) -> NodeFeed {
        let feed = NodeFeed::default();
        for (kind, prefix) in KINDS {
            let observer = Arc::new(KindObserver { shared: feed.0.clone(), kind, prefix });
            let mut noted = feed.0.noted.lock();
            let (_, entries) = store.observe(prefix, observer);
            for entry in entries {
                noted.queue_change(entry.key.clone(), Noting { kind, prefix, entry: Some(entry) });
            }
        }
        feed
    }

    /// The graph with all queued changes applied.
    pub(super) fn graph(&self) -> RwLockReadGuard<'_, Graph> {
        let mut noted = self.0.noted.lock();
        if !noted.changes.is_empty() {
            // Locked before the queue is unlocked, so that no reader sees the graph without these changes.
            let mut graph = self.0.graph.write();
            let changes = noted.take();
            drop(noted);
            for (key, change) in changes {
                change.update_graph(&mut graph, &key);
            }
        }
        self.0.graph.read()
    }
}

impl Noted {
    fn queue_change(&mut self, key: Arc<str>, change: Noting) {
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
    fn update_graph(&self, graph: &mut Graph, key: &str) {
        let (namespace, name) = split_key(key, self.prefix);
        let object: Option<Value> = self.entry.as_ref().and_then(|entry| json::parse(&entry.value).ok());
        match self.kind {
            VertexKind::Pod => graph.set_pod(namespace, name, object.as_ref()),
            VertexKind::PersistentVolume => graph.set_volume(name, object.as_ref()),
            kind => graph.set_placed(kind, namespace, name, object.as_ref()),
        }
    }
}

impl Observer for KindObserver {
    fn apply(&self, events: &[Arc<Event>], _revision: u64) {
        let mut noted = self.shared.noted.lock();
        for event in events {
            let change = Noting { kind: self.kind, prefix: self.prefix, entry: event.current.clone() };
            noted.queue_change(event.key.clone(), change);
        }
    }
}
