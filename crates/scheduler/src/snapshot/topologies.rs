//! The domain of each node in each topology, as indexes.

use std::collections::HashMap;

use corten_api::Str;

use super::{NodeIx, Place};
use crate::node::Node;

/// The topology in which every node is a domain of its own.
pub(crate) const EACH_NODE: &str = "";

const NOWHERE: u32 = u32::MAX;

#[derive(Default)]
pub(crate) struct Topologies {
    list: Vec<Topology>,
}

struct Topology {
    key: Str,
    domains: Vec<u32>,
    values: HashMap<Str, u32>,
    /// The number of nodes of each domain, and its value.
    inhabited: Vec<(u32, Str)>,
    free: Vec<u32>,
}

impl Topologies {
    /// The index of a topology, which is tracked from now on.
    pub(crate) fn of(&mut self, key: &str, places: &[Place]) -> usize {
        if let Some(at) = self.list.iter().position(|topology| topology.key == key) {
            return at;
        }
        let mut topology = Topology {
            key: key.into(),
            domains: Vec::new(),
            values: HashMap::new(),
            inhabited: Vec::new(),
            free: Vec::new(),
        };
        for (at, place) in places.iter().enumerate() {
            if let Some(node) = &place.node {
                topology.attach(at, node);
            }
        }
        self.list.push(topology);
        self.list.len() - 1
    }

    /// The domain of a node.
    pub(crate) fn domain(&self, topology: usize, at: NodeIx) -> Option<u32> {
        let domain = self.list[topology].domains.get(at as usize).copied();
        domain.filter(|domain| *domain != NOWHERE)
    }

    pub(crate) fn attach(&mut self, at: NodeIx, node: &Node) {
        for topology in &mut self.list {
            topology.attach(at as usize, node);
        }
    }

    pub(crate) fn detach(&mut self, at: NodeIx) {
        for topology in &mut self.list {
            topology.detach(at as usize);
        }
    }
}

impl Topology {
    fn attach(&mut self, at: usize, node: &Node) {
        if self.domains.len() <= at {
            self.domains.resize(at + 1, NOWHERE);
        }
        let value = if self.key == EACH_NODE { Some(node.name.as_str()) } else { node.label(&self.key) };
        let Some(value) = value else { return };
        let domain = match self.values.get(value) {
            Some(domain) => *domain,
            None => self.found(value.into()),
        };
        self.inhabited[domain as usize].0 += 1;
        self.domains[at] = domain;
    }

    fn found(&mut self, value: Str) -> u32 {
        let domain = self.free.pop().unwrap_or_else(|| {
            self.inhabited.push((0, Str::default()));
            u32::try_from(self.inhabited.len() - 1).unwrap_or(NOWHERE)
        });
        self.inhabited[domain as usize] = (0, value.clone());
        self.values.insert(value, domain);
        domain
    }

    fn detach(&mut self, at: usize) {
        let domain = std::mem::replace(&mut self.domains[at], NOWHERE);
        if domain == NOWHERE {
            return;
        }
        let (nodes, value) = &mut self.inhabited[domain as usize];
        *nodes -= 1;
        if *nodes == 0 {
            self.values.remove(value);
            self.free.push(domain);
        }
    }
}
