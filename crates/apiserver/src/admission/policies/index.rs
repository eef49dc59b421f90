//! The hooks of a kind, found by the resource of a request.
//!
//! *Invariant:* a request that matches a hook's rules finds it, in its own or an equivalent resource. What it finds beyond
//! that is sorted out by the rules.

use std::collections::HashMap;

use corten_api::Str;

use super::hook::{Evaluator, Hook};
use crate::admission::Attributes;

/// The position of a hook, and the operations that it concerns.
type Found = (u32, u8);

pub(in crate::admission) struct Index<E> {
    hooks: Vec<Hook<E>>,
    by_resource: HashMap<Str, HashMap<Str, Vec<Found>>>,
    /// Hooks with rules for any resource or group.
    any: Vec<Found>,
}

impl<E: Evaluator> Index<E> {
    pub(super) fn new(hooks: Vec<Hook<E>>) -> Index<E> {
        let mut index = Index { hooks: Vec::new(), by_resource: HashMap::new(), any: Vec::new() };
        for (at, hook) in (0u32..).zip(&hooks) {
            for (resource, operations) in hook.policy.criteria.interests() {
                let list = match resource {
                    Some((group, name)) => {
                        index.by_resource.entry(group).or_default().entry(name).or_default()
                    }
                    None => &mut index.any,
                };
                match list.last_mut() {
                    Some((last, known)) if *last == at => *known |= operations,
                    _ => list.push((at, operations)),
                }
            }
        }
        index.hooks = hooks;
        index
    }

    pub(super) fn is_empty(&self) -> bool {
        self.hooks.is_empty()
    }

    /// The hooks that a request may concern, in their order.
    pub(in crate::admission) fn candidates(&self, attributes: &Attributes<'_>) -> Vec<&Hook<E>> {
        let bit = attributes.operation.bit();
        let mut found: Vec<u32> = Vec::new();
        let mut take = |list: &[Found]| {
            found.extend(list.iter().filter(|(_, operations)| operations & bit != 0).map(|(at, _)| *at));
        };
        take(&self.any);
        if !self.by_resource.is_empty() {
            let own = &attributes.call.served;
            let of = |group: &str, name: &str| self.by_resource.get(group).and_then(|names| names.get(name));
            if let Some(list) = of(own.group(), own.name()) {
                take(list);
            }
            for other in attributes.backend().catalog.equivalents(own) {
                let is_same = other.group() == own.group() && other.name() == own.name();
                if let Some(list) = of(other.group(), other.name()).filter(|_| !is_same) {
                    take(list);
                }
            }
        }
        found.sort_unstable();
        found.dedup();
        found.into_iter().filter_map(|at| self.hooks.get(at as usize)).collect()
    }
}
