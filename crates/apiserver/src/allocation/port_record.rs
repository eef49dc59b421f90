//! The range of node ports, the record of allocated ports, and the allocations and releases of one write.
//!
//! The record is stored as upstream stores it: a bitmap, as the bytes of one big number, most significant first. A port that
//! a write releases is free only for later writes.

use std::fmt;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, json};

const STATIC_MIN: u16 = 16;
const STATIC_MAX: u16 = 128;
const STATIC_SHARE: u16 = 32;

/// The first port that a dry run shows, beyond the usual range.
const DRY_RUN_PORTS: i64 = 32_769;

/// Ports from one to another, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    first: u16,
    last: u16,
}

impl PortRange {
    /// Parses `30000-32767`, `30000+100` or a single port.
    pub fn parse(text: &str) -> Result<PortRange, String> {
        let text = text.trim();
        let port = |part: &str| part.trim().parse::<u16>().ok();
        let bounds = if let Some((first, last)) = text.split_once('-') {
            port(first).zip(port(last))
        } else if let Some((first, more)) = text.split_once('+') {
            port(first).zip(port(more)).map(|(first, more)| (first, first.saturating_add(more)))
        } else {
            port(text).map(|only| (only, only))
        };
        match bounds {
            Some((first, last)) if 0 < first && first <= last => Ok(PortRange { first, last }),
            _ => Err(format!("{text:?} is not a port range; use one such as 30000-32767")),
        }
    }

    fn size(&self) -> u16 {
        (self.last - self.first).saturating_add(1)
    }

    fn place(&self, port: i64) -> Option<usize> {
        let port = u16::try_from(port).ok().filter(|port| (self.first..=self.last).contains(port))?;
        Some(usize::from(port - self.first))
    }

    /// The size of the lower part of the range, for static allocation.
    fn reserved(&self) -> u16 {
        if self.size() <= STATIC_MIN {
            return 0;
        }
        (self.size() / STATIC_SHARE).clamp(STATIC_MIN, STATIC_MAX)
    }
}

impl Default for PortRange {
    fn default() -> Self {
        PortRange { first: 30_000, last: 32_767 }
    }
}

impl fmt::Display for PortRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.first, self.last)
    }
}

/// A failure to allocate a port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum PortError {
    #[error("range is full")]
    Full,
    #[error("provided port is already allocated")]
    Allocated,
    #[error("provided port is not in the valid range. The range of valid ports is {0}")]
    NotInRange(PortRange),
}

/// The allocated ports of a range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ports {
    range: PortRange,
    taken: Vec<bool>,
}

impl Ports {
    pub(crate) fn new(range: PortRange) -> Ports {
        Ports { range, taken: vec![false; range.size().into()] }
    }

    pub(crate) fn has(&self, port: i64) -> bool {
        self.range.place(port).is_some_and(|place| self.taken[place])
    }

    pub(crate) fn take(&mut self, port: i64) -> Result<(), PortError> {
        let place = self.range.place(port).ok_or(PortError::NotInRange(self.range))?;
        if std::mem::replace(&mut self.taken[place], true) {
            return Err(PortError::Allocated);
        }
        Ok(())
    }

    fn release(&mut self, port: i64) {
        if let Some(place) = self.range.place(port) {
            self.taken[place] = false;
        }
    }

    fn take_any(&mut self, below: impl Fn(u128) -> u128) -> Result<i64, PortError> {
        let reserved = self.range.reserved();
        let parts = [(reserved, self.range.size() - reserved), (0, reserved)];
        for (start, length) in parts.into_iter().filter(|(_, length)| *length > 0) {
            let offset = below(length.into()) as u32;
            let free = (0..u32::from(length))
                .map(|step| u32::from(start) + (offset + step) % u32::from(length))
                .find(|place| !self.taken[*place as usize]);
            if let Some(place) = free {
                self.taken[place as usize] = true;
                return Ok(i64::from(self.range.first) + i64::from(place));
            }
        }
        Err(PortError::Full)
    }

    pub(crate) fn counts(&self) -> (usize, usize) {
        let taken = self.taken.iter().filter(|taken| **taken).count();
        (taken, self.taken.len() - taken)
    }

    /// Encodes the stored record.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut bytes: Vec<u8> = self
            .taken
            .chunks(8)
            .map(|bits| bits.iter().rev().fold(0, |byte, taken| byte << 1 | u8::from(*taken)))
            .collect();
        while bytes.last() == Some(&0) {
            bytes.pop();
        }
        bytes.reverse();
        let mut record = Value::object();
        record.set(&["kind"], "RangeAllocation");
        record.set(&["apiVersion"], "v1");
        record.set(&["metadata"], Value::object());
        record.set(&["range"], self.range.to_string());
        record.set(&["data"], STANDARD.encode(bytes));
        json::write_to_string(&record).into_bytes()
    }

    /// Decodes a stored record; `None` if it has another range.
    pub(crate) fn decode(range: PortRange, record: &[u8]) -> Option<Ports> {
        let record = json::parse(record).ok()?;
        if record.str_at(&["range"]) != Some(range.to_string().as_str()) {
            return None;
        }
        let mut bytes = STANDARD.decode(record.str_at(&["data"]).unwrap_or_default()).ok()?;
        bytes.reverse();
        let bit = |place: usize| bytes.get(place / 8).is_some_and(|byte| byte >> (place % 8) & 1 == 1);
        Some(Ports { range, taken: (0..usize::from(range.size())).map(bit).collect() })
    }
}

/// The allocations and releases of one write.
pub(crate) struct Operation<'a> {
    ports: Ports,
    before: Ports,
    dry_run: bool,
    taken: Vec<i64>,
    released: Vec<i64>,
    below: &'a dyn Fn(u128) -> u128,
}

impl<'a> Operation<'a> {
    pub(crate) fn new(ports: Ports, dry_run: bool, below: &'a dyn Fn(u128) -> u128) -> Operation<'a> {
        Operation { before: ports.clone(), ports, dry_run, taken: Vec::new(), released: Vec::new(), below }
    }

    pub(crate) fn take(&mut self, port: i64) -> Result<(), PortError> {
        if self.dry_run {
            // As upstream, a dry run does not check the range.
            if self.before.has(port) || self.taken.contains(&port) {
                return Err(PortError::Allocated);
            }
        } else {
            self.ports.take(port)?;
        }
        self.taken.push(port);
        Ok(())
    }

    pub(crate) fn take_any(&mut self) -> Result<i64, PortError> {
        let port = if self.dry_run {
            self.taken.iter().max().map_or(DRY_RUN_PORTS, |last| last + 1)
        } else {
            self.ports.take_any(self.below)?
        };
        self.taken.push(port);
        Ok(port)
    }

    pub(crate) fn release(&mut self, port: i64) {
        self.released.push(port);
    }

    /// The ports after the write, if it changes anything.
    pub(crate) fn finish(mut self) -> Option<Ports> {
        for port in &self.released {
            self.ports.release(*port);
        }
        (!self.dry_run && self.ports != self.before).then_some(self.ports)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(text: &str) -> PortRange {
        PortRange::parse(text).unwrap()
    }

    #[test]
    fn ranges() {
        for (text, shown, size, reserved) in [
            ("30000-32767", "30000-32767", 2768, 86),
            ("30000+2767", "30000-32767", 2768, 86),
            ("100-110", "100-110", 11, 0),
            ("100-139", "100-139", 40, 16),
            ("1-65535", "1-65535", 65535, 128),
            ("80", "80-80", 1, 0),
        ] {
            let range = range(text);
            assert_eq!(range.to_string(), shown);
            assert_eq!((range.size(), range.reserved()), (size, reserved), "{text}");
        }
        for bad in ["", "a-b", "5-4", "0-0", "0-10", "70000-70001", "1-2-3"] {
            assert!(PortRange::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn records_survive_storage_as_upstream_writes_them() {
        let range = range("30000-30019");
        let mut ports = Ports::new(range);
        for port in [30000, 30001, 30009] {
            ports.take(port).unwrap();
        }
        let record = ports.encode();
        // 2^9 + 2^1 + 2^0, big end first.
        let text = r#"{"apiVersion":"v1","data":"AgM=","kind":"RangeAllocation","metadata":{},"range":"30000-30019"}"#;
        assert_eq!(String::from_utf8(record.clone()).unwrap(), text);
        assert_eq!(Ports::decode(range, &record), Some(ports));
        assert_eq!(Ports::decode(PortRange::default(), &record), None);
        assert_eq!(Ports::decode(range, b"{"), None);
        let none = Ports::new(range);
        assert_eq!(Ports::decode(range, &none.encode()), Some(none));
    }

    #[test]
    fn upper_ports_are_allocated_first_and_each_port_once() {
        let below = |limit: u128| limit / 2;
        let mut operation = Operation::new(Ports::new(range("100-139")), false, &below);
        let mut taken = Vec::new();
        loop {
            match operation.take_any() {
                Ok(port) => taken.push(port),
                Err(error) => break assert_eq!(error, PortError::Full),
            }
        }
        assert_eq!(taken.len(), 40);
        assert!(taken[..24].iter().all(|port| *port >= 116) && taken[24..].iter().all(|port| *port < 116));
    }

    #[test]
    fn a_released_port_is_free_only_for_later_writes() {
        let below = |_: u128| 0;
        let mut ports = Ports::new(range("100-110"));
        ports.take(100).unwrap();
        let mut operation = Operation::new(ports, false, &below);
        operation.release(100);
        assert_eq!(operation.take(100), Err(PortError::Allocated));
        assert_eq!(operation.take(99), Err(PortError::NotInRange(range("100-110"))));
        assert_eq!(operation.take_any(), Ok(101));
        let after = operation.finish().unwrap();
        assert!(after.has(101) && !after.has(100));
        assert_eq!(after.counts(), (1, 10));
        assert!(Operation::new(after, false, &below).finish().is_none());
    }

    #[test]
    fn a_dry_run_shows_ports_beyond_the_range() {
        let below = |_: u128| 0;
        let mut ports = Ports::new(PortRange::default());
        ports.take(30000).unwrap();
        let mut operation = Operation::new(ports, true, &below);
        assert_eq!(operation.take(30000), Err(PortError::Allocated));
        assert_eq!((operation.take_any(), operation.take_any()), (Ok(32769), Ok(32770)));
        assert_eq!(operation.take(80), Ok(()));
        assert!(operation.finish().is_none());
    }
}
