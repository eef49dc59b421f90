//! Pods that leave a node, or whose nomination for it ends.
//!
//! A pod that only node-local plugins rejected can become schedulable only on that very node, and is woken if those
//! plugins accept it there now: thousands may be pending, each waiting for its victims.

use jiff::Timestamp;

use super::{Engine, rejecting};
use crate::cluster::Cluster;
use crate::cycle;
use crate::framework::event::ClusterEvent;
use crate::framework::{Plugin, PreFilter};
use crate::pod::Pod;
use crate::snapshot::NodeIx;

impl Engine {
    /// A pod is removed from its node.
    pub(super) fn leave(&mut self, uid: &str, now: Timestamp) {
        if let Some((pod, node)) = self.cluster.snapshot.remove_pod(uid) {
            self.left(&pod, &node, now);
        }
    }

    /// A pod is no longer nominated: the reserved room is free.
    pub(super) fn unnominate(&mut self, uid: &str, now: Timestamp) {
        if let Some((pod, node)) = self.cluster.snapshot.unnominate(uid) {
            self.left(&pod, &node, now);
        }
    }

    /// A pod gets a node: if it was nominated for another, that one is free.
    pub(super) fn settle(&mut self, uid: &str, node: &str, now: Timestamp) {
        if let Some((pod, kept)) = self.cluster.snapshot.unnominate(uid).filter(|(_, kept)| kept != node) {
            self.left(&pod, &kept, now);
        }
    }

    fn left(&mut self, pod: &Pod, node: &str, now: Timestamp) {
        let Engine { cluster, profiles, queue, .. } = self;
        let at = cluster.snapshot.find(node);
        // For the nominated pod itself, no other nominated pod counts.
        let waiting: Vec<_> =
            cluster.snapshot.nominated().on(node).iter().map(|pod| pod.uid.clone()).collect();
        let event = ClusterEvent::PodGone(pod);
        queue.wake(now, &waiting, |pod, plugins| {
            let profile = profiles.iter().find(|profile| profile.scheduler == pod.shape.scheduler);
            profile.is_some_and(|profile| {
                rejecting(profile, plugins)
                    .any(|plugin| plugin.queueing_hint(pod, &event) && !refuses(plugin, cluster, pod, at))
            })
        });
    }
}

/// True if a plugin still rejects a pod on a node, as far as that depends on the node alone.
pub(super) fn refuses(plugin: &dyn Plugin, cluster: &mut Cluster, pod: &Pod, at: Option<NodeIx>) -> bool {
    match plugin.pre_filter(pod, cluster) {
        PreFilter::Filter(filter) if filter.is_local() => {
            !at.is_some_and(|at| cycle::accepts(filter.as_ref(), cluster, pod, at))
        }
        _ => false,
    }
}
