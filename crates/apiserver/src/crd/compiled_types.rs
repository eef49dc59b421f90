//! The compiled types of all custom resources, and the memory that they may take together.
//!
//! A type is compiled when it is first used. It is dropped after it was idle for a while, and sooner when all types
//! together take more than `LIMIT`: then those go first that were not used for longest. A request that uses a dropped type
//! compiles it again; one that holds it keeps it until its end.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::version::Compiled;

/// Memory of all compiled types, approximately.
const LIMIT: usize = 32 << 20;

/// Memory of a compiled type for each byte of its schema's JSON, approximately: nodes, patterns, rules, and the type for
/// field management.
const MEMORY_PER_BYTE: usize = 7;

/// The compiled types that are in memory.
pub(crate) struct CompiledTypes {
    started: Instant,
    limit: usize,
    held: Mutex<Held>,
    /// Notified when a type was compiled.
    compiled: Notify,
    /// Bytes that defaults added to cached objects of all resources, see `growth`.
    pub(super) added_by_defaults: Arc<AtomicUsize>,
}

#[derive(Default)]
struct Held {
    slots: Vec<Weak<Slot>>,
    bytes: usize,
}

/// The place of one version's compiled type.
pub(super) struct Slot {
    types: Arc<CompiledTypes>,
    compiled: Mutex<Option<Arc<Compiled>>>,
    /// Held while the type is compiled.
    compiling: Mutex<()>,
    /// Milliseconds after the start of the last use.
    used: AtomicU64,
    bytes: usize,
}

impl Default for CompiledTypes {
    fn default() -> CompiledTypes {
        CompiledTypes::with_limit(LIMIT)
    }
}

impl CompiledTypes {
    fn with_limit(limit: usize) -> CompiledTypes {
        CompiledTypes {
            started: Instant::now(),
            limit,
            held: Mutex::default(),
            compiled: Notify::new(),
            added_by_defaults: Arc::default(),
        }
    }

    /// A place for the type of a schema of this many bytes of JSON.
    pub(super) fn slot(self: &Arc<Self>, schema_bytes: usize) -> Arc<Slot> {
        Arc::new(Slot {
            types: self.clone(),
            compiled: Mutex::default(),
            compiling: Mutex::default(),
            used: AtomicU64::new(0),
            bytes: schema_bytes.saturating_mul(MEMORY_PER_BYTE),
        })
    }

    /// Waits until a type was compiled.
    pub(super) async fn compiled(&self) {
        self.compiled.notified().await;
    }

    /// Drops the types that were not used for a while. Returns the number of those that stay.
    pub(super) fn drop_idle(&self, idle: Duration) -> usize {
        let now = self.now();
        let is_used = |slot: &Slot| {
            let used = Duration::from_millis(slot.used.load(Ordering::Relaxed));
            Duration::from_millis(now) < used.saturating_add(idle)
        };
        self.held.lock().retain(is_used)
    }

    fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Counts a type that was compiled, and drops others if there is too much.
    fn add(&self, slot: &Arc<Slot>) {
        let mut held = self.held.lock();
        held.bytes = held.bytes.saturating_add(slot.bytes);
        held.slots.push(Arc::downgrade(slot));
        if held.bytes > self.limit {
            held.drop_least_recently_used(self.limit, slot);
        }
        self.compiled.notify_one();
    }
}

impl Held {
    /// Drops all types but those that `is_kept` is true for. Returns the number of those.
    fn retain(&mut self, is_kept: impl Fn(&Slot) -> bool) -> usize {
        let mut bytes = 0usize;
        self.slots.retain(|slot| {
            let Some(slot) = slot.upgrade() else { return false };
            let is_kept = is_kept(&slot);
            match is_kept {
                true => bytes = bytes.saturating_add(slot.bytes),
                false => *slot.compiled.lock() = None,
            }
            is_kept
        });
        self.bytes = bytes;
        self.slots.len()
    }

    /// Drops types until a quarter of the limit is free, so that this is not done for each that is compiled. The newest
    /// stays in any case.
    fn drop_least_recently_used(&mut self, limit: usize, newest: &Arc<Slot>) {
        let mut slots: Vec<Arc<Slot>> = self.slots.iter().filter_map(Weak::upgrade).collect();
        slots.sort_by_cached_key(|slot| std::cmp::Reverse(slot.used.load(Ordering::Relaxed)));
        let mut left = (limit / 4 * 3).saturating_sub(newest.bytes);
        let mut kept: Vec<Weak<Slot>> = Vec::new();
        self.bytes = newest.bytes;
        for slot in &slots {
            if Arc::ptr_eq(slot, newest) {
                kept.push(Arc::downgrade(slot));
            } else if let Some(rest) = left.checked_sub(slot.bytes) {
                left = rest;
                self.bytes += slot.bytes;
                kept.push(Arc::downgrade(slot));
            } else {
                *slot.compiled.lock() = None;
            }
        }
        self.slots = kept;
    }
}

impl Slot {
    /// The type, compiled if it is not there.
    pub(super) fn get(self: &Arc<Self>, compile: impl FnOnce() -> Compiled) -> Arc<Compiled> {
        self.used.store(self.types.now(), Ordering::Relaxed);
        if let Some(compiled) = &*self.compiled.lock() {
            return compiled.clone();
        }
        crate::heavy::blocking(|| {
            let _others_wait = self.compiling.lock();
            if let Some(compiled) = &*self.compiled.lock() {
                return compiled.clone();
            }
            let compiled = Arc::new(compile());
            *self.compiled.lock() = Some(compiled.clone());
            self.types.add(self);
            compiled
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Uses the types at these positions, one after another in time, and returns which are in memory.
    async fn held_after(limit: usize, uses: &[usize]) -> Vec<usize> {
        let types = Arc::new(CompiledTypes::with_limit(limit * MEMORY_PER_BYTE));
        let slots: Vec<Arc<Slot>> = (0..10).map(|_| types.slot(10)).collect();
        for position in uses {
            tokio::time::advance(Duration::from_secs(1)).await;
            slots[*position].get(Compiled::for_tests);
        }
        let held: Vec<usize> =
            (0..10).filter(|position| slots[*position].compiled.lock().is_some()).collect();
        assert_eq!(types.held.lock().bytes, held.len() * 10 * MEMORY_PER_BYTE);
        held
    }

    #[tokio::test(start_paused = true)]
    async fn types_that_were_not_used_for_longest_make_room() {
        assert_eq!(held_after(40, &[0, 1, 2, 3]).await, [0, 1, 2, 3], "all fit");
        assert_eq!(held_after(40, &[0, 1, 2, 3, 4]).await, [2, 3, 4], "a quarter is freed");
        assert_eq!(held_after(40, &[0, 1, 2, 3, 0, 4]).await, [0, 3, 4], "a use counts");
        assert_eq!(held_after(5, &[0, 1]).await, [1], "the newest stays, whatever its size");
    }

    #[tokio::test(start_paused = true)]
    async fn idle_types_are_dropped() {
        let types = Arc::new(CompiledTypes::default());
        let (first, second) = (types.slot(10), types.slot(10));
        first.get(Compiled::for_tests);
        tokio::time::advance(Duration::from_secs(200)).await;
        second.get(Compiled::for_tests);
        tokio::time::advance(Duration::from_secs(150)).await;
        assert_eq!(types.drop_idle(Duration::from_secs(300)), 1);
        assert!(first.compiled.lock().is_none() && second.compiled.lock().is_some());
        drop(second);
        assert_eq!(types.drop_idle(Duration::from_secs(300)), 0, "the definition is gone");
        first.get(Compiled::for_tests);
        assert!(first.compiled.lock().is_some(), "compiled again when it is used");
    }
}
