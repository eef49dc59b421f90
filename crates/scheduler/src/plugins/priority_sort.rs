//! PrioritySort: orders the queue by priority, then by the time since which pods are queued.

use std::cmp::Ordering;

use jiff::Timestamp;

use crate::framework::registration::{Point, Registration};

pub(crate) const NAME: &str = "PrioritySort";

pub(crate) const REGISTRATION: Registration =
    Registration { name: NAME, weight: 0, points: &[Point::QueueSort], create: None };

/// The sort key of a pod in the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Turn {
    pub(crate) priority: i32,
    pub(crate) since: Timestamp,
    /// The order of arrival, for pods of the same time.
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
    fn priority_then_time_order_the_queue() {
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
