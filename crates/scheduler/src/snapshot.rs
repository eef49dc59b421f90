//! The snapshot of the cluster, updated change by change and never recomputed as a whole.
//!
//! Data that filters and scores read for every node lies in arrays by the node's index: resources, and topology
//! domains. Pods per domain are counted as pods are added and removed (`counters`, `owned`). Assumed pods count like
//! bound ones.
//!
//! *Invariant:* a pod is counted once, on the node it was last put on; the counters equal a full recount.

pub(crate) mod counters;
pub(crate) mod nominated;
mod order;
pub(crate) mod owned;
mod topologies;
mod versions;
pub(crate) use topologies::EACH_NODE;

#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use corten_api::{Map, Str};
use corten_client::Key;

use crate::node::Node;
use crate::pod::{HostPort, Pod};
use counters::{Counter, CounterKey, Counters, Counting};
use nominated::Nominated;
use order::Order;
use owned::OwnedTerms;
use topologies::Topologies;
pub(crate) use versions::Moment;
use versions::Versions;

/// A node's index; reused when the node is deleted.
pub(crate) type NodeIx = u32;

/// The allocatable and the requested resources of a node.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Room {
    pub(crate) milli_cpu: i64,
    pub(crate) memory: i64,
    pub(crate) ephemeral_storage: i64,
    pub(crate) max_pods: i64,
    pub(crate) used_milli_cpu: i64,
    pub(crate) used_memory: i64,
    pub(crate) used_ephemeral_storage: i64,
    pub(crate) pods: i64,
    /// The requested resources, with defaults for missing requests.
    pub(crate) counted_milli_cpu: i64,
    pub(crate) counted_memory: i64,
}

/// The other data of a node.
#[derive(Debug, Default)]
pub(crate) struct Place {
    pub(crate) name: Str,
    /// `None` if the Node object of its pods has not been observed.
    pub(crate) node: Option<Arc<Node>>,
    pub(crate) pods: Vec<Arc<Pod>>,
    pub(crate) ports: Vec<HostPort>,
    /// Holds only names that a pod of the node requests.
    used_scalars: HashMap<Str, i64>,
}

impl Place {
    pub(crate) fn used_scalar(&self, name: &str) -> i64 {
        self.used_scalars.get(name).copied().unwrap_or(0)
    }
}

#[derive(Default)]
pub(crate) struct Snapshot {
    places: Vec<Place>,
    rooms: Vec<Room>,
    by_name: HashMap<Str, NodeIx>,
    free: Vec<NodeIx>,
    order: Order,
    /// The node of each counted pod, by uid.
    pods: HashMap<Str, NodeIx>,
    topologies: Topologies,
    counters: Counters,
    owned: OwnedTerms,
    namespaces: HashMap<Str, Map>,
    /// The number of nodes with each image.
    images: HashMap<Str, u32>,
    versions: Versions,
    /// The number of nodes with PreferNoSchedule taints.
    prefer_no_schedule: usize,
    /// The number of pods that use each claim.
    claims: HashMap<Key, u32>,
    nominated: Nominated,
}

impl Snapshot {
    /// The existing nodes, round-robin by zone.
    pub(crate) fn order(&self) -> &[NodeIx] {
        self.order.list()
    }

    pub(crate) fn len(&self) -> usize {
        self.order.list().len()
    }

    pub(crate) fn find(&self, name: &str) -> Option<NodeIx> {
        self.by_name.get(name).copied().filter(|at| self.place(*at).node.is_some())
    }

    pub(crate) fn place(&self, at: NodeIx) -> &Place {
        &self.places[at as usize]
    }

    pub(crate) fn room(&self, at: NodeIx) -> &Room {
        &self.rooms[at as usize]
    }

    /// An existing node.
    pub(crate) fn node(&self, at: NodeIx) -> &Node {
        static NONE: std::sync::LazyLock<Node> = std::sync::LazyLock::new(Node::default);
        self.place(at).node.as_deref().unwrap_or(&NONE)
    }

    pub(crate) fn name(&self, at: NodeIx) -> &Str {
        &self.place(at).name
    }

    pub(crate) fn image_spread(&self, image: &str) -> u32 {
        self.images.get(image).copied().unwrap_or(0)
    }

    /// True if any node has a PreferNoSchedule taint.
    pub(crate) fn has_prefer_no_schedule(&self) -> bool {
        self.prefer_no_schedule > 0
    }

    pub(crate) fn namespace_labels(&self, namespace: &str) -> Option<&Map> {
        self.namespaces.get(namespace)
    }

    /// True if a pod is counted.
    pub(crate) fn has_pod(&self, uid: &str) -> bool {
        self.pods.contains_key(uid)
    }

    /// The number of counted pods.
    pub(crate) fn pods(&self) -> usize {
        self.pods.len()
    }

    /// True if a pod on some node uses a claim.
    pub(crate) fn uses_claim(&self, claim: &Key) -> bool {
        self.claims.contains_key(claim)
    }

    /// Updates a node.
    pub(crate) fn set_node(&mut self, node: Arc<Node>) {
        let at = self.at(&node.name);
        self.touch(at);
        let known = self.places[at as usize].node.clone();
        if let Some(known) = &known {
            self.forget_images(known);
            self.prefer_no_schedule -= usize::from(known.has_prefer_no_schedule());
        }
        self.prefer_no_schedule += usize::from(node.has_prefer_no_schedule());
        for image in node.images.keys() {
            *self.images.entry(image.clone()).or_default() += 1;
        }
        let room = &mut self.rooms[at as usize];
        room.milli_cpu = node.allocatable.milli_cpu;
        room.memory = node.allocatable.memory;
        room.ephemeral_storage = node.allocatable.ephemeral_storage;
        room.max_pods = node.max_pods;
        if known.as_ref().is_some_and(|known| known.is_placed_alike(&node)) {
            self.places[at as usize].node = Some(node);
            return;
        }
        if let Some(known) = known {
            self.detach(at);
            self.order.remove(at, &known.zone());
        }
        self.order.add(at, node.zone());
        self.places[at as usize].node = Some(node);
        self.attach(at);
    }

    pub(crate) fn remove_node(&mut self, name: &str) {
        let Some(at) = self.find(name) else { return };
        self.touch(at);
        self.detach(at);
        if let Some(node) = self.places[at as usize].node.take() {
            self.forget_images(&node);
            self.prefer_no_schedule -= usize::from(node.has_prefer_no_schedule());
            self.order.remove(at, &node.zone());
        }
        self.release(at);
    }

    fn forget_images(&mut self, node: &Node) {
        for image in node.images.keys() {
            if let Some(count) = self.images.get_mut(image) {
                *count -= 1;
                if *count == 0 {
                    self.images.remove(image);
                }
            }
        }
    }

    /// Counts a pod on a node, instead of where it was counted before.
    pub(crate) fn add_pod(&mut self, pod: Arc<Pod>, node: &str) {
        let Some(pod) = self.renew(pod, node) else { return };
        self.remove_pod(&pod.uid);
        let at = self.at(node);
        self.pods.insert(pod.uid.clone(), at);
        self.put(pod, at);
    }

    /// Replaces a pod that is counted on the same node with the same shape; returns any other.
    fn renew(&mut self, pod: Arc<Pod>, node: &str) -> Option<Arc<Pod>> {
        let Some(at) = self.pods.get(&pod.uid).copied() else { return Some(pod) };
        let place = &mut self.places[at as usize];
        if place.name != node {
            return Some(pod);
        }
        // Pods that change are mostly the latest.
        let Some(known) = place.pods.iter_mut().rfind(|known| known.uid == pod.uid) else { return Some(pod) };
        if known.shape.serial != pod.shape.serial || known.deleting != pod.deleting {
            return Some(pod);
        }
        // The start time matters for preemption.
        let is_other = known.started != pod.started;
        *known = pod;
        if is_other {
            self.touch(at);
        }
        None
    }

    /// Removes a pod; returns it and its node.
    pub(crate) fn remove_pod(&mut self, uid: &str) -> Option<(Arc<Pod>, Str)> {
        let at = self.pods.remove(uid)?;
        let pod = self.take(uid, at)?;
        let name = self.place(at).name.clone();
        self.release(at);
        Some((pod, name))
    }

    /// Removes a pod from a node for a trial.
    pub(crate) fn take(&mut self, uid: &str, at: NodeIx) -> Option<Arc<Pod>> {
        let place = &mut self.places[at as usize];
        let position = place.pods.iter().rposition(|pod| pod.uid == uid)?;
        let pod = place.pods.swap_remove(position);
        for port in &pod.shape.ports {
            if let Some(position) = place.ports.iter().position(|used| used == port) {
                place.ports.swap_remove(position);
            }
        }
        self.use_room(&pod, at, -1);
        if self.places[at as usize].node.is_some() {
            self.count(&pod, at, -1);
        }
        Some(pod)
    }

    /// Adds a pod to a node, also for a trial.
    pub(crate) fn put(&mut self, pod: Arc<Pod>, at: NodeIx) {
        self.use_room(&pod, at, 1);
        if self.places[at as usize].node.is_some() {
            self.count(&pod, at, 1);
        }
        let place = &mut self.places[at as usize];
        place.ports.extend(pod.shape.ports.iter().cloned());
        place.pods.push(pod);
    }

    fn use_room(&mut self, pod: &Pod, at: NodeIx, sign: i64) {
        self.touch(at);
        for claim in pod.shape.volumes.all_claims() {
            let count = self.claims.entry(claim.clone()).or_default();
            *count = count.saturating_add_signed(if sign > 0 { 1 } else { -1 });
            if *count == 0 {
                self.claims.remove(claim);
            }
        }
        let requests = &pod.shape.requests;
        let room = &mut self.rooms[at as usize];
        room.pods += sign;
        room.used_milli_cpu += sign * requests.resources.milli_cpu;
        room.used_memory += sign * requests.resources.memory;
        room.used_ephemeral_storage += sign * requests.resources.ephemeral_storage;
        room.counted_milli_cpu += sign * requests.non_zero.0;
        room.counted_memory += sign * requests.non_zero.1;
        let used = &mut self.places[at as usize].used_scalars;
        for (name, amount) in &requests.resources.scalars {
            match used.entry(name.clone()) {
                Entry::Occupied(mut sum) => {
                    *sum.get_mut() += sign * amount;
                    if *sum.get() == 0 {
                        sum.remove();
                    }
                }
                Entry::Vacant(sum) => drop(sum.insert(sign * amount)),
            }
        }
    }

    /// Updates the counters for a pod on an existing node.
    fn count(&mut self, pod: &Pod, at: NodeIx, sign: i64) {
        self.counters.count(&self.topologies, &self.namespaces, pod, at, sign);
        self.owned.count(&mut self.topologies, &self.places, &pod.shape, at, sign);
    }

    /// A node was added or changed.
    fn attach(&mut self, at: NodeIx) {
        let Some(node) = self.places[at as usize].node.clone() else { return };
        self.topologies.attach(at, &node);
        self.counters.attach(&self.topologies, at, &node);
        for position in 0..self.places[at as usize].pods.len() {
            let pod = self.places[at as usize].pods[position].clone();
            self.count(&pod, at, 1);
        }
    }

    fn detach(&mut self, at: NodeIx) {
        for position in 0..self.places[at as usize].pods.len() {
            let pod = self.places[at as usize].pods[position].clone();
            self.count(&pod, at, -1);
        }
        self.counters.detach(&self.topologies, at);
        self.topologies.detach(at);
    }

    /// The index of a node, also of one that has not been observed.
    fn at(&mut self, name: &str) -> NodeIx {
        if let Some(at) = self.by_name.get(name) {
            return *at;
        }
        let at = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place::default());
            self.rooms.push(Room::default());
            NodeIx::try_from(self.places.len() - 1).unwrap_or(NodeIx::MAX)
        });
        self.places[at as usize] = Place { name: name.into(), ..Place::default() };
        self.rooms[at as usize] = Room::default();
        self.touch(at);
        self.by_name.insert(name.into(), at);
        at
    }

    /// Releases the index of a deleted node without pods.
    fn release(&mut self, at: NodeIx) {
        let place = &self.places[at as usize];
        if place.node.is_none() && place.pods.is_empty() {
            self.by_name.remove(&place.name);
            self.free.push(at);
        }
    }

    /// Sets the labels of a namespace, or removes it.
    pub(crate) fn set_namespace(&mut self, name: &str, labels: Option<Map>) {
        if self.namespaces.get(name) == labels.as_ref() {
            return;
        }
        match labels {
            Some(labels) => self.namespaces.insert(name.into(), labels),
            None => self.namespaces.remove(name),
        };
        self.owned.namespaces_changed();
        self.counters.namespaces_changed(&self.topologies, &self.namespaces, &self.places);
    }

    /// The counter under a key, created and filled on first use.
    pub(crate) fn counter(&mut self, key: CounterKey, what: impl FnOnce() -> Counting) -> usize {
        if let Some(at) = self.counters.find(&key) {
            return at;
        }
        let counting = what();
        let topology = self.topology(&counting.topology_key);
        self.counters.add(key, counting, topology, &self.topologies, &self.namespaces, &self.places)
    }

    pub(crate) fn counted(&self, at: usize) -> &Counter {
        self.counters.get(at)
    }

    /// The domain of a node in a counter's topology.
    pub(crate) fn domain(&self, counter: &Counter, at: NodeIx) -> Option<u32> {
        self.topologies.domain(counter.topology, at)
    }

    pub(crate) fn owned(&self) -> &OwnedTerms {
        &self.owned
    }

    /// The index of a topology, which is tracked from now on.
    pub(crate) fn topology(&mut self, key: &str) -> usize {
        self.topologies.of(key, &self.places)
    }

    pub(crate) fn topologies(&self) -> &Topologies {
        &self.topologies
    }

    /// The terms of pods on nodes that select pods of this shape.
    pub(crate) fn terms_about(&mut self, shape: &crate::pod::Shape) -> Vec<usize> {
        self.owned.about(shape, &self.namespaces)
    }
}
