//! The memory that new defaults add to objects that were stored without them.
//!
//! A definition's author may add a large default to a schema with many stored objects: each would grow in the cache, by up
//! to two megabytes. So there is a bound: cached objects of a resource may take three times what is stored of them, and
//! beyond that, those of all resources together may take `LIMIT` more. Objects past the bound are shown as they are stored,
//! until they are written again.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use corten_store::Entry;

/// Bytes that defaults may add to objects of all resources, whatever is stored.
const LIMIT: usize = 64 << 20;
/// Bytes that defaults may add for each stored byte.
const ADDED_PER_STORED: usize = 2;

/// Counts the cached objects of one resource that differ from what is stored.
#[derive(Debug, Default)]
pub(crate) struct Growth {
    /// Bytes added to objects of all resources.
    all: Arc<AtomicUsize>,
    added: AtomicUsize,
    stored: AtomicUsize,
}

/// The part of one cached object. It is counted until it is dropped with the object.
#[derive(Debug)]
pub(crate) struct Grown {
    growth: Arc<Growth>,
    added: usize,
    stored: usize,
}

impl Growth {
    pub(super) fn new(all: &Arc<AtomicUsize>) -> Growth {
        Growth { all: all.clone(), ..Growth::default() }
    }

    /// True if another stored object may receive defaults.
    pub(super) fn is_allowed(&self) -> bool {
        let stored = self.stored.load(Ordering::Relaxed).saturating_mul(ADDED_PER_STORED);
        self.added.load(Ordering::Relaxed) <= stored || self.all.load(Ordering::Relaxed) < LIMIT
    }

    /// Counts an object that is `size` bytes in the cache.
    pub(crate) fn count(self: &Arc<Self>, entry: &Entry, size: usize) -> Grown {
        let stored = entry.value.len();
        let added = size.saturating_sub(stored);
        self.all.fetch_add(added, Ordering::Relaxed);
        self.added.fetch_add(added, Ordering::Relaxed);
        self.stored.fetch_add(stored, Ordering::Relaxed);
        Grown { growth: self.clone(), added, stored }
    }
}

impl Drop for Grown {
    fn drop(&mut self) {
        self.growth.all.fetch_sub(self.added, Ordering::Relaxed);
        self.growth.added.fetch_sub(self.added, Ordering::Relaxed);
        self.growth.stored.fetch_sub(self.stored, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(size: usize) -> Entry {
        Entry {
            key: "k".into(),
            value: vec![b' '; size].into(),
            create_revision: 1,
            mod_revision: 1,
            version: 1,
            lease: None,
            note: None,
        }
    }

    /// Counts objects until no more may grow.
    fn grow(growth: &Arc<Growth>, stored: usize, cached: usize) -> Vec<Grown> {
        let mut grown = Vec::new();
        while growth.is_allowed() && grown.len() < 10_000 {
            grown.push(growth.count(&entry(stored), cached));
        }
        grown
    }

    #[test]
    fn large_defaults_of_small_objects_are_bounded_for_all_resources_together() {
        let all = Arc::default();
        let (first, second) = (Arc::new(Growth::new(&all)), Arc::new(Growth::new(&all)));
        let held = grow(&first, 200, 1 << 20);
        assert_eq!(held.len(), 65);
        assert_eq!(grow(&second, 200, 1 << 20).len(), 1, "another resource gets hardly more");
        assert_eq!(grow(&second, 200, 500).len(), 10_000, "defaults as large as the objects are always set");
        drop(held);
        assert_eq!((all.load(Ordering::Relaxed), first.stored.load(Ordering::Relaxed)), (0, 0));
        assert!(first.is_allowed(), "objects that are gone do not count");
    }
}
