//! Limits on the resources that an image may take on the machine that imports it.
//!
//! An image is not trusted before it runs. Every limit is larger than real images need, and small enough that the
//! process that unpacks one keeps serving its cluster: memory does not grow with sizes that an archive claims, and time
//! and disk space are bounded.

use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Maximum size of documents that are read as a whole: manifests, configurations, indexes.
pub(crate) const LARGEST_DOCUMENT: u64 = 4 << 20;
/// Maximum number of layers that overlayfs stacks.
pub(crate) const MOST_LAYERS: usize = 500;
/// Maximum depth of indexes that refer to indexes.
pub(crate) const MOST_INDEXES: usize = 4;

/// Limits on unpacked images.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Maximum ratio of a blob's unpacked size to its size.
    pub ratio: u64,
    /// Unpacked size that is allowed for a blob of any size.
    pub unpacked_bytes: u64,
    /// Maximum window of a zstd frame in bytes; the window is kept in memory.
    pub window_bytes: u64,
    /// Maximum number of files, folders and links of a layer.
    pub entries: u64,
    /// Maximum time to unpack all of an image.
    pub time: Duration,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            ratio: 200,
            unpacked_bytes: 10 << 30,
            // As the best compression of the builders of images asks for.
            window_bytes: 32 << 20,
            entries: 2_000_000,
            time: Duration::from_secs(3600),
        }
    }
}

impl Limits {
    /// The budget of a blob of a size.
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

/// The remaining bytes and the deadline of unpacking a blob.
#[derive(Debug)]
pub(super) struct Budget {
    left: AtomicU64,
    deadline: Instant,
}

impl Budget {
    /// Takes bytes from the budget, or fails if it has fewer.
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

/// Fails once the budget is spent.
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
