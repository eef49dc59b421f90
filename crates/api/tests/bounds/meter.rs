//! What work costs, in memory and in processor time, and ceilings on both in the size of the input.
//!
//! Nothing here looks at a clock on the wall. Memory is counted by the allocator, thread by thread: the most that
//! was held at once. Time is the thread's own on the processor, which other load does not change, and is mostly
//! judged by how it grows: eight times the input may cost twenty-four times the work, where quadratic work costs
//! sixty-four times as much. The least of several runs counts, and what takes next to no time is not judged.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

/// How many times larger the large input of each check is.
pub(crate) const FACTOR: usize = 8;
/// How many times more time the large input may take.
const MAX_GROWTH: u64 = 3 * FACTOR as u64;
/// Less than this is not judged by its growth.
const NEGLIGIBLE_NANOS: u64 = 80_000_000;
/// What the kernel's count of a thread's time may be off by.
const GRAIN_NANOS: u64 = 4_000_000;
/// However it grows: nothing that is linear comes near it, unoptimised or not.
const MAX_NANOS_PER_BYTE: u64 = 20_000;
/// Memory that is not counted: what is made once, tables and the like.
const FREE_BYTES: usize = 16 << 20;
const MAX_BYTES_PER_BYTE: usize = 400;
const RUNS: usize = 5;

/// Counts what each thread holds.
struct Counting;

thread_local! {
    static HELD: Cell<usize> = const { Cell::new(0) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn count(more: usize, less: usize) {
    // A thread on its way out has no counters any more.
    let _ = HELD.try_with(|held| {
        let now = held.get().wrapping_add(more).wrapping_sub(less);
        held.set(now);
        // What another thread gave may be given back here.
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

#[derive(Clone, Copy)]
struct Cost {
    peak: usize,
    nanos: u64,
}

fn measure<T>(work: impl FnOnce() -> T) -> Cost {
    let held = HELD.get();
    PEAK.set(held);
    let started = thread_nanos();
    let outcome = work();
    drop(outcome);
    Cost { peak: PEAK.get().wrapping_sub(held), nanos: thread_nanos() - started }
}

/// How long this thread has been on a processor.
fn thread_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts threads' time");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds come first")
}

/// Complaints about work that costs too much for the size of its input: one line, or none.
pub(crate) fn excess<I, T>(
    name: &str,
    small: usize,
    input: impl Fn(usize) -> I,
    size: impl Fn(&I) -> usize,
    work: impl Fn(&I) -> T,
) -> Option<String> {
    let (less, more) = (input(small), input(small * FACTOR));
    let (less_bytes, more_bytes) = (size(&less), size(&more));
    // Whatever is made when first needed.
    measure(|| work(&input(1)));
    let (mut low, mut high) = (measure(|| work(&less)), measure(|| work(&more)));
    let allowed = FREE_BYTES + MAX_BYTES_PER_BYTE * more_bytes;
    if high.peak > allowed {
        return Some(format!("{name}: {} bytes held for an input of {more_bytes}", high.peak));
    }
    for _ in 1..RUNS {
        let Some(why) = slow(low, high, more_bytes) else { return None };
        if high.nanos > 1000 * NEGLIGIBLE_NANOS {
            // No other run will be quick.
            return Some(format!("{name}: {why}"));
        }
        low.nanos = low.nanos.min(measure(|| work(&less)).nanos);
        high.nanos = high.nanos.min(measure(|| work(&more)).nanos);
    }
    let why = slow(low, high, more_bytes)?;
    Some(format!("{name}: {why} ({less_bytes} and {more_bytes} bytes)"))
}

fn slow(low: Cost, high: Cost, bytes: usize) -> Option<String> {
    if high.nanos <= NEGLIGIBLE_NANOS {
        return None;
    }
    if high.nanos > MAX_NANOS_PER_BYTE * bytes as u64 + NEGLIGIBLE_NANOS {
        return Some(format!("{} ms for {bytes} bytes", high.nanos / 1_000_000));
    }
    let growth = high.nanos / low.nanos.max(GRAIN_NANOS);
    (growth > MAX_GROWTH).then(|| {
        format!("{growth} times the work: {} and {} ms", low.nanos / 1_000_000, high.nanos / 1_000_000)
    })
}

/// Fails with all complaints at once.
pub(crate) fn settle(complaints: &[String]) {
    assert!(complaints.is_empty(), "work out of proportion to its input:\n{}", complaints.join("\n"));
}
