//! The store's frames, logs and snapshots. The first byte chooses between a log and a snapshot, the next three are a
//! place in the file and the bits that are flipped there, the rest is records.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{env, fs, process};

pub(crate) fn check(data: &[u8]) {
    let [choice, low, high, bits, records @ ..] = data else { return };
    let directory = Directory::new();
    let damage = (u16::from_le_bytes([*low, *high]), *bits);
    let loaded = corten_store::fuzz::load_records(&directory.0, records, choice % 2 == 1, damage);
    loaded.expect("only damage keeps a store from loading");
}

/// An empty directory in memory, if there is such a file system; removed when it is dropped.
struct Directory(PathBuf);

impl Directory {
    fn new() -> Directory {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let memory = PathBuf::from("/dev/shm");
        let parent = if memory.is_dir() { memory } else { env::temp_dir() };
        let name = format!("corten-fuzz-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = parent.join(name);
        fs::create_dir(&path).expect("a directory for the store");
        Directory(path)
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // Left behind, it is removed with the machine's memory.
        let _ = fs::remove_dir_all(&self.0);
    }
}
