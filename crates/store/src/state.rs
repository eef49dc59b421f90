//! The live entries, in memory, in key order.
//!
//! Invariants: holds exactly the entries a committed revision left behind, never a write that is not
//! yet on disk; the digest is the exclusive or of [`Mark`] over all live entries, so that a load can
//! tell whether it found precisely the entries that were live at the last write.

use std::{collections::BTreeMap, ops::Bound, sync::Arc};

use crate::{
    Entry, Error, Event, Keys, Range, Revision,
    sealing::{self, Sealing},
};

#[derive(Default)]
pub(crate) struct State {
    entries: BTreeMap<Arc<str>, Arc<Entry>>,
    pub(crate) revision: Revision,
    pub(crate) digest: u64,
    /// The size of all entries, about as in a snapshot.
    pub(crate) bytes: u64,
}

impl State {
    /// The size of a snapshot, with some room for what sealing adds to values.
    pub(crate) fn snapshot_bytes(&self) -> u64 {
        self.bytes + self.bytes / 8 + (64 << 10)
    }

    pub(crate) fn get(&self, key: &str) -> Option<&Arc<Entry>> {
        self.entries.get(key)
    }

    /// Inserts an entry that was read from disk, and updates the digest.
    pub(crate) fn restore(&mut self, entry: Arc<Entry>) {
        self.digest ^= mark(&entry);
        self.insert(entry);
    }

    fn insert(&mut self, entry: Arc<Entry>) {
        self.bytes += size(&entry);
        if let Some(replaced) = self.entries.insert(Arc::clone(&entry.key), entry) {
            self.bytes -= size(&replaced);
        }
    }

    /// Opens the values of entries that were read from disk. Returns true if one of them should be sealed again.
    pub(crate) fn open(&mut self, sealing: &dyn Sealing) -> Result<bool, Error> {
        let mut is_any_stale = false;
        for entry in self.entries.values_mut() {
            let (opened, is_stale) = sealing::open(sealing, Arc::clone(entry))?;
            is_any_stale |= is_stale;
            self.bytes = self.bytes - size(entry) + size(&opened);
            *entry = opened;
        }
        Ok(is_any_stale)
    }

    pub(crate) fn apply(&mut self, event: &Event) {
        self.digest = advance(self.digest, event, mark);
        match &event.current {
            Some(entry) => self.insert(Arc::clone(entry)),
            None => {
                if let Some(removed) = self.entries.remove(&event.key) {
                    self.bytes -= size(&removed);
                }
            }
        }
        self.revision = event.revision;
    }

    /// The entries whose key starts with `prefix` and is not before `from`.
    pub(crate) fn iter<'a>(&'a self, prefix: &'a str, from: &'a str) -> impl Iterator<Item = &'a Arc<Entry>> {
        let start = if from > prefix { from } else { prefix };
        self.entries
            .range::<str, _>((Bound::Included(start), Bound::Unbounded))
            .map(|(_, entry)| entry)
            .take_while(move |entry| entry.key.starts_with(prefix))
    }

    /// The entries of a range of keys.
    pub(crate) fn scan<'a>(&'a self, keys: &'a Keys) -> impl Iterator<Item = &'a Arc<Entry>> {
        let bounds = keys.bounds();
        bounds.into_iter().flat_map(|bounds| self.entries.range::<str, _>(bounds)).map(|(_, entry)| entry)
    }

    pub(crate) fn range(&self, prefix: &str, from: &str, limit: usize) -> Range {
        page(self.iter(prefix, from), limit, self.revision)
    }

    pub(crate) fn all(&self) -> impl Iterator<Item = &Arc<Entry>> {
        self.entries.values()
    }
}

/// The first `limit` entries (all when 0) and the number of those left.
pub(crate) fn page<'a>(
    mut entries: impl Iterator<Item = &'a Arc<Entry>>,
    limit: usize,
    revision: Revision,
) -> Range {
    let limit = if limit == 0 { usize::MAX } else { limit };
    let entries_of_page = entries.by_ref().take(limit).cloned().collect();
    Range { entries: entries_of_page, revision, remaining: entries.count() as u64 }
}

/// The bytes of an entry in a file, without those that sealing adds.
fn size(entry: &Entry) -> u64 {
    const NUMBERS: usize = 65;
    (NUMBERS + entry.key.len() + entry.value.len()) as u64
}

/// The contribution of one live entry to the digest.
pub(crate) type Mark = fn(&Entry) -> u64;

/// The digest of the live entries after `event`, given the one before it.
pub(crate) fn advance(digest: u64, event: &Event, mark: Mark) -> u64 {
    let previous = event.previous.as_deref().map_or(0, mark);
    let current = event.current.as_deref().map_or(0, mark);
    digest ^ previous ^ current
}

/// The mark of a key and its revision: entries of one transaction have the same revision.
pub(crate) fn mark(entry: &Entry) -> u64 {
    // FNV-1a.
    let byte = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    mix(entry.key.bytes().fold(0xcbf2_9ce4_8422_2325, byte) ^ mark_of_revision(entry))
}

/// The mark of a revision alone, in stores of versions that gave every write its own.
pub(crate) fn mark_of_revision(entry: &Entry) -> u64 {
    mix(entry.mod_revision)
}

/// The finalizer of splitmix64.
fn mix(number: u64) -> u64 {
    let mut mixed = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
