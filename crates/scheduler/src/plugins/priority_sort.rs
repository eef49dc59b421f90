//! PrioritySort: the most important pod first, of equals the one that has waited longest.

use std::cmp::Ordering;

use jiff::Timestamp;

pub(crate) const NAME: &str = "PrioritySort";

/// What decides whose turn it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) priority: i32,
    pub(crate) since: Timestamp,
    /// The order in which they came, for those that came at once.
    pub(crate) number: u64,
}

impl Ord for Turn {
    fn cmp(&self, other: &Turn) -> Ordering {
        let key = |turn: &Turn| (std::cmp::Reverse(turn.priority), turn.since, turn.number);
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Turn {
    fn partial_cmp(&self, other: &Turn) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whose_turn_it_is() {
        let turn = |priority, second, number| Turn {
            priority,
            since: Timestamp::from_second(second).unwrap(),
            number,
        };
        assert!(turn(10, 5, 2) < turn(1, 1, 1), "the important one");
        assert!(turn(1, 1, 2) < turn(1, 2, 1), "the one that waited longer");
        assert!(turn(1, 1, 1) < turn(1, 1, 2), "the one that came first");
    }
}
