//! The preemption cost of each node for pods of one shape, cached until the node or a budget changes.

use std::cmp::Reverse;

use jiff::Timestamp;

use super::Rejection;
use crate::snapshot::NodeIx;

/// The cost of a preemption; lower is better, the first difference decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Cost {
    /// The number of victims whose budgets are violated.
    pub(crate) violations: usize,
    pub(crate) highest_priority: i32,
    pub(crate) sum_of_priorities: i64,
    pub(crate) victims: usize,
    /// The start of the first of the victims with the highest priority.
    pub(crate) earliest_start: Reverse<Timestamp>,
}

#[derive(Default)]
pub(crate) struct Candidates {
    /// By node: the version it was evaluated in, and its cost or the index of its rejection.
    by_node: Vec<(u64, Option<Result<Cost, usize>>)>,
    refusals: Vec<Rejection>,
    /// The version of the budgets.
    budgets: u64,
}

impl Candidates {
    /// Clears the cache if the budgets changed.
    pub(crate) fn with_budgets(&mut self, version: u64) -> &mut Candidates {
        if self.budgets != version {
            *self = Candidates { budgets: version, ..Candidates::default() };
        }
        self
    }

    /// The cached result of a node in a version: its cost, or the index of the rejection.
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

    /// Stores each distinct rejection once: they are few, and nodes are many.
    pub(crate) fn number(&mut self, refusal: Rejection) -> usize {
        self.refusals.iter().position(|known| *known == refusal).unwrap_or_else(|| {
            self.refusals.push(refusal);
            self.refusals.len() - 1
        })
    }

    pub(crate) fn refusal(&self, number: usize) -> &Rejection {
        &self.refusals[number]
    }

    /// The size of the cache; each entry takes the room of four of the other caches.
    pub(super) fn len(&self) -> usize {
        4 * self.by_node.len()
    }
}
