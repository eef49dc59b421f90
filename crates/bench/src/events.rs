//! A scanner of watch streams for events.
//!
//! Events are JSON objects separated by newlines, and arrive cut into arbitrary pieces. They are counted by
//! their newlines; only where lag is measured is the resourceVersion read too, by searching for it: the first
//! one in an event is its object's own.

use memchr::{memchr, memmem};

const FIELD: &[u8] = b"\"resourceVersion\":\"";
/// Longer than any number of digits with its closing quote.
const DIGITS: usize = 24;

/// The resourceVersion of an encoded object or event.
pub(crate) fn resource_version(json: &[u8]) -> Option<u64> {
    let start = memmem::find(json, FIELD)? + FIELD.len();
    let rest = &json[start..json.len().min(start + DIGITS)];
    let end = memchr(b'"', rest)?;
    std::str::from_utf8(&rest[..end]).ok()?.parse().ok()
}

/// Counts events, and optionally reads their versions.
#[derive(Debug)]
pub(crate) struct EventScanner {
    read_versions: bool,
    pub(crate) events: u64,
    pub(crate) bytes: u64,
    /// The beginning of an event whose version has not arrived yet.
    head: Vec<u8>,
    version_known: bool,
}

impl EventScanner {
    pub(crate) fn new(read_versions: bool) -> EventScanner {
        EventScanner { read_versions, events: 0, bytes: 0, head: Vec::new(), version_known: false }
    }

    /// Scans the next piece of the stream; calls `seen` with each version as soon as it is complete.
    pub(crate) fn feed(&mut self, data: &[u8], mut seen: impl FnMut(u64)) {
        self.bytes += data.len() as u64;
        if !self.read_versions {
            self.events += memchr::memchr_iter(b'\n', data).count() as u64;
            return;
        }
        let mut rest = data;
        while let Some(end) = memchr(b'\n', rest) {
            self.find_version(&rest[..end], &mut seen);
            self.events += 1;
            self.version_known = false;
            self.head.clear();
            rest = &rest[end + 1..];
        }
        if !rest.is_empty() {
            self.find_version(rest, &mut seen);
            if !self.version_known && self.head.is_empty() {
                self.head.extend_from_slice(rest);
            }
        }
    }

    fn find_version(&mut self, piece: &[u8], seen: &mut impl FnMut(u64)) {
        if self.version_known {
            return;
        }
        let version = if self.head.is_empty() {
            resource_version(piece)
        } else {
            self.head.extend_from_slice(piece);
            resource_version(&self.head)
        };
        if let Some(version) = version {
            self.version_known = true;
            self.head.clear();
            seen(version);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STREAM: &[u8] =
        br#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"12"},"x":"y"}}
{"type":"MODIFIED","object":{"metadata":{"resourceVersion":"345","managedFields":[{"resourceVersion":"1"}]}}}
{"type":"ERROR","object":{"code":410}}
{"type":"DELETED","object":{"metadata":{"resourceVersion":"6"}}}
"#;

    #[test]
    fn every_split_gives_the_same_events() {
        for first in 0..=STREAM.len() {
            for second in [first, first + 1, first + 40] {
                let second = second.min(STREAM.len());
                let (mut scanner, mut versions) = (EventScanner::new(true), Vec::new());
                for piece in [&STREAM[..first], &STREAM[first..second], &STREAM[second..]] {
                    scanner.feed(piece, |version| versions.push(version));
                }
                assert_eq!(versions, [12, 345, 6], "split at {first} and {second}");
                assert_eq!((scanner.events, scanner.bytes), (4, STREAM.len() as u64));
            }
        }
    }

    #[test]
    fn counting_needs_no_versions() {
        let mut scanner = EventScanner::new(false);
        for byte in STREAM.chunks(7) {
            scanner.feed(byte, |_| panic!("not asked for"));
        }
        assert_eq!(scanner.events, 4);
    }

    #[test]
    fn incomplete_or_missing_versions_are_none() {
        for json in [
            &b""[..],
            b"{}",
            b"\"resourceVersion\":\"12",
            b"\"resourceVersion\":\"\"",
            b"\"resourceVersion\":\"x\"",
        ] {
            assert_eq!(resource_version(json), None);
        }
    }
}
