//! Preemption: pods that wait for their victims to terminate.

use std::sync::Arc;

use corten_api::Str;
use jiff::Timestamp;

use super::leaving::refuses;
use super::{Engine, Step, rejecting};
use crate::framework::Nomination;
use crate::pod::Pod;
use crate::queue::QueuedPod;

impl Engine {
    /// Puts an unschedulable pod into the queue, with its nominated node if it has one.
    pub(super) fn nominate(
        &mut self,
        mut waiting: QueuedPod,
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
                // Pods of lower priority that are nominated for the same node have to be scheduled elsewhere.
                for other in self.cluster.snapshot.nominated().below(node, pod.shape.priority) {
                    self.cluster.snapshot.unnominate(&other.uid);
                    self.queue.activate(&other.uid, now);
                    self.pending.push(Step::ClearNomination { pod: other });
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

    /// All victims were deleted, or one could not be. Until they are gone the pod waits; if they are gone already, or
    /// will stay, nothing else would wake it.
    pub(super) fn preempted(&mut self, uid: &str, agreed: bool, now: Timestamp) {
        let Some((waiting, victims)) = self.preempting.remove(uid) else { return };
        let known = self.known.get(&waiting.pod.key).filter(|known| known.uid == uid).cloned();
        let Some(known) = known else { return };
        let waiting = QueuedPod { pod: known, ..waiting };
        if agreed && self.must_wait(&waiting, &victims) {
            let plugins = waiting.rejected_by.clone();
            self.queue.reject(waiting, plugins, now);
        } else {
            self.queue.resume(waiting, now);
        }
    }

    /// True if victims of a pod are still on its nominated node.
    fn must_wait(&mut self, waiting: &QueuedPod, victims: &[Str]) -> bool {
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
