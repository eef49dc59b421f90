//! Reuse of parsed objects: the trees that recent writes encoded, for in-process watchers and follow-up writes.
//!
//! A pod is created, scheduled and bound within milliseconds; each of these steps reads the object that the step before
//! wrote. The write handler has its tree already, so the object keeps that tree until its first reader takes it, or until
//! [`RecentWrites`] has seen [`KEPT`] newer writes. Trees are kept only for kinds with in-process watchers, because a
//! tree is several times as large as its text.
//!
//! *Invariant:* a kept tree equals the parsed text of its object; debug builds compare them with every write.

use std::collections::VecDeque;
use std::sync::Arc;

use corten_api::{Value, json, meta};
use corten_store::Entry;
use parking_lot::Mutex;

use crate::object::Object;

/// The number of objects that keep their tree.
pub(crate) const KEPT: usize = 64;

/// The tree of one version of an object, from its write until it is taken or trimmed; often absent.
#[derive(Debug, Default)]
pub(crate) struct WrittenTree(Mutex<Option<Arc<Value>>>);

impl WrittenTree {
    /// The tree of an object that is about to be written, in its stored form.
    pub(crate) fn new(mut object: Value, kind: &str, api_version: &str) -> WrittenTree {
        let map = object.make_object();
        map.insert("kind", kind);
        map.insert("apiVersion", api_version);
        WrittenTree(Mutex::new(Some(Arc::new(object))))
    }

    /// Moves the tree out, with the revision that the store assigned to its entry.
    pub(crate) fn committed(&self, entry: &Entry) -> WrittenTree {
        let mut tree = self.0.lock().take();
        if let Some(tree) = &mut tree {
            let revision = entry.mod_revision;
            meta::set_text(Arc::make_mut(tree), "resourceVersion", itoa::Buffer::new().format(revision));
        }
        debug_assert!(
            tree.as_deref().is_none_or(|tree| json::parse(&entry.value).is_ok_and(|parsed| parsed == *tree)),
            "the kept tree of {} differs from its text",
            entry.key
        );
        WrittenTree(Mutex::new(tree))
    }

    /// The tree: the kept one, which is then no longer kept, or the parsed text.
    pub(crate) fn take_or_parse(&self, text: &[u8]) -> Value {
        match self.0.lock().take() {
            Some(tree) => Arc::unwrap_or_clone(tree),
            None => json::parse(text).unwrap_or_default(),
        }
    }

    /// The tree, if it is still kept.
    pub(crate) fn get(&self) -> Option<Arc<Value>> {
        self.0.lock().clone()
    }

    fn is_kept(&self) -> bool {
        self.0.lock().is_some()
    }

    fn clear(&self) {
        self.0.lock().take();
    }
}

/// The objects of all kinds that keep the tree they were written from, oldest first.
#[derive(Default)]
pub(crate) struct RecentWrites(Mutex<VecDeque<Arc<Object>>>);

impl RecentWrites {
    /// Lists an object whose tree is kept, so that a later `trim` drops the tree.
    pub(crate) fn keep(&self, object: &Arc<Object>) {
        if object.written_tree.is_kept() {
            self.0.lock().push_back(object.clone());
        }
    }

    /// Drops all trees.
    pub(crate) fn clear(&self) {
        let objects = std::mem::take(&mut *self.0.lock());
        objects.iter().for_each(|object| object.written_tree.clear());
    }

    /// Drops the trees of all but the last [`KEPT`] objects. Called by the threads that create trees, not by the
    /// committer: memory is freed where it was allocated.
    pub(crate) fn trim(&self) {
        loop {
            let mut objects = self.0.lock();
            let oldest = if objects.len() > KEPT { objects.pop_front() } else { None };
            drop(objects);
            let Some(oldest) = oldest else { return };
            oldest.written_tree.clear();
        }
    }
}
