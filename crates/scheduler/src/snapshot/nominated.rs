//! Pods that a node is being made ready for: they count on it for pods that are no more important.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::Str;

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

    /// Instead of what was said before about this pod.
    pub(crate) fn set(&mut self, pod: &Arc<Pod>, node: &str) {
        self.remove(&pod.uid);
        if !node.is_empty() {
            self.nodes.insert(pod.uid.clone(), node.into());
            self.by_node.entry(node.into()).or_default().push(pod.clone());
        }
    }

    pub(crate) fn remove(&mut self, uid: &str) {
        let Some(node) = self.nodes.remove(uid) else { return };
        if let Some(pods) = self.by_node.get_mut(&node) {
            pods.retain(|pod| pod.uid != uid);
            if pods.is_empty() {
                self.by_node.remove(&node);
            }
        }
    }

    /// The node that a pod waits for.
    pub(crate) fn node_of(&self, uid: &str) -> Option<&Str> {
        self.nodes.get(uid)
    }

    /// Those on a node that come before a pod.
    pub(crate) fn ahead_of(&self, pod: &Pod, node: &str) -> Vec<Arc<Pod>> {
        let here = self.by_node.get(node).map(Vec::as_slice).unwrap_or_default();
        let ahead = |other: &&Arc<Pod>| other.shape.priority >= pod.shape.priority && other.uid != pod.uid;
        here.iter().filter(ahead).cloned().collect()
    }

    /// Everybody who waits for a node, and is less important.
    pub(crate) fn below(&self, node: &str, priority: i32) -> Vec<Arc<Pod>> {
        let here = self.by_node.get(node).map(Vec::as_slice).unwrap_or_default();
        here.iter().filter(|pod| pod.shape.priority < priority).cloned().collect()
    }
}
