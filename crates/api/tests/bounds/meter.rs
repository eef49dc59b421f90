//! What work costs, in memory and in processor time, and ceilings on both in the size of the input.
//!
//! Nothing here looks at a clock on the wall. Memory is counted by the allocator, thread by thread: the most that
//! was held at once. Time is the thread's own on the processor, which other load does not change, and is mostly
//! judged by how it grows: eight times the input may cost twenty-four times the work, where quadratic work costs
//! sixty-four times as much. The least of several runs counts, and what takes next to no time is not judged.

#[path = "allocations.rs"]
mod allocations;

use allocations::{allowance, peak};

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
