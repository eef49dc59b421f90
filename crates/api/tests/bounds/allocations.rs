//! The peak memory of work: counted by the allocator, per thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// The allowance of any input: a constant for tables and the like, and an amount for each of its bytes.
pub(crate) fn allowance(bytes: usize) -> usize {
    const FREE_BYTES: usize = 16 << 20;
    const MAX_BYTES_PER_BYTE: usize = 400;
    FREE_BYTES + MAX_BYTES_PER_BYTE * bytes
}

/// The peak memory of work, beyond what was allocated before.
pub(crate) fn peak<T>(work: impl FnOnce() -> T) -> usize {
    let held = HELD.get();
    PEAK.set(held);
    drop(work());
    PEAK.get().wrapping_sub(held)
}

/// Counts the allocated bytes of each thread.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    // A thread that is exiting has no counters any more.
    let _ = HELD.try_with(|held| {
        let now = held.get().wrapping_add(more).wrapping_sub(less);
        held.set(now);
        // Memory that another thread allocated may be released here.
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(if now > usize::MAX / 2 { 0 } else { now })));
    });
}

#[expect(unsafe_code, reason = "an allocator is the only place where allocations can be counted")]
// SAFETY: everything is left to the system's allocator; counting touches none of its memory.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(at, layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size, 0);
        // SAFETY: as the caller promises.
        let moved = unsafe { System.realloc(at, layout, size) };
        count(0, layout.size());
        moved
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;
