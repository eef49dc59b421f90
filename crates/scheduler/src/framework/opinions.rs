//! What the plugins of a profile say of nodes for pods of one shape, by nothing but the node and what is taken of it:
//! they are asked again only when that changes.

use super::Rejection;
use super::candidates::Candidates;
use super::profile::Profile;
use super::verdicts::Verdicts;
use crate::cluster::Cluster;
use crate::pod::Pod;
use crate::snapshot::NodeIx;

#[derive(Default)]
pub(crate) struct Opinions {
    /// By node: in which version it was judged, and as which of the rejections, from one.
    judged: Vec<(u64, u32)>,
    rejections: Vec<(usize, Rejection)>,
    /// By node: in which version it was rated, and how.
    rated: Vec<(u64, i64)>,
    /// Why none would do, when that was last so.
    pub(crate) verdicts: Verdicts,
    pub(crate) candidates: Candidates,
}

impl Opinions {
    /// Which plugin, by its position, does not let a pod have a node, and why.
    pub(super) fn judgement(
        &mut self,
        profile: &Profile,
        pod: &Pod,
        cluster: &Cluster,
        at: NodeIx,
    ) -> Option<&(usize, Rejection)> {
        let version = cluster.snapshot.version(at);
        let (seen, judged) = entry(&mut self.judged, at);
        if *seen != version {
            let found = profile.judge(pod, cluster.snapshot.node(at));
            *judged = found.map_or(0, |rejection| number(&mut self.rejections, rejection));
            *seen = version;
        }
        self.rejections.get((*judged as usize).checked_sub(1)?)
    }

    /// How good a node is for a pod.
    pub(super) fn rating(&mut self, profile: &Profile, pod: &Pod, cluster: &Cluster, at: NodeIx) -> i64 {
        let version = cluster.snapshot.version(at);
        let (seen, rating) = entry(&mut self.rated, at);
        if *seen != version {
            (*seen, *rating) = (version, profile.rate(pod, cluster, at));
        }
        *rating
    }

    /// How much is remembered.
    pub(super) fn len(&self) -> usize {
        self.judged.len() + self.rated.len() + self.verdicts.len() + self.candidates.len()
    }
}

fn entry<T: Copy + Default>(list: &mut Vec<(u64, T)>, at: NodeIx) -> &mut (u64, T) {
    let at = at as usize;
    if list.len() <= at {
        list.resize(at + 1, (0, T::default()));
    }
    &mut list[at]
}

/// Rejections are few, and nodes are many.
fn number(known: &mut Vec<(usize, Rejection)>, rejection: (usize, Rejection)) -> u32 {
    let at = known.iter().position(|known| *known == rejection).unwrap_or_else(|| {
        known.push(rejection);
        known.len() - 1
    });
    u32::try_from(at + 1).unwrap_or(u32::MAX)
}
