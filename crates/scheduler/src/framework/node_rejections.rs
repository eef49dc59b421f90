//! The rejections of all nodes for pods of one shape. If all filters are node-local they are cached, and only nodes
//! that changed since are filtered again.
//!
//! *Invariant:* the cache equals the result of filtering every node anew.

use super::Rejection;
use super::diagnosis::Diagnosis;
use crate::cluster::Cluster;
use crate::snapshot::{Moment, NodeIx, Snapshot};

/// The plugin that rejects a node, and its rejection.
pub(crate) type Rejected = (&'static str, Rejection);

#[derive(Default)]
pub(crate) struct NodeRejections {
    /// By node: the version it was filtered in, and the index of its rejection, from one.
    by_node: Vec<(u64, u32)>,
    rejections: Vec<Rejected>,
    /// The number of nodes with each rejection, and with any.
    counts: Vec<usize>,
    total: usize,
    /// The last change of nodes that is included, if the cache can be updated.
    upto: Option<Moment>,
}

impl NodeRejections {
    /// Stores the rejections of all nodes. They can be updated later if `updatable`.
    pub(crate) fn set_all(
        &mut self,
        snapshot: &Snapshot,
        rejected: Vec<(NodeIx, Rejected)>,
        updatable: bool,
    ) {
        *self = NodeRejections::default();
        for (at, rejected) in rejected {
            self.set(at, snapshot.version(at), Some(rejected));
        }
        self.upto = updatable.then(|| snapshot.moment());
    }

    /// Filters the nodes that changed since. Returns true if still all nodes are rejected.
    pub(crate) fn still_reject_all(
        &mut self,
        cluster: &mut Cluster,
        mut look: impl FnMut(&mut Cluster, NodeIx) -> Option<Rejected>,
    ) -> bool {
        let changed = self.upto.take().and_then(|moment| cluster.snapshot.changed_since(moment));
        let Some(changed) = changed.map(<[NodeIx]>::to_vec) else { return false };
        for at in changed {
            let version = cluster.snapshot.version(at);
            if self.by_node.get(at as usize).is_some_and(|(seen, _)| *seen == version) {
                continue;
            }
            let is_there = cluster.snapshot.place(at).node.is_some();
            let rejected = if is_there { look(cluster, at) } else { None };
            self.set(at, version, rejected);
        }
        self.upto = Some(cluster.snapshot.moment());
        self.total == cluster.snapshot.len()
    }

    /// Stores the result of one node.
    pub(crate) fn set(&mut self, at: NodeIx, version: u64, rejected: Option<Rejected>) {
        let number = rejected.map_or(0, |rejected| self.number(rejected));
        let place = at as usize;
        if self.by_node.len() <= place {
            self.by_node.resize(place + 1, (0, 0));
        }
        let (_, before) = std::mem::replace(&mut self.by_node[place], (version, number));
        if let Some(before) = (before as usize).checked_sub(1) {
            self.counts[before] -= 1;
            self.total -= 1;
        }
        if let Some(number) = (number as usize).checked_sub(1) {
            self.counts[number] += 1;
            self.total += 1;
        }
    }

    /// Stores each distinct rejection once: they are few, and nodes are many.
    fn number(&mut self, rejected: Rejected) -> u32 {
        let at = self.rejections.iter().position(|known| *known == rejected).unwrap_or_else(|| {
            self.rejections.push(rejected);
            self.counts.push(0);
            self.rejections.len() - 1
        });
        u32::try_from(at + 1).unwrap_or(u32::MAX)
    }

    fn of(&self, at: NodeIx) -> Option<usize> {
        (self.by_node.get(at as usize)?.1 as usize).checked_sub(1)
    }

    /// True if preemption could help on a node; `None` if it was not filtered.
    pub(crate) fn is_resolvable(&self, at: NodeIx) -> Option<bool> {
        self.of(at).map(|number| !self.rejections[number].1.unresolvable)
    }

    /// Adds the rejections to a diagnosis; `own` replaces the rejection of one node.
    pub(crate) fn add_to(&self, diagnosis: &mut Diagnosis, own: Option<&(NodeIx, Rejected)>) {
        let apart = own.and_then(|(at, _)| self.of(*at));
        for (number, (rejected, count)) in self.rejections.iter().zip(&self.counts).enumerate() {
            diagnosis.reject(rejected, *count - usize::from(apart == Some(number)));
        }
        if let Some((_, rejected)) = own.filter(|_| apart.is_some()) {
            diagnosis.reject(rejected, 1);
        }
    }

    /// The size of the cache.
    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }
}
