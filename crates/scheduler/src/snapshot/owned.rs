//! The terms of pods on nodes about incoming pods: for every term, the number of pods with it per domain.

use std::collections::HashMap;

use corten_api::{Map, Str};

use super::topologies::Topologies;
use super::{NodeIx, Place};
use crate::pod::terms::PodTerm;
use crate::pod::{Memo, Shape};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Demand {
    /// Required anti-affinity.
    RequiredAnti,
    /// Required affinity.
    Required,
    /// Preferred affinity, or anti-affinity if the weight is negative.
    Preferred,
}

pub(crate) struct OwnedTerm {
    term: PodTerm,
    pub(crate) demand: Demand,
    pub(crate) topology: usize,
    /// By domain: the number of pods, or the sum of their weights.
    sums: Vec<i64>,
    /// The number of pods with the term.
    owners: usize,
    memo: Memo,
    name: String,
}

impl OwnedTerm {
    pub(crate) fn in_domain(&self, domain: u32) -> i64 {
        self.sums.get(domain as usize).copied().unwrap_or(0)
    }
}

/// A term of a shape, and the weight that each pod adds.
#[derive(Debug, Clone, Copy)]
struct Part {
    term: usize,
    adds: i64,
}

#[derive(Default)]
pub(crate) struct OwnedTerms {
    terms: Vec<Option<OwnedTerm>>,
    by_name: HashMap<String, usize>,
    /// By shape: its terms, and the number of pods on nodes.
    shapes: HashMap<u64, (Vec<Part>, usize)>,
}

impl OwnedTerms {
    pub(crate) fn get(&self, at: usize) -> Option<&OwnedTerm> {
        self.terms[at].as_ref()
    }

    /// The terms that select pods of this shape.
    pub(crate) fn about(&mut self, shape: &Shape, namespaces: &HashMap<Str, Map>) -> Vec<usize> {
        let labels = namespaces.get(&shape.namespace);
        let mut found = Vec::new();
        for (at, term) in self.terms.iter_mut().enumerate() {
            let Some(OwnedTerm { term, memo, .. }) = term else { continue };
            if memo.get(shape, |shape| term.pods.matches(&shape.namespace, labels, &shape.labels)) {
                found.push(at);
            }
        }
        found
    }

    pub(crate) fn namespaces_changed(&mut self) {
        for term in self.terms.iter_mut().flatten() {
            if term.term.pods.namespace_selector.is_some() {
                term.memo.clear();
            }
        }
    }

    /// Counts a pod of this shape that was added to or removed from a node.
    pub(crate) fn count(
        &mut self,
        topologies: &mut Topologies,
        places: &[Place],
        shape: &Shape,
        at: NodeIx,
        sign: i64,
    ) {
        if shape.affinity.is_empty() && shape.anti_affinity.is_empty() {
            return;
        }
        if !self.shapes.contains_key(&shape.serial) {
            let parts = self.parts(topologies, places, shape);
            self.shapes.insert(shape.serial, (parts, 0));
        }
        let Some((parts, pods)) = self.shapes.get_mut(&shape.serial) else { return };
        *pods = pods.saturating_add_signed(if sign > 0 { 1 } else { -1 });
        let mut unowned = Vec::new();
        for part in parts.iter() {
            let Some(term) = &mut self.terms[part.term] else { continue };
            term.owners = term.owners.saturating_add_signed(if sign > 0 { 1 } else { -1 });
            if let Some(domain) = topologies.domain(term.topology, at) {
                if term.sums.len() <= domain as usize {
                    term.sums.resize(domain as usize + 1, 0);
                }
                term.sums[domain as usize] += sign * part.adds;
            }
            if term.owners == 0 {
                unowned.push(part.term);
            }
        }
        if *pods == 0 {
            self.shapes.remove(&shape.serial);
        }
        for at in unowned {
            if let Some(term) = self.terms[at].take() {
                self.by_name.remove(&term.name);
            }
        }
    }

    fn parts(&mut self, topologies: &mut Topologies, places: &[Place], shape: &Shape) -> Vec<Part> {
        let preferred = |weight: i64| (Demand::Preferred, weight);
        let near = shape.affinity.preferred.iter().map(|p| (&p.term, preferred(p.weight)));
        let apart = shape.anti_affinity.preferred.iter().map(|p| (&p.term, preferred(-p.weight)));
        let required = shape.affinity.required.iter().map(|term| (term, (Demand::Required, 1)));
        let anti = shape.anti_affinity.required.iter().map(|term| (term, (Demand::RequiredAnti, 1)));
        let all: Vec<_> = near.chain(apart).chain(required).chain(anti).collect();
        let mut parts = Vec::with_capacity(all.len());
        for (term, (demand, adds)) in all {
            parts.push(Part { term: self.at(topologies, places, term, demand), adds });
        }
        parts
    }

    fn at(&mut self, topologies: &mut Topologies, places: &[Place], term: &PodTerm, demand: Demand) -> usize {
        let name = format!("{demand:?} {term:?}");
        if let Some(at) = self.by_name.get(&name) {
            return *at;
        }
        let owned = OwnedTerm {
            term: term.clone(),
            demand,
            topology: topologies.of(&term.topology_key, places),
            sums: Vec::new(),
            owners: 0,
            memo: Memo::default(),
            name: name.clone(),
        };
        let at = self.terms.iter().position(Option::is_none).unwrap_or_else(|| {
            self.terms.push(None);
            self.terms.len() - 1
        });
        self.terms[at] = Some(owned);
        self.by_name.insert(name, at);
        at
    }
}
