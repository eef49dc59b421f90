//! How much an image may ask of the machine that takes it in.
//!
//! An image is not trusted before it runs. Every number here is larger than honest images have, and small enough that the
//! process that unpacks one goes on serving its cluster: memory does not grow with what an archive says, and time and disk
//! end somewhere.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// What is read as a whole: manifests, configurations, indexes.
pub(crate) const LARGEST_DOCUMENT: u64 = 4 << 20;
/// Overlayfs stacks no more.
pub(crate) const MOST_LAYERS: usize = 500;
/// An index may lead to another, but not for ever.
pub(crate) const MOST_INDEXES: usize = 4;

/// What may come out of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// How many times larger than itself a blob may become when it is unpacked.
    pub ratio: u64,
    /// What any blob may become, however small it is.
    pub unpacked_bytes: u64,
    /// How many files, folders and links a layer may have.
    pub entries: u64,
    /// How long it may take to unpack all of an image.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { ratio: 200, unpacked_bytes: 10 << 30, entries: 2_000_000, time: Duration::from_secs(3600) }
    }
}

impl Limits {
    /// What a blob of a size may use.
    pub(super) fn budget(&self, blob_bytes: u64, deadline: Instant) -> Arc<Budget> {
        Arc::new(Budget { left: AtomicU64::new(self.most_bytes(blob_bytes)), deadline })
    }

    fn most_bytes(&self, blob_bytes: u64) -> u64 {
        blob_bytes.saturating_mul(self.ratio).max(self.unpacked_bytes)
    }

    pub(super) fn deadline(&self) -> Instant {
        let now = Instant::now();
        now.checked_add(self.time).unwrap_or(now)
    }
}

/// What may still be unpacked, and until when.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicU64,
    deadline: Instant,
}

impl Budget {
    /// Takes bytes from the budget, if they are there.
    pub(super) fn spend(&self, bytes: u64) -> io::Result<()> {
        let spent =
            self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(bytes));
        if spent.is_err() {
            return Err(io::Error::new(io::ErrorKind::FileTooLarge, "it unpacks to more than is allowed"));
        }
        if Instant::now() > self.deadline {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "it takes longer to unpack than is allowed"));
        }
        Ok(())
    }
}

/// Reads as much as a budget has.
pub(super) struct Bounded<R> {
    from: R,
    budget: Arc<Budget>,
}

impl<R> Bounded<R> {
    pub(super) fn new(from: R, budget: Arc<Budget>) -> Bounded<R> {
        Bounded { from, budget }
    }
}

impl<R: Read> Read for Bounded<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.budget.spend(read as u64)?;
        Ok(read)
    }
}

/// Counts what is read through it.
pub(super) struct Counted<R> {
    pub(super) from: R,
    pub(super) bytes: Arc<AtomicU64>,
}

impl<R: Read> Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.bytes.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}

/// Like [`Bounded`], for input of unknown length: the budget grows with what was read.
pub(super) struct Proportionate<R> {
    from: R,
    limits: Limits,
    deadline: Instant,
    packed: Arc<AtomicU64>,
    unpacked: u64,
}

impl<R> Proportionate<R> {
    /// `packed` is how much was read of what `from` unpacks.
    pub(super) fn new(from: R, limits: Limits, packed: Arc<AtomicU64>) -> Proportionate<R> {
        Proportionate { from, deadline: limits.deadline(), limits, packed, unpacked: 0 }
    }
}

impl<R: Read> Read for Proportionate<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.from.read(buffer)?;
        self.unpacked += read as u64;
        let most = self.limits.most_bytes(self.packed.load(Ordering::Relaxed));
        Budget { left: AtomicU64::new(most), deadline: self.deadline }.spend(self.unpacked)?;
        Ok(read)
    }
}
