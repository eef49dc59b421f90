//! Pods that leave a node, or the place that was kept for them there.
//!
//! Who was rejected by plugins that look at nothing but nodes can only be helped on that very node, and is woken if
//! those plugins would let it have the node now: thousands may wait, each for others to go.

use jiff::Timestamp;

use super::{Engine, rejecting};
use crate::cluster::Cluster;
use crate::cycle;
use crate::framework::event::ClusterEvent;
use crate::framework::{Plugin, PreFilter};
use crate::pod::Pod;
use crate::snapshot::NodeIx;

impl Engine {
    /// A pod is on no node any more.
    pub(super) fn leave(&mut self, uid: &str, now: Timestamp) {
        if let Some((pod, node)) = self.cluster.snapshot.remove_pod(uid) {
            self.left(&pod, &node, now);
        }
    }

    /// A pod waits for no node any more: the place that was kept for it is free.
    pub(super) fn unnominate(&mut self, uid: &str, now: Timestamp) {
        if let Some((pod, node)) = self.cluster.snapshot.unnominate(uid) {
            self.left(&pod, &node, now);
        }
    }

    /// A pod is given a node: if it waited for another, that one is free.
    pub(super) fn settle(&mut self, uid: &str, node: &str, now: Timestamp) {
        if let Some((pod, kept)) = self.cluster.snapshot.unnominate(uid).filter(|(_, kept)| kept != node) {
            self.left(&pod, &kept, now);
        }
    }

    fn left(&mut self, pod: &Pod, node: &str, now: Timestamp) {
        let Engine { cluster, profiles, queue, .. } = self;
        let at = cluster.snapshot.find(node);
        // Whose own place it is counts nobody else's as his.
        let waiting: Vec<_> =
            cluster.snapshot.nominated().on(node).iter().map(|pod| pod.uid.clone()).collect();
        let event = ClusterEvent::PodGone(pod);
        queue.wake(now, &waiting, |pod, plugins| {
            let profile = profiles.iter().find(|profile| profile.scheduler == pod.shape.scheduler);
            profile.is_some_and(|profile| {
                rejecting(profile, plugins)
                    .any(|plugin| plugin.may_help(pod, &event) && !refuses(plugin, cluster, pod, at))
            })
        });
    }
}

/// Whether a plugin still does not let a pod have a node, as far as that depends on the node alone.
pub(super) fn refuses(plugin: &dyn Plugin, cluster: &mut Cluster, pod: &Pod, at: Option<NodeIx>) -> bool {
    match plugin.pre_filter(pod, cluster) {
        PreFilter::Filter(filter) if filter.is_local() => {
            !at.is_some_and(|at| cycle::lets(filter.as_ref(), cluster, pod, at))
        }
        _ => false,
    }
}
