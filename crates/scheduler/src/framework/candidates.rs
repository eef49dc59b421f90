//! What it would cost to make room on each node for pods of one shape, remembered until the node or a budget changes.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::Rejection;
use crate::snapshot::NodeIx;

/// What making room costs; less is better, the first that differs decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// How many of the victims a budget protects.
    pub(crate) violations: usize,
    pub(crate) highest_priority: i32,
    pub(crate) sum_of_priorities: i64,
    pub(crate) victims: usize,
    /// When the first of the most important started.
    pub(crate) earliest_start: Reverse<Timestamp>,
}

#[derive(Default)]
pub(crate) struct Candidates {
    /// By node: in which version it was looked at, and what it costs, or which of the refusals it got.
    by_node: Vec<(u64, Option<Result<Cost, usize>>)>,
    refusals: Vec<Rejection>,
    /// The budgets it was found out with.
    budgets: u64,
}

impl Candidates {
    /// Forgets everything if budgets are others than they were.
    pub(crate) fn with_budgets(&mut self, version: u64) -> &mut Candidates {
        if self.budgets != version {
            *self = Candidates { budgets: version, ..Candidates::default() };
        }
        self
    }

    /// What is known about a node in a version: what it costs, or the number of the refusal.
    pub(crate) fn get(&self, at: NodeIx, version: u64) -> Option<Result<Cost, usize>> {
        self.by_node.get(at as usize).filter(|(seen, _)| *seen == version)?.1
    }

    pub(crate) fn set(&mut self, at: NodeIx, version: u64, found: Result<Cost, usize>) {
        let place = at as usize;
        if self.by_node.len() <= place {
            self.by_node.resize(place + 1, (0, None));
        }
        self.by_node[place] = (version, Some(found));
    }

    /// Refusals are few, and nodes are many.
    pub(crate) fn number(&mut self, refusal: Rejection) -> usize {
        self.refusals.iter().position(|known| *known == refusal).unwrap_or_else(|| {
            self.refusals.push(refusal);
            self.refusals.len() - 1
        })
    }

    pub(crate) fn refusal(&self, number: usize) -> &Rejection {
        &self.refusals[number]
    }

    /// How much is remembered; each takes the room of four other opinions.
    pub(super) fn len(&self) -> usize {
        4 * self.by_node.len()
    }
}
