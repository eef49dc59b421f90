//! Parsers for the formats of cgroup files.

use std::collections::BTreeMap;

use super::Io;
use crate::{PsiData, PsiStats};

/// Version 1 writes a number above any machine's memory for "no limit".
const UNLIMITED: u64 = 1 << 60;

pub(super) fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A limit, if there is one.
pub(super) fn limit(text: Option<String>) -> Option<u64> {
    number(&text?).filter(|limit| *limit < UNLIMITED)
}

/// A line `name value`.
pub(super) fn field(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| number(line.split_once(' ').filter(|(key, _)| *key == name)?.1))
}

/// Lines `8:0 rbytes=1 wbytes=2 rios=3 wios=4 …`.
pub(super) fn io_v2(text: &str) -> Vec<Io> {
    let device = |line: &str| {
        let (device, counts) = line.split_once(' ')?;
        let count = |name: &str| {
            let found = counts.split_whitespace().filter_map(|pair| pair.split_once('='));
            found.filter(|(key, _)| *key == name).find_map(|(_, value)| number(value)).unwrap_or_default()
        };
        Some(Io {
            device: device.to_owned(),
            read_bytes: count("rbytes"),
            written_bytes: count("wbytes"),
            reads: count("rios"),
            writes: count("wios"),
        })
    };
    text.lines().filter_map(device).collect()
}

/// Lines `8:0 Read 1`, of bytes and of operations.
pub(super) fn io_v1(bytes: &str, operations: &str) -> Vec<Io> {
    let mut devices: BTreeMap<&str, Io> = BTreeMap::new();
    let lines = bytes.lines().map(|line| (line, true)).chain(operations.lines().map(|line| (line, false)));
    for (line, counts_bytes) in lines {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [device, operation, count] = words.as_slice() else { continue };
        let Some(count) = number(count) else { continue };
        let entry =
            devices.entry(*device).or_insert_with(|| Io { device: (*device).to_owned(), ..Io::default() });
        match (*operation, counts_bytes) {
            ("Read", true) => entry.read_bytes = count,
            ("Write", true) => entry.written_bytes = count,
            ("Read", false) => entry.reads = count,
            ("Write", false) => entry.writes = count,
            _ => {}
        }
    }
    devices.into_values().collect()
}

/// Lines `some avg10=0.00 avg60=0.00 avg300=0.00 total=0`, total in microseconds.
pub(super) fn pressure(text: &str) -> Option<PsiStats> {
    let data = |kind: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(kind)?.strip_prefix(' '))?;
        let value = |name: &str| {
            line.split_whitespace().filter_map(|pair| pair.split_once('=')).find(|(key, _)| *key == name)
        };
        let average = |name: &str| value(name).and_then(|(_, text)| text.parse().ok()).unwrap_or_default();
        let total = value("total").and_then(|(_, text)| number(text)).unwrap_or_default();
        Some(PsiData {
            total: total.saturating_mul(1000),
            avg10: average("avg10"),
            avg60: average("avg60"),
            avg300: average("avg300"),
        })
    };
    Some(PsiStats { some: data("some")?, full: data("full").unwrap_or_default() })
}
