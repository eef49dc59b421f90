//! The cost of work, in memory and CPU time, and limits on both in the size of the input.
//!
//! No wall clock is used. Memory is counted by the allocator, per thread: the peak. Time is the thread's own CPU time,
//! which other load does not change, and is mostly judged by its growth: eight times the input may cost twenty-four
//! times the work, where quadratic work costs sixty-four times as much. The least of several runs counts, and very
//! short times are not judged.

#[path = "allocations.rs"]
pub(crate) mod allocations;

use allocations::{allowance, peak};

/// The ratio of the large input of each check to the small one.
pub(crate) const FACTOR: usize = 8;
/// Maximum ratio of the times of the two inputs.
const MAX_GROWTH: u64 = 3 * FACTOR as u64;
/// Times below this are not judged by their growth.
const NEGLIGIBLE_NANOS: u64 = 80_000_000;
/// The error of the kernel's count of a thread's time.
const GRAIN_NANOS: u64 = 4_000_000;
/// A limit for any growth: nothing that is linear comes near it, unoptimised or not.
const MAX_NANOS_PER_BYTE: u64 = 20_000;
const RUNS: usize = 5;

#[derive(Clone, Copy)]
struct Cost {
    peak: usize,
    nanos: u64,
}

fn measure<T>(work: impl FnOnce() -> T) -> Cost {
    let started = thread_nanos();
    let peak = peak(work);
    Cost { peak, nanos: thread_nanos() - started }
}

/// The CPU time of this thread.
fn thread_nanos() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux counts threads' time");
    text.split(' ').next().and_then(|nanos| nanos.parse().ok()).expect("nanoseconds come first")
}

/// The complaint about work that costs too much for the size of its input, if it does.
pub(crate) fn excess<I, T>(
    name: &str,
    small: usize,
    input: impl Fn(usize) -> I,
    size: impl Fn(&I) -> usize,
    work: impl Fn(&I) -> T,
) -> Option<String> {
    let (less, more) = (input(small), input(small * FACTOR));
    let (less_bytes, more_bytes) = (size(&less), size(&more));
    // Initializes lazily created tables.
    measure(|| work(&input(1)));
    let (mut low, mut high) = (measure(|| work(&less)), measure(|| work(&more)));
    if high.peak > allowance(more_bytes) {
        return Some(format!("{name}: {} bytes held for an input of {more_bytes}", high.peak));
    }
    for _ in 1..RUNS {
        let why = slow(low, high, more_bytes)?;
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
