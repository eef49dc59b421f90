//! Entry points of private decoders for the fuzz targets in `fuzz/`; nothing else calls them.

use crate::archive::{Archive, ArchiveError, Record, with_body};
use crate::s3::listing;

/// Reads an archive of any bytes. Returns its number of records.
pub fn read_archive(bytes: &[u8], limit: u64) -> Result<usize, ArchiveError> {
    let mut archive = Archive::open(bytes, None, limit)?;
    let (mut count, mut plain) = (0, 0);
    while let Some(record) = archive.next_record()? {
        count += 1;
        plain += match record {
            Record::Entry(entry) => (entry.key.len() + entry.value.len()) as u64,
            Record::File { content, .. } => content.len() as u64,
            Record::Lease { .. } => 0,
        };
        assert!(plain <= limit, "no more than the limit is returned");
    }
    Ok(count)
}

/// An archive whose records are these bytes.
pub fn archive_of_body(body: &[u8]) -> Vec<u8> {
    with_body(body).unwrap_or_default()
}

/// Parses a page of a bucket's listing.
pub fn parse_listing(text: &str) -> bool {
    listing::parse(text).is_ok()
}
