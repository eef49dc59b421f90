//! Nominated pods: they count on their node for pods of the same or lower priority.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::Str;

use super::Snapshot;
use crate::pod::Pod;

#[derive(Default)]
pub(crate) struct Nominated {
    by_node: HashMap<Str, Vec<Arc<Pod>>>,
    nodes: HashMap<Str, Str>,
}

impl Nominated {
    pub(crate) fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn set(&mut self, pod: &Arc<Pod>, node: &str) {
        self.nodes.insert(pod.uid.clone(), node.into());
        self.by_node.entry(node.into()).or_default().push(pod.clone());
    }

    fn remove(&mut self, uid: &str) -> Option<(Arc<Pod>, Str)> {
        let node = self.nodes.remove(uid)?;
        let pods = self.by_node.get_mut(&node)?;
        let position = pods.iter().position(|pod| pod.uid == uid)?;
        let pod = pods.remove(position);
        if pods.is_empty() {
            self.by_node.remove(&node);
        }
        Some((pod, node))
    }

    /// The pods that are nominated for a node.
    pub(crate) fn on(&self, node: &str) -> &[Arc<Pod>] {
        self.by_node.get(node).map(Vec::as_slice).unwrap_or_default()
    }

    /// The nominated node of a pod.
    pub(crate) fn node_of(&self, uid: &str) -> Option<&Str> {
        self.nodes.get(uid)
    }

    /// The nominated pods of a node with at least the priority of a pod.
    pub(crate) fn ahead_of(&self, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
        let ahead = |other: &&Arc<Pod>| other.shape.priority >= pod.shape.priority && other.uid != pod.uid;
        self.on(node).iter().filter(ahead).cloned().collect()
    }

    /// The nominated pods of a node with lower priority.
    pub(crate) fn below(&self, node: &str, priority: i32) -> Vec<Arc<Pod>> {
        self.on(node).iter().filter(|pod| pod.shape.priority < priority).cloned().collect()
    }
}

impl Snapshot {
    pub(crate) fn nominated(&self) -> &Nominated {
        &self.nominated
    }

    /// Nominates a pod for a node, and for no other; for none if the name is empty.
    pub(crate) fn nominate(&mut self, pod: &Arc<Pod>, node: &str) {
        self.unnominate(&pod.uid);
        if node.is_empty() {
            return;
        }
        self.nominated.set(pod, node);
        if let Some(at) = self.by_name.get(node) {
            self.touch(*at);
        }
    }

    /// Removes a nomination; returns the pod and the node.
    pub(crate) fn unnominate(&mut self, uid: &str) -> Option<(Arc<Pod>, Str)> {
        let (pod, node) = self.nominated.remove(uid)?;
        if let Some(at) = self.by_name.get(&node) {
            self.touch(*at);
        }
        Some((pod, node))
    }
}
