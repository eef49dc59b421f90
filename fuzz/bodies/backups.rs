//! Archives of backups, the records in them, and listings of buckets.

use corten_backup::fuzz;

/// The largest contents that are read.
const LIMIT: u64 = 4 << 20;

pub(crate) fn check(data: &[u8]) {
    let _ = fuzz::read_archive(data, LIMIT);
    // Most inputs fail at a checksum: the same bytes as records of a whole archive.
    let _ = fuzz::read_archive(&fuzz::archive_of_body(data), LIMIT);
    if let Ok(text) = std::str::from_utf8(data) {
        fuzz::parse_listing(text);
    }
}
