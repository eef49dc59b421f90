//! Entry point of the private decoders of logs for the fuzz targets in `fuzz/`; nothing else calls it.

use std::io::Cursor;

use jiff::Timestamp;

use super::lines::LineSelection;
use super::options::LogOptions;
use super::tail;
use crate::server::query::Query;

/// A query for a log, and the log file that it is answered from.
pub fn log_lines(query: &str, file: &[u8]) {
    let query = Query::parse(Some(query));
    let Ok(options) = LogOptions::read(&query, Timestamp::UNIX_EPOCH) else { return };
    let start = tail::start(&mut Cursor::new(file), options.tail_lines.unwrap_or(u64::MAX));
    let start = start.expect("memory is readable") as usize;
    let mut selection = LineSelection::new(&options);
    let mut out = Vec::new();
    for line in file[start..].split_inclusive(|byte| *byte == b'\n') {
        if selection.is_over() {
            break;
        }
        selection.add(line, &mut out);
    }
    assert!(options.limit_bytes.is_none_or(|limit| out.len() as u64 <= limit));
}
