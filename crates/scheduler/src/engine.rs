//! The scheduler without I/O: takes in changes and returns the next step. Synchronous, and deterministic except for the
//! choice among equals.
//!
//! *Invariant:* an assumed pod counts on its node, whether or not the API server has confirmed the binding, until the
//! binding is refused or the pod is deleted. A pod is never in the queue and on a node at once.

mod leaving;
mod preempting;

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::{Map, Str, Value};
use corten_client::Key;
use jiff::Timestamp;

use crate::cluster::Cluster;
use crate::config::Config;
use crate::cycle::{Decision, Search};
use crate::framework::event::ClusterEvent;
use crate::framework::profile::Profile;
use crate::framework::{Nomination, Plugin, Volumes};
use crate::node::Node;
use crate::pod::Pod;
use crate::queue::{Depths, Queue, QueuedPod};
use crate::random::Random;
use crate::snapshot::NodeIx;
use crate::storage::Stored;
use crate::workloads::Selecting;

/// A change of the cluster's state.
pub(crate) enum Change {
    Pod {
        key: Key,
        pod: Option<Arc<Pod>>,
    },
    Node {
        name: Str,
        node: Option<Arc<Node>>,
    },
    Namespace {
        name: Str,
        labels: Option<Map>,
    },
    Workload {
        kind: Selecting,
        key: Key,
        object: Option<Value>,
    },
    Budget {
        key: Key,
        object: Option<Value>,
    },
    Storage {
        kind: Stored,
        key: Key,
        object: Option<Value>,
    },
    /// The result of a binding.
    Bound {
        uid: Str,
        outcome: Result<(), String>,
    },
    /// The victims of a preemption were deleted, or the API server refused some deletion.
    Preempted {
        uid: Str,
        agreed: bool,
    },
}

/// The next step.
pub(crate) enum Step {
    /// Bind a pod to a node, once its volumes are ready.
    Bind { pod: Arc<Pod>, node: Str, volumes: Option<Volumes> },
    /// Report that a pod is unschedulable, and its nominated node.
    ReportUnschedulable { pod: Arc<Pod>, reason: &'static str, message: String, nomination: Nomination },
    /// Delete victims to make room for a pod.
    Preempt { pod: Arc<Pod>, node: Str, victims: Vec<Arc<Pod>> },
    /// Clear a pod's nominated node.
    ClearNomination { pod: Arc<Pod> },
    /// Nothing to do before this time, unless something changes.
    Wait(Option<Timestamp>),
}

pub(crate) const UNSCHEDULABLE: &str = "Unschedulable";
pub(crate) const WENT_WRONG: &str = "SchedulerError";

pub(crate) struct Engine {
    cluster: Cluster,
    profiles: Vec<Profile>,
    queue: Queue,
    search: Search,
    /// Every pod as last observed.
    known: HashMap<Key, Arc<Pod>>,
    /// Pods with a node whose binding is not confirmed yet, by uid.
    assumed: HashMap<Str, QueuedPod>,
    /// Pods whose victims are being deleted, with the victims, by uid.
    preempting: HashMap<Str, (QueuedPod, Vec<Str>)>,
    /// Steps that precede everything else.
    pending: Vec<Step>,
}

impl Engine {
    pub(crate) fn new(config: Config, seed: u64) -> Engine {
        Engine {
            cluster: Cluster::default(),
            profiles: config.profiles,
            queue: Queue::new(config.backoff),
            search: Search::new(config.percentage, Random::new(seed)),
            known: HashMap::new(),
            assumed: HashMap::new(),
            preempting: HashMap::new(),
            pending: Vec::new(),
        }
    }

    pub(crate) fn depths(&self) -> Depths {
        self.queue.depths()
    }

    /// The number of unconfirmed bindings.
    pub(crate) fn assumed(&self) -> usize {
        self.assumed.len()
    }

    pub(crate) fn pods(&self) -> usize {
        self.cluster.snapshot.pods()
    }

    pub(crate) fn nodes(&self) -> usize {
        self.cluster.snapshot.len()
    }

    /// Applies a change.
    pub(crate) fn apply(&mut self, change: Change, now: Timestamp) {
        match change {
            Change::Pod { key, pod } => self.pod_changed(key, pod, now),
            Change::Node { name, node } => self.node_changed(&name, node, now),
            Change::Namespace { name, labels } => self.cluster.snapshot.set_namespace(&name, labels),
            Change::Workload { kind, key, object } => self.cluster.workloads.set(kind, &key, object.as_ref()),
            Change::Budget { key, object } => self.cluster.budgets.set(&key, object.as_ref()),
            Change::Storage { kind, key, object } => {
                self.cluster.storage.set(kind, &key, object.as_ref());
                self.handle_event(&ClusterEvent::StorageChanged, now);
            }
            Change::Bound { uid, outcome } => self.bound(&uid, outcome, now),
            Change::Preempted { uid, agreed } => self.preempted(&uid, agreed, now),
        }
    }

    /// Decides for the next pod in the queue.
    pub(crate) fn step(&mut self, now: Timestamp) -> Step {
        if let Some(step) = self.pending.pop() {
            return step;
        }
        let Some(waiting) = self.queue.pop(now) else { return Step::Wait(self.queue.next_due()) };
        let pod = waiting.pod.clone();
        let Some(profile) = self.profiles.iter_mut().find(|p| p.scheduler == pod.shape.scheduler) else {
            return Step::Wait(Some(now));
        };
        let mut shape_cache = profile.take_shape_cache(&pod);
        let decision = self.search.decide(&mut shape_cache, profile, &mut self.cluster, &pod);
        let mut found = None;
        if let Decision::Unschedulable(diagnosis) = &decision {
            let (cluster, random) = (&mut self.cluster, &mut self.search.random);
            found = profile.post_filter(&pod, cluster, diagnosis, &mut shape_cache, random);
        }
        profile.put_shape_cache(&pod, shape_cache);
        match decision {
            Decision::Node(at) => self.assume(waiting, at, now),
            Decision::NoNodes => {
                self.queue.reject(waiting, Vec::new(), now);
                let message = "no nodes available to schedule pods".to_owned();
                Step::ReportUnschedulable {
                    pod,
                    reason: UNSCHEDULABLE,
                    message,
                    nomination: Nomination::Clear,
                }
            }
            Decision::Unschedulable(mut diagnosis) => {
                let (nomination, victims) = match found {
                    None => (Nomination::Clear, Vec::new()),
                    Some(found) => {
                        diagnosis.afterwards = found.message;
                        (found.nomination, found.victims)
                    }
                };
                let message = diagnosis.message();
                self.nominate(waiting, diagnosis.plugins, &nomination, victims, now);
                Step::ReportUnschedulable { pod, reason: UNSCHEDULABLE, message, nomination }
            }
        }
    }

    /// Assumes a pod on a node.
    fn assume(&mut self, waiting: QueuedPod, at: NodeIx, now: Timestamp) -> Step {
        let (pod, node) = (waiting.pod.clone(), self.cluster.snapshot.name(at).clone());
        self.settle(&pod.uid, &node, now);
        self.cluster.snapshot.add_pod(pod.clone(), &node);
        self.assumed.insert(pod.uid.clone(), waiting);
        let profile = self.profiles.iter().find(|profile| profile.scheduler == pod.shape.scheduler);
        let mut reserves = profile.into_iter().flat_map(|profile| &profile.reserves);
        let volumes = reserves.find_map(|plugin| plugin.reserve(&pod, &mut self.cluster, at));
        Step::Bind { pod, node, volumes }
    }

    fn pod_changed(&mut self, key: Key, pod: Option<Arc<Pod>>, now: Timestamp) {
        let old = match &pod {
            Some(pod) => self.known.insert(key, pod.clone()),
            None => self.known.remove(&key),
        };
        // Another pod of the same name means that the first was deleted.
        if let Some(old) = old.as_ref().filter(|old| pod.as_ref().is_none_or(|pod| pod.uid != old.uid)) {
            self.pod_gone(old, now);
        }
        let Some(pod) = pod else { return };
        let old = old.filter(|old| old.uid == pod.uid);
        if pod.finished {
            self.pod_gone(&pod, now);
        } else if !pod.node.is_empty() {
            self.pod_assigned(old.as_deref(), &pod, now);
        } else {
            self.pod_waits(old.as_deref(), pod, now);
        }
    }

    fn pod_gone(&mut self, pod: &Pod, now: Timestamp) {
        self.queue.remove(&pod.uid);
        self.assumed.remove(&pod.uid);
        self.preempting.remove(&pod.uid);
        self.unnominate(&pod.uid, now);
        self.leave(&pod.uid, now);
    }

    fn pod_assigned(&mut self, old: Option<&Pod>, pod: &Arc<Pod>, now: Timestamp) {
        self.queue.remove(&pod.uid);
        self.assumed.remove(&pod.uid);
        self.preempting.remove(&pod.uid);
        self.settle(&pod.uid, &pod.node, now);
        self.cluster.snapshot.add_pod(pod.clone(), &pod.node);
        match old.filter(|old| !old.node.is_empty()) {
            None => self.handle_event(&ClusterEvent::PodAssigned(pod), now),
            Some(old) if old.shape.serial != pod.shape.serial || old.deleting != pod.deleting => {
                self.handle_event(&ClusterEvent::AssignedPodChanged { old, new: pod }, now);
            }
            Some(_) => {}
        }
    }

    /// A pod without a node. Those of other schedulers matter only for their nominated nodes.
    fn pod_waits(&mut self, old: Option<&Pod>, pod: Arc<Pod>, now: Timestamp) {
        let busy = self.assumed.contains_key(&pod.uid) || self.preempting.contains_key(&pod.uid);
        if busy && !pod.deleting {
            return;
        }
        let Some(profile) = self.profiles.iter().find(|p| p.scheduler == pod.shape.scheduler) else {
            return;
        };
        if pod.deleting {
            self.queue.remove(&pod.uid);
            self.preempting.remove(&pod.uid);
            self.unnominate(&pod.uid, now);
            return;
        }
        let gated_by = profile.pre_enqueue(&pod).map(|(plugin, _)| plugin);
        let Some(waiting) = self.queue.get(&pod.uid) else {
            self.cluster.snapshot.nominate(&pod, &pod.nominated);
            self.queue.add(pod, gated_by, now);
            return;
        };
        let helps = old.is_some_and(|old| {
            let event = ClusterEvent::PodChanged { old, new: &pod };
            old.shape.serial != pod.shape.serial && helps(profile, &pod, &waiting.rejected_by, &event)
        });
        self.queue.update(pod, gated_by, helps, now);
    }

    fn node_changed(&mut self, name: &str, node: Option<Arc<Node>>, now: Timestamp) {
        let old =
            self.cluster.snapshot.find(name).and_then(|at| self.cluster.snapshot.place(at).node.clone());
        let Some(node) = node else {
            self.cluster.snapshot.remove_node(name);
            if let Some(old) = old {
                self.handle_event(&ClusterEvent::NodeDeleted(&old), now);
            }
            return;
        };
        self.cluster.snapshot.set_node(node.clone());
        match old {
            None => self.handle_event(&ClusterEvent::NodeAdded(&node), now),
            Some(old) if old != node => {
                self.handle_event(&ClusterEvent::NodeChanged { old: &old, new: &node }, now);
            }
            Some(_) => {}
        }
    }

    fn bound(&mut self, uid: &str, outcome: Result<(), String>, now: Timestamp) {
        let Some(waiting) = self.assumed.remove(uid) else { return };
        let Err(message) = outcome else { return };
        // The response may be lost although its effect is already observed.
        let known = self.known.get(&waiting.pod.key).filter(|known| known.uid == uid).cloned();
        let Some(known) = known.filter(|known| known.node.is_empty()) else { return };
        for plugin in self.profiles.iter().flat_map(|profile| &profile.reserves) {
            plugin.unreserve(&waiting.pod, &mut self.cluster);
        }
        self.leave(uid, now);
        if known.deleting {
            return;
        }
        let (pod, nomination) = (known.clone(), Nomination::Clear);
        self.pending.push(Step::ReportUnschedulable { pod, reason: WENT_WRONG, message, nomination });
        self.queue.retry(QueuedPod { pod: known, ..waiting }, now);
    }

    /// Moves the pods that an event may make schedulable.
    fn handle_event(&mut self, event: &ClusterEvent<'_>, now: Timestamp) {
        let profiles = &self.profiles;
        self.queue.wake(now, &[], |pod, plugins| {
            let profile = profiles.iter().find(|profile| profile.scheduler == pod.shape.scheduler);
            profile.is_some_and(|profile| helps(profile, pod, plugins, event))
        });
    }
}

/// True if an event may make a pod schedulable that these plugins rejected. Without nodes no plugin has rejected it.
fn helps(profile: &Profile, pod: &Pod, plugins: &[&'static str], event: &ClusterEvent<'_>) -> bool {
    if plugins.is_empty() {
        return matches!(event, ClusterEvent::NodeAdded(_));
    }
    rejecting(profile, plugins).any(|plugin| plugin.queueing_hint(pod, event))
}

/// The plugins of these names.
fn rejecting<'p>(profile: &'p Profile, names: &'p [&'static str]) -> impl Iterator<Item = &'p dyn Plugin> {
    profile.filters.iter().map(Arc::as_ref).filter(|plugin| names.contains(&plugin.name()))
}

#[cfg(test)]
mod independent;
#[cfg(test)]
mod property;
#[cfg(test)]
mod tests;
