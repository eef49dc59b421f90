//! The numbers that endpoints have in maps.
//!
//! A rule that looks at a map costs the kernel a walk through the map when it is made, and an element costs a look at
//! every rule that looks at its map. So there are many maps of a limited size: endpoints of some Services share one, and
//! a Service with many has its own. *Invariant:* a number is never given twice in one map.

use std::collections::HashMap;

/// So many numbers a map has at most, unless one Service needs more.
const ROOM: u32 = 512;

/// Consecutive numbers in one map.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    pub map: Map,
    pub first: u32,
    pub count: u32,
}

/// A map of numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Map {
    /// The numbers stand for chains, rather than for addresses.
    pub chains: bool,
    pub id: u32,
}

impl Map {
    pub fn name(self) -> String {
        format!("{}-{}", if self.chains { "endpoint-chains" } else { "endpoints" }, self.id)
    }
}

/// Gives numbers of one kind.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    chains: bool,
    /// The map that numbers are given from now, and how many were.
    open: u32,
    given: u32,
    /// How many numbers of each map are in use.
    used: HashMap<u32, u32>,
}

impl Pool {
    pub(crate) fn new(chains: bool) -> Pool {
        Pool { chains, open: 0, given: 0, used: HashMap::new() }
    }

    /// Some numbers, and whether the map they are in is new.
    pub(crate) fn take(&mut self, count: usize) -> (Numbers, bool) {
        let count = count as u32;
        if self.given > 0 && self.given.saturating_add(count) > ROOM {
            self.open += 1;
            self.given = 0;
        }
        let (first, is_new) = (self.given, self.given == 0);
        self.given = self.given.saturating_add(count);
        *self.used.entry(self.open).or_default() += count;
        (Numbers { map: Map { chains: self.chains, id: self.open }, first, count }, is_new)
    }

    /// Takes numbers back; whether nobody needs their map any more.
    pub(crate) fn give_back(&mut self, numbers: Numbers) -> bool {
        let Some(used) = self.used.get_mut(&numbers.map.id) else { return false };
        *used = used.saturating_sub(numbers.count);
        let is_empty = *used == 0 && numbers.map.id != self.open;
        if is_empty {
            self.used.remove(&numbers.map.id);
        }
        is_empty
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_are_of_a_limited_size() {
        let mut pool = Pool::new(false);
        let mut place = |count| {
            let (numbers, is_new) = pool.take(count);
            (numbers.map.id, numbers.first, is_new)
        };
        assert_eq!(place(500), (0, 0, true));
        assert_eq!(place(12), (0, 500, false));
        assert_eq!(place(1), (1, 0, true));
        assert_eq!(place(5000), (2, 0, true), "one that needs more has its own");
        assert_eq!(place(2), (3, 0, true));
    }

    #[test]
    fn a_map_goes_with_its_last_numbers_unless_it_is_the_one_in_use() {
        let mut pool = Pool::new(true);
        let (a, b, c) = (pool.take(300).0, pool.take(200).0, pool.take(300).0);
        assert_eq!((a.map.id, b.map.id, c.map.id), (0, 0, 1));
        assert!(!pool.give_back(a));
        assert!(pool.give_back(b));
        assert!(!pool.give_back(c), "the next numbers come from it");
        assert_eq!(pool.take(10).0.first, 300);
    }
}
