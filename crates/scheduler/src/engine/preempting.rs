//! Pods that wait for others to make way.

use std::sync::Arc;

use corten_api::Str;
use jiff::Timestamp;

use super::leaving::refuses;
use super::{Engine, Step, rejecting};
use crate::framework::Nomination;
use crate::pod::Pod;
use crate::queue::Waiting;

impl Engine {
    /// Lets a pod that fits nowhere wait, be it for a node that is made ready for it.
    pub(super) fn nominate(
        &mut self,
        mut waiting: Waiting,
        plugins: Vec<&'static str>,
        nomination: &Nomination,
        victims: Vec<Arc<Pod>>,
        now: Timestamp,
    ) {
        let pod = waiting.pod.clone();
        match nomination {
            Nomination::Keep => {}
            Nomination::Clear => self.unnominate(&pod.uid, now),
            Nomination::Node(node) => {
                // Who waits for the same node and is less important had better look elsewhere.
                for other in self.cluster.snapshot.nominated().below(node, pod.shape.priority) {
                    self.cluster.snapshot.unnominate(&other.uid);
                    self.queue.wake_anyway(&other.uid, now);
                    self.pending.push(Step::Unnominate { pod: other });
                }
                self.settle(&pod.uid, node, now);
                self.cluster.snapshot.nominate(&pod, node);
            }
        }
        match nomination {
            Nomination::Node(node) if !victims.is_empty() => {
                waiting.rejected_by = plugins;
                let uids = victims.iter().map(|victim| victim.uid.clone()).collect();
                self.preempting.insert(pod.uid.clone(), (waiting, uids));
                self.pending.push(Step::Preempt { pod, node: node.clone(), victims });
            }
            _ => self.queue.reject(waiting, plugins, now),
        }
    }

    /// Everybody has been asked to make way, or somebody could not be. Until they are gone the pod has to wait; if that is
    /// so already, or will not be, nothing would wake it again.
    pub(super) fn preempted(&mut self, uid: &str, agreed: bool, now: Timestamp) {
        let Some((waiting, victims)) = self.preempting.remove(uid) else { return };
        let known = self.known.get(&waiting.pod.key).filter(|known| known.uid == uid).cloned();
        let Some(known) = known else { return };
        let waiting = Waiting { pod: known, ..waiting };
        if agreed && self.must_wait(&waiting, &victims) {
            let plugins = waiting.rejected_by.clone();
            self.queue.reject(waiting, plugins, now);
        } else {
            self.queue.resume(waiting, now);
        }
    }

    /// Whether those who make way for a pod are in its way still.
    fn must_wait(&mut self, waiting: &Waiting, victims: &[Str]) -> bool {
        let Engine { cluster, profiles, .. } = self;
        let pod = &waiting.pod;
        let Some(node) = cluster.snapshot.nominated().node_of(&pod.uid) else { return false };
        if victims.iter().all(|victim| cluster.snapshot.has_pod(victim)) {
            return true;
        }
        let at = cluster.snapshot.find(node);
        let profile = profiles.iter().find(|profile| profile.scheduler == pod.shape.scheduler);
        at.is_some()
            && profile.is_some_and(|profile| {
                rejecting(profile, &waiting.rejected_by).any(|plugin| refuses(plugin, cluster, pod, at))
            })
    }
}
