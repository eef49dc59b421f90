//! Allocates the numbers of endpoints in maps.
//!
//! When a rule that uses a map is created, the kernel walks through the map; when an element is added, it visits every rule that
//! uses its map. So there are many maps of a limited size: some Services share one, and a Service with many endpoints has its
//! own. *Invariant:* a number is never allocated twice in one map.

use std::collections::HashMap;

/// The limit of numbers in a map, unless one Service needs more.
const MAP_SIZE: u32 = 512;

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
    /// True if the map's values are chains, false if they are addresses.
    pub chains: bool,
    pub id: u32,
}

impl Map {
    pub fn name(self) -> String {
        format!("{}-{}", if self.chains { "endpoint-chains" } else { "endpoints" }, self.id)
    }
}

/// Allocates numbers for chains or for addresses.
#[derive(Debug, Clone)]
pub(crate) struct Pool {
    chains: bool,
    /// The map that numbers are allocated in now, and how many were.
    open: u32,
    given: u32,
    /// The number of used numbers of each map.
    used: HashMap<u32, u32>,
}

impl Pool {
    pub(crate) fn new(chains: bool) -> Pool {
        Pool { chains, open: 0, given: 0, used: HashMap::new() }
    }

    /// Allocates numbers. The second value is true if their map is new.
    pub(crate) fn allocate(&mut self, count: usize) -> (Numbers, bool) {
        let count = count as u32;
        if self.given > 0 && self.given.saturating_add(count) > MAP_SIZE {
            self.open += 1;
            self.given = 0;
        }
        let (first, is_new) = (self.given, self.given == 0);
        self.given = self.given.saturating_add(count);
        *self.used.entry(self.open).or_default() += count;
        (Numbers { map: Map { chains: self.chains, id: self.open }, first, count }, is_new)
    }

    /// Releases numbers. Returns true if their map is unused now.
    pub(crate) fn release(&mut self, numbers: Numbers) -> bool {
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
    fn maps_have_a_limited_size() {
        let mut pool = Pool::new(false);
        let mut place = |count| {
            let (numbers, is_new) = pool.allocate(count);
            (numbers.map.id, numbers.first, is_new)
        };
        assert_eq!(place(500), (0, 0, true));
        assert_eq!(place(12), (0, 500, false));
        assert_eq!(place(1), (1, 0, true));
        assert_eq!(place(5000), (2, 0, true), "one that needs more has its own");
        assert_eq!(place(2), (3, 0, true));
    }

    #[test]
    fn a_map_is_unused_after_its_last_numbers_unless_it_is_the_open_one() {
        let mut pool = Pool::new(true);
        let (a, b, c) = (pool.allocate(300).0, pool.allocate(200).0, pool.allocate(300).0);
        assert_eq!((a.map.id, b.map.id, c.map.id), (0, 0, 1));
        assert!(!pool.release(a));
        assert!(pool.release(b));
        assert!(!pool.release(c), "the next numbers come from it");
        assert_eq!(pool.allocate(10).0.first, 300);
    }
}
