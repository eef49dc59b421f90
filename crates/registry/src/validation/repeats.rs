//! Items of a list that repeat an earlier one: determined once for a list, however long it is.

use std::collections::HashSet;
use std::hash::Hash;

/// Most lists are short, and need no allocation.
const SHORT: usize = 16;

pub(crate) enum Repeats {
    /// A bit for each item.
    Short(u32),
    Long(HashSet<usize>),
}

impl Repeats {
    /// Items are the same if their keys are.
    pub(crate) fn of<'v, T, K: Hash + Eq>(items: &'v [T], key: impl Fn(&'v T) -> K) -> Repeats {
        if items.len() <= SHORT {
            let repeats = |i: &usize| items[..*i].iter().any(|earlier| key(earlier) == key(&items[*i]));
            return Repeats::Short((0..items.len()).filter(repeats).fold(0, |bits, i| bits | 1 << i));
        }
        let mut seen = HashSet::with_capacity(items.len());
        let places = items.iter().enumerate().filter(|(_, item)| !seen.insert(key(item))).map(|(i, _)| i);
        Repeats::Long(places.collect())
    }

    /// Returns true if the item at an index equals an earlier one.
    pub(crate) fn at(&self, place: usize) -> bool {
        match self {
            Repeats::Short(bits) => place < SHORT && bits >> place & 1 == 1,
            Repeats::Long(places) => places.contains(&place),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_first_of_equal_items_is_new() {
        let few = ["a", "b", "a", "c", "b", "a"];
        let many: Vec<&str> = few.iter().copied().cycle().take(60).collect();
        for list in [&few[..], &many] {
            let repeats = Repeats::of(list, |text| *text);
            assert!(list.iter().enumerate().all(|(i, text)| repeats.at(i) == list[..i].contains(text)));
        }
    }
}
