//! The pod CIDRs of a cluster CIDR: which are occupied, and which is next. Pure.

use std::ops::RangeInclusive;

use super::cidr::Cidr;

/// An IPv6 cluster CIDR has at most 2^16 pod CIDRs, as upstream's.
const MOST_V6_BITS: u32 = 16;

#[derive(Debug)]
pub(super) struct CidrSet {
    range: Cidr,
    /// The prefix length of a pod CIDR.
    prefix: u32,
    /// One bit for each pod CIDR, up to the last that was ever occupied.
    taken: Vec<u64>,
    count: u64,
    /// The first candidate: a released pod CIDR is not allocated again at once.
    next: u64,
}

impl CidrSet {
    pub(super) fn new(range: Cidr, prefix: u32) -> Result<CidrSet, String> {
        if prefix < range.prefix() || prefix > range.bits() {
            return Err(
                "Controller: Invalid --cluster-cidr, mask size of cluster CIDR must be less than or equal \
                        to --node-cidr-mask-size configured for CIDR family"
                    .to_owned(),
            );
        }
        if range.is_v6() && prefix - range.prefix() > MOST_V6_BITS {
            return Err("New CIDR set failed; the node CIDR size is too big".to_owned());
        }
        Ok(CidrSet { range, prefix, taken: Vec::new(), count: 0, next: 0 })
    }

    /// The number of pod CIDRs.
    pub(super) fn size(&self) -> u64 {
        1 << (self.prefix - self.range.prefix())
    }

    fn is_taken(&self, part: u64) -> bool {
        self.taken.get((part / 64) as usize).is_some_and(|bits| bits & (1 << (part % 64)) != 0)
    }

    fn set(&mut self, part: u64, taken: bool) {
        if self.is_taken(part) == taken {
            return;
        }
        let at = (part / 64) as usize;
        if self.taken.len() <= at {
            self.taken.resize(at + 1, 0);
        }
        self.taken[at] ^= 1 << (part % 64);
        self.count = if taken { self.count + 1 } else { self.count - 1 };
    }

    /// Allocates the next free pod CIDR; `None` if there is none left.
    pub(super) fn allocate(&mut self) -> Option<Cidr> {
        let size = self.size();
        if self.count == size {
            return None;
        }
        let part = (0..size).map(|step| (self.next + step) % size).find(|part| !self.is_taken(*part))?;
        self.next = (part + 1) % size;
        self.set(part, true);
        Some(self.part(part))
    }

    fn part(&self, part: u64) -> Cidr {
        let first = self.range.first() | (u128::from(part) << (self.range.bits() - self.prefix));
        Cidr::new(first, self.prefix, self.range.is_v6())
    }

    /// Occupies all pod CIDRs that a CIDR overlaps.
    pub(super) fn occupy(&mut self, cidr: &Cidr) -> Result<(), String> {
        self.parts(cidr)?.for_each(|part| self.set(part, true));
        Ok(())
    }

    /// Releases all pod CIDRs that a CIDR overlaps.
    pub(super) fn release(&mut self, cidr: &Cidr) -> Result<(), String> {
        self.parts(cidr)?.for_each(|part| self.set(part, false));
        Ok(())
    }

    fn parts(&self, cidr: &Cidr) -> Result<RangeInclusive<u64>, String> {
        if !self.range.overlaps(cidr) {
            return Err(format!("cidr {cidr} is out the range of cluster cidr {}", self.range));
        }
        let part = |address: u128| {
            let bits = (address - self.range.first()).checked_shr(self.range.bits() - self.prefix);
            u64::try_from(bits.unwrap_or(0)).unwrap_or(u64::MAX)
        };
        let first = part(cidr.first().max(self.range.first()));
        Ok(first..=part(cidr.last().min(self.range.last())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }

    fn set(range: &str, prefix: u32) -> CidrSet {
        CidrSet::new(cidr(range), prefix).unwrap()
    }

    fn all(set: &mut CidrSet) -> Vec<String> {
        std::iter::from_fn(|| set.allocate()).map(|cidr| cidr.to_string()).collect()
    }

    #[test]
    fn pod_cidrs_are_allocated_in_order_until_none_is_left() {
        for (range, prefix, expected) in [
            ("127.123.234.0/30", 31, &["127.123.234.0/31", "127.123.234.2/31"][..]),
            ("127.123.234.0/30", 30, &["127.123.234.0/30"]),
            ("10.0.0.0/22", 24, &["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24"]),
            ("fd00::/62", 64, &["fd00::/64", "fd00:0:0:1::/64", "fd00:0:0:2::/64", "fd00:0:0:3::/64"]),
            ("fd00::/119", 120, &["fd00::/120", "fd00::100/120"]),
        ] {
            assert_eq!(all(&mut set(range, prefix)), expected, "{range} in /{prefix}");
        }
    }

    #[test]
    fn released_pod_cidrs_are_allocated_last() {
        let mut set = set("10.0.0.0/22", 24);
        assert_eq!(set.allocate(), Some(cidr("10.0.0.0/24")));
        set.release(&cidr("10.0.0.0/24")).unwrap();
        set.release(&cidr("10.0.0.0/24")).unwrap();
        assert_eq!(all(&mut set), ["10.0.1.0/24", "10.0.2.0/24", "10.0.3.0/24", "10.0.0.0/24"]);
        set.release(&cidr("10.0.0.0/22")).unwrap();
        assert_eq!(all(&mut set).len(), 4);
    }

    #[test]
    fn occupied_pod_cidrs_are_not_allocated() {
        for (occupied, expected) in [
            (&["10.0.1.0/24"][..], &["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"][..]),
            (&["10.0.1.0/24", "10.0.1.0/24"], &["10.0.0.0/24", "10.0.2.0/24", "10.0.3.0/24"]),
            (&["10.0.2.0/23"], &["10.0.0.0/24", "10.0.1.0/24"]),
            (&["10.0.3.128/25"], &["10.0.0.0/24", "10.0.1.0/24", "10.0.2.0/24"]),
            (&["10.0.0.0/8"], &[]),
        ] {
            let mut set = set("10.0.0.0/22", 24);
            occupied.iter().for_each(|range| set.occupy(&cidr(range)).unwrap());
            assert_eq!(all(&mut set), expected, "{occupied:?}");
        }
    }

    #[test]
    fn cidrs_outside_the_range_cannot_be_occupied() {
        for range in ["10.0.4.0/24", "192.168.0.0/16", "fd00::/64"] {
            assert!(set("10.0.0.0/22", 24).occupy(&cidr(range)).is_err(), "{range}");
        }
    }

    #[test]
    fn sets_that_cannot_be() {
        for (range, prefix) in [("10.0.0.0/24", 22), ("fd00::/40", 64), ("10.0.0.0/24", 40)] {
            assert!(CidrSet::new(cidr(range), prefix).is_err(), "{range} in /{prefix}");
        }
        assert_eq!(set("10.0.0.0/8", 24).size(), 65536);
        assert_eq!(set("fd00::/48", 64).size(), 65536);
    }
}
