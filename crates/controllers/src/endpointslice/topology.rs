//! Topology hints: each zone uses as many endpoints as its share of the CPUs.
//!
//! Endpoints are hinted to their own zone, and as few as possible to others, so that no zone's endpoints are overloaded
//! by more than a fifth. Where that is impossible there are no hints, and every zone uses every endpoint. Everything in
//! here is per address type.

use std::collections::BTreeMap;

use corten_api::quantity::Quantity;
use corten_api::{Str, Value};
use corten_client::{Cache, Object};

use super::endpoint::{Endpoint, Hints};
use super::pack::Packed;
use super::slice::{Draft, Slice};
use crate::conditions;

/// The overload that an endpoint may have to bear.
const OVERLOAD: f64 = 0.2;

pub(super) const ZONE: &str = "topology.kubernetes.io/zone";
const NOT_COUNTED: [&str; 2] = ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Each zone's share of all CPUs.
pub(super) type Shares = BTreeMap<Str, f64>;

pub(super) fn zone(node: &Object) -> Option<Str> {
    let zone = node.labels.get(ZONE).and_then(Value::as_str).filter(|zone| !zone.is_empty());
    zone.map(Str::new)
}

/// The shares of the zones of ready nodes; `None` if they cannot be computed.
pub(super) fn shares(nodes: &Cache) -> Option<Shares> {
    let mut processors: BTreeMap<Str, i64> = BTreeMap::new();
    for node in nodes.list("") {
        if NOT_COUNTED.iter().any(|label| node.labels.contains_key(label)) {
            continue;
        }
        let tree = node.tree();
        if conditions::is_true(&tree, "Ready") {
            *processors.entry(zone(&node)?).or_default() += processors_of(&tree)?;
        }
    }
    of_processors(&processors)
}

fn processors_of(node: &Value) -> Option<i64> {
    let quantity = Quantity::parse(node.str_at(&["status", "allocatable", "cpu"])?).ok()?;
    (!quantity.is_zero()).then(|| quantity.milli_value())
}

pub(super) fn of_processors(processors: &BTreeMap<Str, i64>) -> Option<Shares> {
    let total: i64 = processors.values().sum();
    let is_known = total > 0 && processors.len() >= 2;
    is_known.then(|| processors.iter().map(|(z, own)| (z.clone(), *own as f64 / total as f64)).collect())
}

/// The number of endpoints that a zone may have.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Allocation {
    least: usize,
    most: usize,
    best: f64,
}

type Counts = BTreeMap<Str, usize>;

/// Hints every ready endpoint to a zone, rewriting slices only if they have to be. Returns the reason if that is
/// impossible.
pub(super) fn hint(packed: &mut Packed, shares: Option<&Shares>) -> Result<(), String> {
    let result = try_hint(packed, shares);
    if result.is_err() {
        remove(packed);
    }
    result
}

fn try_hint(packed: &mut Packed, shares: Option<&Shares>) -> Result<(), String> {
    let unchanged: Vec<_> = std::mem::take(&mut packed.unchanged)
        .into_iter()
        .map(|slice| {
            let endpoints = slice.endpoints();
            (slice, endpoints)
        })
        .collect();
    let drafted = packed.create.iter().chain(&packed.update).flat_map(|draft| &draft.endpoints);
    let known = unchanged.iter().flat_map(|(_, endpoints)| endpoints);
    let ready = drafted.chain(known).filter(|endpoint| endpoint.is_ready()).count();
    let allocations = match allocations(shares, ready) {
        Ok(allocations) => allocations,
        Err(why) => {
            packed.unchanged = unchanged.into_iter().map(|(slice, _)| slice).collect();
            return Err(why);
        }
    };
    let mut counts = Counts::new();
    for (slice, endpoints) in unchanged {
        match fitting_hints(&endpoints, &counts, &allocations) {
            Some(more) => {
                for (zone, count) in more {
                    *counts.entry(zone).or_default() += count;
                }
                packed.unchanged.push(slice);
            }
            None => packed.update.push(redraft(slice, endpoints)),
        }
    }
    let mut drafted: Vec<&mut Endpoint> = drafts(packed).flat_map(|draft| &mut draft.endpoints).collect();
    for endpoint in &mut drafted {
        endpoint.hints = Hints::default();
        if endpoint.is_ready() {
            let Some(zone) = endpoint.zone.clone() else {
                return Err("One or more endpoints do not have a zone specified".to_owned());
            };
            *counts.entry(zone.clone()).or_default() += 1;
            endpoint.hints.zones = vec![zone];
        }
    }
    redistribute(&mut drafted, &mut counts, &allocations);
    if counts.is_empty() { Err("No hints allocated for zones".to_owned()) } else { Ok(()) }
}

fn drafts(packed: &mut Packed) -> impl Iterator<Item = &mut Draft> {
    packed.create.iter_mut().chain(&mut packed.update)
}

fn redraft(slice: Slice, endpoints: Vec<Endpoint>) -> Draft {
    let view = slice.view.clone();
    Draft { of: Some(slice), address_type: view.address_type.clone(), ports: view.ports.clone(), endpoints }
}

/// Removes all hints.
pub(super) fn remove(packed: &mut Packed) {
    for endpoint in drafts(packed).flat_map(|draft| &mut draft.endpoints) {
        endpoint.hints = Hints::default();
    }
    let (hinted, unchanged) = std::mem::take(&mut packed.unchanged).into_iter().partition(Slice::has_hints);
    packed.unchanged = unchanged;
    for slice in hinted {
        let mut endpoints = slice.endpoints();
        endpoints.iter_mut().for_each(|endpoint| endpoint.hints = Hints::default());
        packed.update.push(redraft(slice, endpoints));
    }
}

fn allocations(shares: Option<&Shares>, endpoints: usize) -> Result<BTreeMap<Str, Allocation>, String> {
    let Some(shares) = shares else {
        return Err(
            "Insufficient Node information: allocatable CPU or zone not specified on one or more nodes"
                .to_owned(),
        );
    };
    let counted = |why: &str| Err(format!("{why} ({endpoints} endpoints, {} zones)", shares.len()));
    if shares.len() > endpoints {
        return counted("Insufficient number of endpoints");
    }
    let least = |share: f64| (share * endpoints as f64 * (1.0 / (1.0 + OVERLOAD))).ceil() as usize;
    let total: usize = shares.values().map(|share| least(*share)).sum();
    let Some(spare) = endpoints.checked_sub(total) else {
        return counted(
            "Unable to allocate minimum required endpoints to each zone without exceeding overload threshold",
        );
    };
    let allocation = |share: f64| {
        let least = least(share);
        Allocation { least, most: least + spare, best: (share * endpoints as f64).max(least as f64) }
    };
    Ok(shares.iter().map(|(zone, share)| (zone.clone(), allocation(*share))).collect())
}

/// The hints of a slice by zone, if they can stay as they are.
fn fitting_hints(
    endpoints: &[Endpoint],
    counts: &Counts,
    allocations: &BTreeMap<Str, Allocation>,
) -> Option<Counts> {
    let mut own = Counts::new();
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.is_ready()) {
        if endpoint.hints.zones.is_empty() {
            return None;
        }
        for zone in &endpoint.hints.zones {
            *own.entry(zone.clone()).or_default() += 1;
        }
    }
    let others = |zone: &Str| counts.get(zone).copied().unwrap_or(0);
    let fits = |(zone, count): (&Str, &usize)| {
        allocations.get(zone).is_some_and(|allocation| count + others(zone) <= allocation.most)
    };
    own.iter().all(fits).then_some(own)
}

/// Hints endpoints of zones with too many to zones with too few.
fn redistribute(
    endpoints: &mut [&mut Endpoint],
    counts: &mut Counts,
    allocations: &BTreeMap<Str, Allocation>,
) {
    let (mut giving, mut receiving) = surplus_and_lack(allocations, counts);
    for endpoint in endpoints.iter_mut().filter(|endpoint| endpoint.is_ready()) {
        let Some(from) = endpoint.zone.clone() else { continue };
        let Some(to) = receiving.keys().next().cloned() else { return };
        if take_one(&mut giving, &from) {
            take_one(&mut receiving, &to);
            endpoint.hints.zones = vec![to.clone()];
            take_one(counts, &from);
            *counts.entry(to).or_default() += 1;
        }
    }
}

/// Takes one from a zone, if it has one; a zone without any is removed.
fn take_one(counts: &mut Counts, zone: &Str) -> bool {
    let Some(count) = counts.get_mut(zone) else { return false };
    *count -= 1;
    if *count == 0 {
        counts.remove(zone);
    }
    true
}

/// The number of endpoints that zones should give, and that others should receive.
fn surplus_and_lack(allocations: &BTreeMap<Str, Allocation>, counts: &Counts) -> (Counts, Counts) {
    let has = |zone: &Str| counts.get(zone).copied().unwrap_or(0) as f64;
    let mut over: BTreeMap<Str, f64> =
        allocations.iter().map(|(zone, allocation)| (zone.clone(), has(zone) - allocation.best)).collect();
    let mut under: BTreeMap<Str, f64> = over.iter().map(|(zone, over)| (zone.clone(), -over)).collect();
    let (mut giving, mut receiving) = (Counts::new(), Counts::new());
    while let (Some((from, give)), Some((to, get))) = (most(&mut over), most(&mut under)) {
        // A move is worth it for a whole endpoint on one side and half of one on the other.
        if (*give < 1.0 && *get < 1.0) || *give < 0.5 || *get < 0.5 {
            break;
        }
        *give -= 1.0;
        *get -= 1.0;
        *giving.entry(from).or_default() += 1;
        *receiving.entry(to).or_default() += 1;
    }
    (giving, receiving)
}

fn most(zones: &mut BTreeMap<Str, f64>) -> Option<(Str, &mut f64)> {
    let most = zones.iter_mut().max_by(|a, b| a.1.total_cmp(b.1).then(b.0.cmp(a.0)));
    most.map(|(zone, much)| (zone.clone(), much))
}
