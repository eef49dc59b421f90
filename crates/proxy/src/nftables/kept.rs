//! The contents of the table, and the changes that bring them to the desired state.
//!
//! Two Services may claim the same entry: the one whose name sorts first owns it, and the other after it is deleted.
//!
//! *Invariants:* the cost of a change never depends on the size of the table. Elements that a packet in flight may still refer to
//! are kept for a while: endpoints get new numbers, or replace others in one step, and old numbers and empty chains are
//! removed later.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::net::SocketAddr;
use std::time::Duration;

use corten_client::Key;
use corten_net::Protocol;
use corten_net::nftables::Verdict;

use super::numbers::{Map, Numbers, Pool};
use super::service::{Entry, Rule, Wanted};

#[derive(Debug, Clone)]
pub struct Kept {
    services: HashMap<Key, Wanted>,
    /// The Services that claim each entry.
    entries: HashMap<Entry, BTreeMap<Key, Option<Verdict>>>,
    /// The numbers that each chain selects from, and their addresses.
    numbers: HashMap<String, (Numbers, Vec<SocketAddr>)>,
    addresses: Pool,
    endpoint_chains: Pool,
    stale: Stale,
}

impl Default for Kept {
    fn default() -> Kept {
        Kept {
            services: HashMap::new(),
            entries: HashMap::new(),
            numbers: HashMap::new(),
            addresses: Pool::new(false),
            endpoint_chains: Pool::new(true),
            stale: Stale::default(),
        }
    }
}

/// Chains, numbers and maps that nothing refers to any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stale {
    pub chains: BTreeSet<String>,
    pub maps: BTreeSet<Map>,
    pub endpoints: Vec<Numbers>,
}

/// A rule whose endpoints have numbers if there are several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    Plain(Rule),
    RedirectAny(Protocol, Numbers),
    GotoAny(Numbers),
}

/// The changes of the table, in the order in which they have to be made.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub flushed: Vec<String>,
    pub forgotten_sets: Vec<String>,
    pub removed: Vec<Entry>,
    pub removed_numbers: Vec<Numbers>,
    pub new_sets: Vec<(String, Duration)>,
    pub new_maps: Vec<Map>,
    pub new_chains: Vec<String>,
    pub numbered: Vec<(Numbers, Vec<SocketAddr>)>,
    /// Numbers whose addresses change.
    pub renumbered: Vec<(Map, u32, SocketAddr)>,
    pub numbered_chains: Vec<(Numbers, Vec<String>)>,
    pub rules: Vec<(String, Placed)>,
    pub added: Vec<(Entry, Option<Verdict>)>,
}

/// The entries before the first Service changed.
type Before = HashMap<Entry, Option<Option<Verdict>>>;

impl Kept {
    /// Sets the desired contents of some Services, and returns the changes.
    pub fn change(&mut self, services: impl IntoIterator<Item = (Key, Wanted)>) -> Changes {
        let mut changes = Changes::default();
        let mut before = Before::new();
        for (service, wanted) in services {
            let had = self.services.remove(&service).unwrap_or_default();
            self.change_entries(&service, &had, &wanted, &mut before);
            change_sets(&had, &wanted, &mut changes);
            self.change_chains(&had, &wanted, &mut changes);
            if wanted != Wanted::default() {
                self.services.insert(service, wanted);
            }
        }
        self.settle(before, &mut changes);
        changes
    }

    /// The changes that fill an empty table.
    pub fn everything(&mut self) -> Changes {
        let services = std::mem::take(self).services;
        self.change(services)
    }

    /// Returns and clears the stale elements, which may be removed a while after a change.
    pub fn take_stale(&mut self) -> Stale {
        std::mem::take(&mut self.stale)
    }

    pub fn has_stale(&self) -> bool {
        self.stale != Stale::default()
    }

    fn change_entries(&mut self, service: &Key, had: &Wanted, wanted: &Wanted, before: &mut Before) {
        for (entry, verdict) in &had.entries {
            if wanted.entries.get(entry) != Some(verdict) {
                self.change_entry(service, *entry, wanted.entries.get(entry), before);
            }
        }
        for (entry, verdict) in &wanted.entries {
            if !had.entries.contains_key(entry) {
                self.change_entry(service, *entry, Some(verdict), before);
            }
        }
    }

    fn change_entry(
        &mut self,
        service: &Key,
        entry: Entry,
        wanted: Option<&Option<Verdict>>,
        before: &mut Before,
    ) {
        let who = self.entries.entry(entry).or_default();
        before.entry(entry).or_insert_with(|| who.values().next().cloned());
        match wanted {
            Some(verdict) => drop(who.insert(service.clone(), verdict.clone())),
            None => drop(who.remove(service)),
        }
        if who.is_empty() {
            self.entries.remove(&entry);
        }
    }

    /// Adds the entries that differ after all Services have changed.
    fn settle(&self, before: Before, changes: &mut Changes) {
        for (entry, before) in before {
            let after = self.entries.get(&entry).and_then(|who| who.values().next());
            if before.as_ref() != after {
                changes.removed.extend(before.map(|_| entry));
                changes.added.extend(after.map(|verdict| (entry, verdict.clone())));
            }
        }
        changes.removed.sort_unstable();
        changes.added.sort_unstable();
    }

    fn change_chains(&mut self, had: &Wanted, wanted: &Wanted, changes: &mut Changes) {
        for (chain, rules) in &had.chains {
            let kept = wanted.chains.get(chain);
            if kept == Some(rules) || kept.is_some_and(|kept| self.renumber(chain, rules, kept, changes)) {
                continue;
            }
            changes.flushed.push(chain.clone());
            if let Some((numbers, _)) = self.numbers.remove(chain) {
                self.release(numbers, changes);
            }
            if !wanted.chains.contains_key(chain) {
                self.stale.chains.insert(chain.clone());
            }
        }
        for (chain, rules) in &wanted.chains {
            match had.chains.get(chain) {
                Some(had) if had == rules || self.numbers.contains_key(chain) => continue,
                Some(_) => {}
                None => {
                    self.stale.chains.remove(chain);
                    changes.new_chains.push(chain.clone());
                }
            }
            for rule in rules {
                let placed = self.place(chain, rule, changes);
                changes.rules.push((chain.clone(), placed));
            }
        }
    }

    /// Replaces endpoints in place if their number is the same: the new ones get the numbers of the removed ones, and no rule
    /// changes.
    fn renumber(&mut self, chain: &str, had: &[Rule], wanted: &[Rule], changes: &mut Changes) -> bool {
        let ([Rule::Redirect(before, had)], [Rule::Redirect(after, wanted)]) = (had, wanted) else {
            return false;
        };
        let Some((numbers, addresses)) = self.numbers.get_mut(chain) else { return false };
        if before != after || had.len() != wanted.len() {
            return false;
        }
        let staying: HashSet<SocketAddr> = wanted.iter().copied().collect();
        let known: HashSet<SocketAddr> = had.iter().copied().collect();
        let mut new = wanted.iter().copied().filter(|address| !known.contains(address));
        for (number, address) in (numbers.first..).zip(addresses) {
            if !staying.contains(address)
                && let Some(other) = new.next()
            {
                *address = other;
                changes.renumbered.push((numbers.map, number, other));
            }
        }
        true
    }

    /// Assigns numbers to the endpoints of a rule.
    fn place(&mut self, chain: &str, rule: &Rule, changes: &mut Changes) -> Placed {
        match rule {
            Rule::Redirect(protocol, targets) if targets.len() > 1 => {
                let numbers = self.number(chain, targets.len(), targets.clone(), changes);
                changes.numbered.push((numbers, targets.clone()));
                Placed::RedirectAny(*protocol, numbers)
            }
            Rule::GotoAny(chains) if chains.len() > 1 => {
                let numbers = self.number(chain, chains.len(), Vec::new(), changes);
                changes.numbered_chains.push((numbers, chains.clone()));
                Placed::GotoAny(numbers)
            }
            rule => Placed::Plain(rule.clone()),
        }
    }

    /// Allocates numbers for addresses, or for chains if there are no addresses.
    fn number(
        &mut self,
        chain: &str,
        count: usize,
        addresses: Vec<SocketAddr>,
        changes: &mut Changes,
    ) -> Numbers {
        let pool = if addresses.is_empty() { &mut self.endpoint_chains } else { &mut self.addresses };
        let (numbers, is_new) = pool.allocate(count);
        if is_new {
            changes.new_maps.push(numbers.map);
        }
        self.numbers.insert(chain.to_owned(), (numbers, addresses));
        numbers
    }

    /// Releases numbers. Those of chains are removed at once, because the chains could not be deleted before them; those of
    /// addresses are kept for packets in flight.
    fn release(&mut self, numbers: Numbers, changes: &mut Changes) {
        let pool = if numbers.map.chains { &mut self.endpoint_chains } else { &mut self.addresses };
        if pool.release(numbers) {
            self.stale.maps.insert(numbers.map);
        }
        if numbers.map.chains {
            changes.removed_numbers.push(numbers);
        } else {
            self.stale.endpoints.push(numbers);
        }
    }
}

/// The timeout of a set cannot be changed, so the set is created again.
fn change_sets(had: &Wanted, wanted: &Wanted, changes: &mut Changes) {
    let gone = had.affinity.iter().filter(|(set, timeout)| wanted.affinity.get(*set) != Some(timeout));
    changes.forgotten_sets.extend(gone.map(|(set, _)| set.clone()));
    let new = wanted.affinity.iter().filter(|(set, timeout)| had.affinity.get(*set) != Some(timeout));
    changes.new_sets.extend(new.map(|(set, timeout)| (set.clone(), *timeout)));
}

impl Changes {
    pub fn is_empty(&self) -> bool {
        *self == Changes::default()
    }
}

#[cfg(test)]
mod tests;
