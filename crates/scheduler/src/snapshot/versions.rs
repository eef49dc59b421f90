//! The versions of nodes and the order of their changes, so that caches re-evaluate only changed nodes.
//!
//! Trials on a node that are undone leave no trace. Old changes are dropped; a cache that would need them has to
//! evaluate all nodes.

use super::{NodeIx, Snapshot};

/// The least number of changes that are kept; at least as many as there are nodes.
const REMEMBERED: usize = 4096;

/// A position in the order of changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Moment(usize);

/// The version of a node, to return to.
#[derive(Clone, Copy)]
pub(crate) struct Mark {
    at: NodeIx,
    version: u64,
    moment: Moment,
}

#[derive(Default)]
pub(super) struct Versions {
    /// By node: increases with every change of the node or its requested resources.
    by_node: Vec<u64>,
    newest: u64,
    /// The nodes that changed, the last one last.
    changed: Vec<NodeIx>,
    /// The number of dropped changes.
    forgotten: usize,
}

impl Versions {
    fn touch(&mut self, at: NodeIx) {
        let place = at as usize;
        if self.by_node.len() <= place {
            self.by_node.resize(place + 1, 0);
        }
        self.newest += 1;
        self.by_node[place] = self.newest;
        self.changed.push(at);
        let enough = REMEMBERED.max(self.by_node.len());
        if self.changed.len() >= 2 * enough {
            self.changed.drain(..enough);
            self.forgotten += enough;
        }
    }

    fn moment(&self) -> Moment {
        Moment(self.forgotten + self.changed.len())
    }
}

impl Snapshot {
    /// The version of a node: increases with every change of the node, its requested resources or its nominated pods.
    pub(crate) fn version(&self, at: NodeIx) -> u64 {
        self.versions.by_node[at as usize]
    }

    pub(crate) fn mark(&self, at: NodeIx) -> Mark {
        Mark { at, version: self.version(at), moment: self.versions.moment() }
    }

    /// Returns to a version: the trial on the node has been undone, and nothing else changed meanwhile.
    pub(crate) fn is_again(&mut self, mark: Mark) {
        self.versions.by_node[mark.at as usize] = mark.version;
        self.versions.changed.truncate(mark.moment.0.saturating_sub(self.versions.forgotten));
    }

    /// The current position.
    pub(crate) fn moment(&self) -> Moment {
        self.versions.moment()
    }

    /// The nodes that changed since a position, some of them repeatedly; `None` if that is too long ago.
    pub(crate) fn changed_since(&self, moment: Moment) -> Option<&[NodeIx]> {
        self.versions.changed.get(moment.0.checked_sub(self.versions.forgotten)?..)
    }

    pub(super) fn touch(&mut self, at: NodeIx) {
        self.versions.touch(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changed(snapshot: &Snapshot, since: Moment) -> Option<Vec<NodeIx>> {
        snapshot.changed_since(since).map(<[NodeIx]>::to_vec)
    }

    #[test]
    fn changes_are_recorded_in_order_without_undone_trials() {
        let mut snapshot = Snapshot::default();
        [0, 1, 2].into_iter().for_each(|at| snapshot.touch(at));
        let (since, version) = (snapshot.moment(), snapshot.version(1));
        snapshot.touch(2);
        let mark = snapshot.mark(1);
        snapshot.touch(1);
        assert_ne!(snapshot.version(1), version);
        snapshot.is_again(mark);
        assert_eq!(snapshot.version(1), version);
        snapshot.touch(0);
        assert_eq!(changed(&snapshot, since), Some(vec![2, 0]));
        assert_eq!(changed(&snapshot, snapshot.moment()), Some(Vec::new()));
    }

    #[test]
    fn old_changes_are_dropped() {
        let mut snapshot = Snapshot::default();
        let first = snapshot.moment();
        for _ in 0..2 * REMEMBERED - 1 {
            snapshot.touch(7);
        }
        assert_eq!(changed(&snapshot, first).map(|list| list.len()), Some(2 * REMEMBERED - 1));
        let (later, mark) = (snapshot.moment(), snapshot.mark(7));
        snapshot.touch(7);
        assert_eq!(changed(&snapshot, first), None);
        assert_eq!(changed(&snapshot, later), Some(vec![7]));
        snapshot.is_again(mark);
        assert_eq!(changed(&snapshot, later), Some(Vec::new()));
    }
}
