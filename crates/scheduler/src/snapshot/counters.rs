//! Counts of selected pods per topology domain, for repeated use.
//!
//! A counter is created when a shape first needs it and then follows every pod and node. The least recently used ones
//! are evicted.

use std::collections::HashMap;
use std::sync::Arc;

use corten_api::{Map, Str};

use super::topologies::Topologies;
use super::{NodeIx, Place};
use crate::node::Node;
use crate::pod::terms::PodSelector;
use crate::pod::{Memo, Pod, Shape};
use crate::tolerations;

/// The largest number of counters.
const MOST: usize = 1024;

/// The user and purpose of a counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct CounterKey {
    pub(crate) shape: u64,
    pub(crate) purpose: Purpose,
    pub(crate) index: usize,
    /// Distinguishes counters that were made from other workloads.
    pub(crate) grounds: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Purpose {
    Spread,
    SpreadPerNode,
    Affinity,
    AntiAffinity,
    PreferredAffinity,
    PreferredAntiAffinity,
}

/// The pods and the topology to count.
pub(crate) struct Counting {
    /// Pods that all of these select.
    pub(crate) pods: Vec<PodSelector>,
    /// True if terminating pods count.
    pub(crate) counts_deleting: bool,
    pub(crate) topology_key: Str,
    pub(crate) nodes: Option<Eligible>,
}

/// The nodes whose pods count.
pub(crate) struct Eligible {
    pub(crate) shape: Arc<Shape>,
    pub(crate) honors_affinity: bool,
    pub(crate) honors_taints: bool,
    /// Labels that a node must have.
    pub(crate) keys: Vec<Str>,
}

impl Eligible {
    fn is(&self, node: &Node) -> bool {
        self.keys.iter().all(|key| node.labels.contains_key(key))
            && (!self.honors_affinity || self.shape.nodes.matches(node))
            && (!self.honors_taints || tolerations::tolerates_all(&self.shape.tolerations, &node.taints))
    }
}

pub(crate) struct Counter {
    key: CounterKey,
    what: Counting,
    pub(crate) topology: usize,
    eligible: Vec<bool>,
    /// By domain: the pods, and the counted nodes.
    counts: Vec<i64>,
    nodes: Vec<u32>,
    in_domains: i64,
    memo: Memo,
    used: u64,
}

impl Counter {
    /// The number of pods in a domain.
    pub(crate) fn in_domain(&self, domain: u32) -> i64 {
        self.counts.get(domain as usize).copied().unwrap_or(0)
    }

    /// True if all counts are zero.
    pub(crate) fn is_empty(&self) -> bool {
        self.in_domains == 0
    }

    /// The lowest count of any domain, and the number of domains.
    pub(crate) fn least(&self) -> (i64, i64) {
        let inhabited = self.counts.iter().zip(&self.nodes).filter(|(_, nodes)| **nodes > 0);
        inhabited.fold((i64::MAX, 0), |(least, domains), (count, _)| (least.min(*count), domains + 1))
    }

    fn has(&self, at: NodeIx) -> bool {
        self.eligible.get(at as usize).copied().unwrap_or(false)
    }

    fn selects(&mut self, namespaces: &HashMap<Str, Map>, pod: &Pod) -> bool {
        if pod.deleting && !self.what.counts_deleting {
            return false;
        }
        let pods = &self.what.pods;
        self.memo.get(&pod.shape, |shape| {
            let labels = namespaces.get(&shape.namespace);
            pods.iter().all(|selector| selector.matches(&shape.namespace, labels, &shape.labels))
        })
    }

    fn count(
        &mut self,
        topologies: &Topologies,
        namespaces: &HashMap<Str, Map>,
        pod: &Pod,
        at: NodeIx,
        sign: i64,
    ) {
        if !self.has(at) || !self.selects(namespaces, pod) {
            return;
        }
        if let Some(domain) = topologies.domain(self.topology, at) {
            self.counts[domain as usize] += sign;
            self.in_domains += sign;
        }
    }

    fn attach(&mut self, topologies: &Topologies, at: NodeIx, node: &Node) {
        if self.eligible.len() <= at as usize {
            self.eligible.resize(at as usize + 1, false);
        }
        if self.what.nodes.as_ref().is_some_and(|nodes| !nodes.is(node)) {
            return;
        }
        self.eligible[at as usize] = true;
        let Some(domain) = topologies.domain(self.topology, at) else { return };
        if self.counts.len() <= domain as usize {
            self.counts.resize(domain as usize + 1, 0);
            self.nodes.resize(domain as usize + 1, 0);
        }
        self.nodes[domain as usize] += 1;
    }

    fn detach(&mut self, topologies: &Topologies, at: NodeIx) {
        if !self.has(at) {
            return;
        }
        self.eligible[at as usize] = false;
        if let Some(domain) = topologies.domain(self.topology, at) {
            self.nodes[domain as usize] -= 1;
        }
    }

    /// Counts everything.
    fn fill(&mut self, topologies: &Topologies, namespaces: &HashMap<Str, Map>, places: &[Place]) {
        for (at, place) in places.iter().enumerate() {
            let at = NodeIx::try_from(at).unwrap_or(NodeIx::MAX);
            for pod in place.pods.iter().filter(|_| place.node.is_some()) {
                self.count(topologies, namespaces, pod, at, 1);
            }
        }
    }
}

#[derive(Default)]
pub(crate) struct Counters {
    list: Vec<Counter>,
    by_key: HashMap<CounterKey, usize>,
    clock: u64,
}

impl Counters {
    pub(crate) fn get(&self, at: usize) -> &Counter {
        &self.list[at]
    }

    pub(crate) fn find(&mut self, key: &CounterKey) -> Option<usize> {
        let at = *self.by_key.get(key)?;
        self.clock += 1;
        self.list[at].used = self.clock;
        Some(at)
    }

    pub(crate) fn add(
        &mut self,
        key: CounterKey,
        what: Counting,
        topology: usize,
        topologies: &Topologies,
        namespaces: &HashMap<Str, Map>,
        places: &[Place],
    ) -> usize {
        self.clock += 1;
        let mut counter = Counter {
            key,
            what,
            topology,
            eligible: Vec::new(),
            counts: Vec::new(),
            nodes: Vec::new(),
            in_domains: 0,
            memo: Memo::default(),
            used: self.clock,
        };
        for (at, place) in places.iter().enumerate() {
            if let Some(node) = &place.node {
                counter.attach(topologies, NodeIx::try_from(at).unwrap_or(NodeIx::MAX), node);
            }
        }
        counter.fill(topologies, namespaces, places);
        let at = if self.list.len() < MOST { self.list.len() } else { self.longest_unused() };
        if at == self.list.len() {
            self.list.push(counter);
        } else {
            let old = std::mem::replace(&mut self.list[at], counter);
            self.by_key.remove(&old.key);
        }
        self.by_key.insert(key, at);
        at
    }

    fn longest_unused(&self) -> usize {
        (0..self.list.len()).min_by_key(|at| self.list[*at].used).unwrap_or(0)
    }

    pub(crate) fn count(
        &mut self,
        topologies: &Topologies,
        namespaces: &HashMap<Str, Map>,
        pod: &Pod,
        at: NodeIx,
        sign: i64,
    ) {
        for counter in &mut self.list {
            counter.count(topologies, namespaces, pod, at, sign);
        }
    }

    pub(crate) fn attach(&mut self, topologies: &Topologies, at: NodeIx, node: &Node) {
        for counter in &mut self.list {
            counter.attach(topologies, at, node);
        }
    }

    pub(crate) fn detach(&mut self, topologies: &Topologies, at: NodeIx) {
        for counter in &mut self.list {
            counter.detach(topologies, at);
        }
    }

    /// Recounts after a change of namespaces, which selectors may depend on.
    pub(crate) fn namespaces_changed(
        &mut self,
        topologies: &Topologies,
        namespaces: &HashMap<Str, Map>,
        places: &[Place],
    ) {
        for counter in &mut self.list {
            if counter.what.pods.iter().any(|selector| selector.namespace_selector.is_some()) {
                counter.memo.clear();
                counter.in_domains = 0;
                counter.counts.fill(0);
                counter.fill(topologies, namespaces, places);
            }
        }
    }
}
