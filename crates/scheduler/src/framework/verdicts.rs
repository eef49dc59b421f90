//! Why pods of one shape can have none of the nodes, node by node. When all that counts is the nodes themselves it is
//! remembered, and only nodes that changed since are looked at again.
//!
//! *Invariant:* what is remembered is what looking at every node anew would give.

use super::Rejection;
use super::diagnosis::Diagnosis;
use crate::cluster::Cluster;
use crate::snapshot::{Moment, NodeIx, Snapshot};

/// Which plugin rejects a node, and why.
pub(crate) type Rejected = (&'static str, Rejection);

#[derive(Default)]
pub(crate) struct Verdicts {
    /// By node: in which version it was looked at, and which of the rejections it got, from one.
    by_node: Vec<(u64, u32)>,
    rejections: Vec<Rejected>,
    /// How many nodes got each of them, and any.
    counts: Vec<usize>,
    total: usize,
    /// Up to which change of nodes this is so, if it can be kept up.
    upto: Option<Moment>,
}

impl Verdicts {
    /// No node will do: these are the reasons. They last if they depend on nothing but the nodes.
    pub(crate) fn set_all(&mut self, snapshot: &Snapshot, rejected: Vec<(NodeIx, Rejected)>, last: bool) {
        *self = Verdicts::default();
        for (at, rejected) in rejected {
            self.set(at, snapshot.version(at), Some(rejected));
        }
        self.upto = last.then(|| snapshot.moment());
    }

    /// Looks again at the nodes that changed; whether it is known by that that still none will do.
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

    /// One node alone is looked at in another way from now on.
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

    /// Rejections are few, and nodes are many.
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

    /// Whether taking pods away from a node could help, as far as it was looked at.
    pub(crate) fn is_resolvable(&self, at: NodeIx) -> Option<bool> {
        self.of(at).map(|number| !self.rejections[number].1.unresolvable)
    }

    /// Tells why no node will do; for one of them it may be known better.
    pub(crate) fn tell(&self, diagnosis: &mut Diagnosis, own: Option<&(NodeIx, Rejected)>) {
        let apart = own.and_then(|(at, _)| self.of(*at));
        for (number, (rejected, count)) in self.rejections.iter().zip(&self.counts).enumerate() {
            diagnosis.reject(rejected, *count - usize::from(apart == Some(number)));
        }
        if let Some((_, rejected)) = own.filter(|_| apart.is_some()) {
            diagnosis.reject(rejected, 1);
        }
    }

    /// How much is remembered.
    pub(super) fn len(&self) -> usize {
        self.by_node.len()
    }
}
