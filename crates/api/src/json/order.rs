//! The positions of a few paths among the members of a document.
//!
//! A path is recognized by a hash that grows with each step down and is taken back with each step up, so that
//! a long key costs its length once, however many members are below it. Two paths with one hash would only be
//! listed in the wrong order.

use std::collections::HashMap;

use super::parse::visit;

/// The positions of each path among all members of a parsed document.
pub fn places(text: &[u8], paths: &[&str]) -> Vec<Vec<usize>> {
    let hashed = |path: &&str| Hash::EMPTY.with(path.as_bytes());
    let mut order = Order {
        wanted: HashMap::new(),
        found: vec![Vec::new(); paths.len()],
        trail: vec![Hash::EMPTY],
        members: 0,
    };
    for (i, path) in paths.iter().enumerate() {
        order.wanted.entry(hashed(path)).or_default().push(i);
    }
    visit(text, &mut order);
    order.found
}

/// Maximum number of recorded positions of a path; two suffice to show that a member is duplicated.
const MOST_PLACES: usize = 2;

/// The path of the reader's position.
pub(super) struct Order {
    wanted: HashMap<Hash, Vec<usize>>,
    found: Vec<Vec<usize>>,
    /// The hash of the path up to each step, the document's own first.
    trail: Vec<Hash>,
    members: usize,
}

impl Order {
    pub(super) fn enter_member(&mut self, key: &str) {
        let here = self.here();
        let hash = if here == Hash::EMPTY { here } else { here.with(b".") }.with(key.as_bytes());
        self.trail.push(hash);
        for i in self.wanted.get(&hash).into_iter().flatten() {
            if self.found[*i].len() < MOST_PLACES {
                self.found[*i].push(self.members);
            }
        }
        self.members += 1;
    }

    pub(super) fn enter_item(&mut self, index: usize) {
        let index = format!("[{index}]");
        self.trail.push(self.here().with(index.as_bytes()));
    }

    pub(super) fn leave(&mut self) {
        self.trail.pop();
    }

    fn here(&self) -> Hash {
        self.trail.last().copied().unwrap_or(Hash::EMPTY)
    }
}

/// The hash of Fowler, Noll and Vo: its state after a text can be extended with the next part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Hash(u64);

impl Hash {
    const EMPTY: Hash = Hash(0xcbf2_9ce4_8422_2325);

    fn with(self, piece: &[u8]) -> Hash {
        Hash(piece.iter().fold(self.0, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_found_where_they_stand() {
        let text = br#"{"b":1,"spec":{"z":1,"list":[{"q":1},{"a":2}],"k":1,"k":2},"a":1}"#;
        let found = places(text, &["a", "b", "spec.k", "spec.list[1].a", "nowhere"]);
        assert_eq!(found, [vec![8], vec![0], vec![6, 7], vec![5], vec![]]);
    }
}
