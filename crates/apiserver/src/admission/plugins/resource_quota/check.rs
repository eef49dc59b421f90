//! The check of a demand against its quotas. Pure.

use std::collections::{BTreeMap, BTreeSet};

use corten_api::{Str, Value, meta};
use corten_quota::{Item, Measure, ResourceList, Scope, must_be_stated, resource_list};

use super::usage::Demand;

/// A quota and its current charges.
#[derive(Debug, Clone)]
pub(super) struct Quota {
    pub name: String,
    hard: ResourceList,
    pub used: ResourceList,
    scopes: Vec<Scope>,
    /// True if a demand was charged since it was read.
    pub charged: bool,
}

impl Quota {
    pub(super) fn read(quota: &Value) -> Quota {
        Quota {
            name: meta::name(quota).to_owned(),
            hard: resource_list::read(quota.at(&["status", "hard"])),
            used: resource_list::read(quota.at(&["status", "used"])),
            scopes: Scope::all(quota),
            charged: false,
        }
    }

    /// The limits of the quota that apply to a demand.
    fn restricts<'a>(&'a self, measure: &'a Measure) -> impl Iterator<Item = &'a Str> {
        self.hard.keys().filter(|name| measure.knows(name))
    }

    fn applies_to(&self, measure: &Measure, item: &Item) -> bool {
        self.restricts(measure).next().is_some() && self.scopes.iter().all(|s| s.holds(&item.facts))
    }

    /// Refuses a demand if the usage of the quota is not known yet.
    fn check_ready(&self, demand: &Demand) -> Result<(), String> {
        let restricted: BTreeSet<&str> = self.restricts(&demand.measure).map(Str::as_str).collect();
        if let Some(missing) = missing(&demand.new, &restricted) {
            return Err(format!("failed quota: {}: must specify {missing}", self.name));
        }
        if restricted.iter().any(|name| !self.used.contains_key(*name)) {
            let names: Vec<&str> = restricted.into_iter().collect();
            return Err(format!("status unknown for quota: {}, resources: {}", self.name, names.join(",")));
        }
        Ok(())
    }

    /// The quota with more usage, or the message about exceeded limits.
    fn charge(&self, more: &ResourceList, has_happened: bool) -> Result<Quota, String> {
        let mut charged = self.clone();
        let mut requested = more.clone();
        requested.retain(|name, _| self.hard.contains_key(name));
        resource_list::add(&mut charged.used, &requested);
        charged.charged |= !requested.is_empty();
        let exceeds = |name: &Str| {
            charged.used.get(name).zip(self.hard.get(name)).is_some_and(|(u, h)| u.quantity > h.quantity)
        };
        let exceeded: Vec<&Str> = requested.keys().filter(|name| exceeds(name)).collect();
        if has_happened || exceeded.is_empty() {
            return Ok(charged);
        }
        let shown = |list: &ResourceList| {
            let amounts = exceeded.iter().filter_map(|name| Some((name, list.get(*name)?)));
            amounts.map(|(name, amount)| format!("{name}={}", amount.text())).collect::<Vec<_>>().join(",")
        };
        Err(format!(
            "exceeded quota: {}, requested: {}, used: {}, limited: {}",
            self.name,
            shown(&requested),
            shown(&self.used),
            shown(&self.hard)
        ))
    }
}

/// Charges a demand to all its quotas, or to none and returns the reason.
pub(super) fn check(quotas: &mut Vec<Quota>, demand: &Demand) -> Result<(), String> {
    let about: Vec<usize> =
        (0..quotas.len()).filter(|i| quotas[*i].applies_to(&demand.measure, &demand.new)).collect();
    for i in &about {
        quotas[*i].check_ready(demand)?;
    }
    let negative: Vec<&str> =
        demand.new.usage.iter().filter(|(_, a)| a.quantity.is_negative()).map(|(n, _)| n.as_str()).collect();
    if !negative.is_empty() {
        return Err(format!("quota usage is negative for resource(s): {}", negative.join(",")));
    }
    let nothing = ResourceList::new();
    let mut charged = quotas.clone();
    for i in about {
        // A quota that the old object did not count against is charged for all of the new one.
        let old = demand.old.as_ref().filter(|old| quotas[i].applies_to(&demand.measure, old));
        let more = resource_list::increase(&demand.new.usage, old.map_or(&nothing, |old| &old.usage));
        charged[i] = quotas[i].charge(&more, demand.has_happened)?;
    }
    if !demand.dry_run {
        *quotas = charged;
    }
    Ok(())
}

/// The containers that do not specify limited resources, by resource.
fn missing(item: &Item, restricted: &BTreeSet<&str>) -> Option<String> {
    let mut missing: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    let must_state: Vec<&str> = restricted.iter().copied().filter(|name| must_be_stated(name)).collect();
    for (container, stated) in &item.containers {
        for name in must_state.iter().filter(|name| !stated.contains(name)) {
            missing.entry(name).or_default().insert(container);
        }
    }
    let message = |(name, containers): (&str, BTreeSet<&str>)| {
        format!("{name} for: {}", containers.into_iter().collect::<Vec<_>>().join(","))
    };
    let messages: Vec<String> = missing.into_iter().map(message).collect();
    (!messages.is_empty()).then(|| messages.join("; "))
}
