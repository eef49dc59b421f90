//! Pods that wait for others to make way.

use std::sync::Arc;

use jiff::Timestamp;

use super::{Engine, Step};
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
            Nomination::Clear => self.cluster.snapshot.nominated.remove(&pod.uid),
            Nomination::Node(node) => {
                // Who waits for the same node and is less important had better look elsewhere.
                for other in self.cluster.snapshot.nominated.below(node, pod.shape.priority) {
                    self.cluster.snapshot.nominated.remove(&other.uid);
                    self.pending.push(Step::Unnominate { pod: other });
                }
                self.cluster.snapshot.nominated.set(&pod, node);
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

    /// Everybody has been asked to make way. If one is gone already, nothing will wake the pod again for that.
    pub(super) fn preempted(&mut self, uid: &str, now: Timestamp) {
        let Some((waiting, victims)) = self.preempting.remove(uid) else { return };
        let known = self.known.get(&waiting.pod.key).filter(|known| known.uid == uid).cloned();
        let Some(known) = known else { return };
        let waiting = Waiting { pod: known, ..waiting };
        if victims.iter().all(|victim| self.cluster.snapshot.has_pod(victim)) {
            let plugins = waiting.rejected_by.clone();
            self.queue.reject(waiting, plugins, now);
        } else {
            self.queue.resume(waiting, now);
        }
    }
}
