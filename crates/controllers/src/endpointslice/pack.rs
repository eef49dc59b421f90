//! Packs endpoints into slices with as few writes as possible.
//!
//! Endpoints stay in their slices. New ones go into slices that have to be written anyway, the fullest first; the rest
//! goes into one other slice, if it fits there, and else into new ones. Slices are never rebalanced: a few half empty
//! ones cost less than writing them again.

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};

use corten_api::{Str, Value};

use super::endpoint::{Endpoint, Print};
use super::slice::{self, Draft, Port, Slice};

/// Endpoints with the same ports.
#[derive(Debug, Default)]
pub(super) struct Group {
    pub(super) ports: Vec<Port>,
    pub(super) endpoints: Vec<(Print, Endpoint)>,
}

/// The slices of one address type after packing.
#[derive(Debug, Default)]
pub(super) struct Packed {
    pub(super) create: Vec<Draft>,
    pub(super) update: Vec<Draft>,
    pub(super) delete: Vec<Slice>,
    pub(super) unchanged: Vec<Slice>,
}

/// The rules of packing.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) service: &'a Value,
    pub(super) address_type: &'a Str,
    /// The most endpoints in a slice.
    pub(super) most: usize,
    /// True if the endpoints' hints are already decided.
    pub(super) hinted: bool,
}

/// A slice and the endpoints it keeps.
struct Kept {
    slice: Slice,
    endpoints: Vec<usize>,
}

/// Packs the endpoints of one group into the slices with its ports, and into new ones.
pub(super) fn pack(packed: &mut Packed, group: &Group, slices: Vec<Slice>, rules: Rules<'_>) {
    let mut left: HashMap<u64, usize> =
        group.endpoints.iter().enumerate().map(|(i, (print, _))| (print.identity, i)).collect();
    let (mut changed, mut same) = (Vec::new(), Vec::new());
    for slice in slices {
        let mut kept = Kept { endpoints: Vec::with_capacity(slice.view.endpoints.len()), slice };
        let is_changed = keep(&mut kept, &mut left, group, rules);
        if is_changed && kept.endpoints.is_empty() {
            packed.delete.push(kept.slice);
        } else if is_changed || !slice::is_labelled(&kept.slice, rules.service) {
            changed.push(kept);
        } else {
            same.push(kept);
        }
    }
    let mut left: Vec<_> = left.into_values().collect();
    left.sort_unstable();
    let mut left = VecDeque::from(left);
    changed.sort_by_key(|kept| Reverse(kept.endpoints.len()));
    for kept in &mut changed {
        fill(&mut kept.endpoints, &mut left, rules.most);
    }
    while !left.is_empty() {
        if let Some(at) = best_fit(&same, left.len(), rules.most) {
            let mut kept = same.remove(at);
            fill(&mut kept.endpoints, &mut left, rules.most);
            changed.push(kept);
        } else {
            let mut endpoints = Vec::new();
            fill(&mut endpoints, &mut left, rules.most);
            packed.create.push(draft(None, &endpoints, group, rules));
        }
    }
    packed.update.extend(changed.into_iter().map(|k| draft(Some(k.slice), &k.endpoints, group, rules)));
    packed.unchanged.extend(same.into_iter().map(|kept| kept.slice));
}

/// Removes the endpoints of a slice from those to be placed. Returns true if the slice has to be written.
fn keep(kept: &mut Kept, left: &mut HashMap<u64, usize>, group: &Group, rules: Rules<'_>) -> bool {
    let mut is_changed = false;
    for print in &kept.slice.view.endpoints {
        let Some(index) = left.remove(&print.identity) else {
            is_changed = true;
            continue;
        };
        let wanted = &group.endpoints[index].0;
        is_changed |= wanted.state != print.state || (rules.hinted && wanted.hints != print.hints);
        kept.endpoints.push(index);
    }
    is_changed
}

fn fill(endpoints: &mut Vec<usize>, left: &mut VecDeque<usize>, most: usize) {
    let count = most.saturating_sub(endpoints.len()).min(left.len());
    endpoints.extend(left.drain(..count));
}

/// The slice that is fullest after it has taken all of them.
fn best_fit(slices: &[Kept], count: usize, most: usize) -> Option<usize> {
    if count >= most {
        return None;
    }
    let fits = |kept: &Kept| kept.endpoints.len() + count <= most;
    let room = |kept: &Kept| most - count - kept.endpoints.len();
    let fitting = slices.iter().enumerate().filter(|(_, kept)| fits(kept) && room(kept) < most);
    fitting.min_by_key(|(_, kept)| room(kept)).map(|(index, _)| index)
}

fn draft(of: Option<Slice>, endpoints: &[usize], group: &Group, rules: Rules<'_>) -> Draft {
    Draft {
        of,
        address_type: rules.address_type.clone(),
        ports: group.ports.clone(),
        endpoints: endpoints.iter().map(|index| group.endpoints[*index].1.clone()).collect(),
    }
}

impl Packed {
    /// Replaces slices that would be deleted by new ones: one write instead of two.
    pub(super) fn recycle(&mut self, is_own: impl Fn(&Slice) -> bool) {
        let mut kept = Vec::new();
        for slice in self.delete.drain(..) {
            let takes = |draft: &Draft| draft.address_type == slice.view.address_type && is_own(&slice);
            match self.create.pop_if(|draft| takes(draft)) {
                Some(draft) => self.update.push(Draft { of: Some(slice), ..draft }),
                None => kept.push(slice),
            }
        }
        self.delete = kept;
    }
}
