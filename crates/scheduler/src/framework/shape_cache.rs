//! Cached results of a profile's plugins for pods of one shape, by node and its requested resources alone: plugins are
//! called again only when those change.

use super::Rejection;
use super::candidates::Candidates;
use super::node_rejections::NodeRejections;
use super::profile::Profile;
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::snapshot::NodeIx;

#[derive(Default)]
pub(crate) struct ShapeCache {
    /// By node: the version it was filtered in, and the index of its rejection, from one.
    filtered: Vec<(u64, u32)>,
    rejections: Vec<(usize, Rejection)>,
    /// By node: the version it was scored in, and the score.
    scored: Vec<(u64, i64)>,
    /// The last rejections of all nodes.
    pub(crate) node_rejections: NodeRejections,
    pub(crate) candidates: Candidates,
}

impl ShapeCache {
    /// The plugin, by its position, that rejects a node, and its rejection.
    pub(super) fn node_rejection(
        &mut self,
        profile: &Profile,
        pod: &Pod,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<&(usize, Rejection)> {
        let version = cluster.snapshot.version(at);
        let (seen, filtered) = entry(&mut self.filtered, at);
        if *seen != version {
            let found = profile.filter_node(pod, cluster.snapshot.node(at));
            *filtered = found.map_or(0, |rejection| number(&mut self.rejections, rejection));
            *seen = version;
        }
        self.rejections.get((*filtered as usize).checked_sub(1)?)
    }

    /// The score of a node for a pod.
    pub(super) fn node_score(&mut self, profile: &Profile, pod: &Pod, cluster: &Cluster, at: NodeIx) -> i64 {
        let version = cluster.snapshot.version(at);
        let (seen, rating) = entry(&mut self.scored, at);
        if *seen != version {
            (*seen, *rating) = (version, profile.score_node(pod, cluster, at));
        }
        *rating
    }

    /// The size of the cache.
    pub(super) fn len(&self) -> usize {
        self.filtered.len() + self.scored.len() + self.node_rejections.len() + self.candidates.len()
    }
}

fn entry<T: Copy + Default>(list: &mut Vec<(u64, T)>, at: NodeIx) -> &mut (u64, T) {
    let at = at as usize;
    if list.len() <= at {
        list.resize(at + 1, (0, T::default()));
    }
    &mut list[at]
}

/// Stores each distinct rejection once: they are few, and nodes are many.
fn number(known: &mut Vec<(usize, Rejection)>, rejection: (usize, Rejection)) -> u32 {
    let at = known.iter().position(|known| *known == rejection).unwrap_or_else(|| {
        known.push(rejection);
        known.len() - 1
    });
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}
