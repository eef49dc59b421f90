//! The values that this process is writing, so that their events need not be translated back: an event with the same stored
//! bytes has the same value, whichever process wrote it.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::{Entry, NewValue, Revision};

#[derive(Default)]
pub(super) struct Pending(Mutex<HashMap<Arc<str>, Vec<Slot>>>);

struct Slot {
    number: u64,
    stored: Bytes,
    value: NewValue,
    /// The entries that were made of it.
    seen: Vec<Arc<Entry>>,
}

/// One value that is being written, until this is dropped.
pub(super) struct Write<'a> {
    pending: &'a Pending,
    key: Arc<str>,
    number: u64,
}

impl Pending {
    pub(super) fn add(&self, key: &Arc<str>, stored: Bytes, value: NewValue) -> Write<'_> {
        let mut slots = self.0.lock();
        let slots = slots.entry(Arc::clone(key)).or_default();
        let number = slots.last().map_or(0, |slot| slot.number + 1);
        slots.push(Slot { number, stored, value, seen: Vec::new() });
        Write { pending: self, key: Arc::clone(key), number }
    }

    /// The value of an event, if it is being written.
    pub(super) fn value(&self, key: &str, stored: &[u8]) -> Option<NewValue> {
        let slots = self.0.lock();
        let slot = slots.get(key)?.iter().find(|slot| slot.stored == stored)?;
        Some(slot.value.clone())
    }

    /// Keeps the entry of an event for its writers.
    pub(super) fn show(&self, entry: &Arc<Entry>, stored: &[u8]) {
        if let Some(slots) = self.0.lock().get_mut(&entry.key) {
            slots
                .iter_mut()
                .filter(|slot| slot.stored == stored)
                .for_each(|slot| slot.seen.push(Arc::clone(entry)));
        }
    }
}

impl Write<'_> {
    /// The entry of this write's event, once the event was published.
    pub(super) fn entry(&self, revision: Revision) -> Option<Arc<Entry>> {
        let slots = self.pending.0.lock();
        let slot = slots.get(&self.key)?.iter().find(|slot| slot.number == self.number)?;
        slot.seen.iter().find(|entry| entry.mod_revision == revision).cloned()
    }

    /// The value in memory at a revision.
    pub(super) fn value(&self, revision: Revision) -> Option<Bytes> {
        let slots = self.pending.0.lock();
        let slot = slots.get(&self.key)?.iter().find(|slot| slot.number == self.number)?;
        Some(slot.value.clone().at(revision))
    }
}

impl Drop for Write<'_> {
    fn drop(&mut self) {
        let mut all = self.pending.0.lock();
        if let Some(slots) = all.get_mut(&self.key) {
            slots.retain(|slot| slot.number != self.number);
            if slots.is_empty() {
                all.remove(&self.key);
            }
        }
    }
}
