//! What is in the table, and what has to change for it to be what Services want now.
//!
//! Two Services may want the same entry: the one whose name comes first has it, and the other when that one is gone.
//!
//! *Invariants:* what changes depends on what changed, never on how much there is. What a packet on its way may still
//! look for stays a while: endpoints are given new numbers, or take the place of others in one step, and old numbers and
//! empty chains are removed later.

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
    /// Who wants each entry.
    entries: HashMap<Entry, BTreeMap<Key, Option<Verdict>>>,
    /// The numbers that chains pick from, and the addresses they stand for.
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

/// What nothing leads to any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stale {
    pub chains: BTreeSet<String>,
    pub maps: BTreeSet<Map>,
    pub endpoints: Vec<Numbers>,
}

/// A rule whose endpoints have numbers, if it has several.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    Plain(Rule),
    RedirectAny(Protocol, Numbers),
    GotoAny(Numbers),
}

/// What changes, in the order in which it has to be done.
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
    /// Numbers that stand for other addresses than before.
    pub renumbered: Vec<(Map, u32, SocketAddr)>,
    pub numbered_chains: Vec<(Numbers, Vec<String>)>,
    pub rules: Vec<(String, Placed)>,
    pub added: Vec<(Entry, Option<Verdict>)>,
}

/// What entries were before the first Service changed.
type Before = HashMap<Entry, Option<Option<Verdict>>>;

impl Kept {
    /// What changes when Services want something else.
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

    /// The same for every Service, in a table that is empty.
    pub fn everything(&mut self) -> Changes {
        let services = std::mem::take(self).services;
        self.change(services)
    }

    /// Takes what may be removed a while after a change.
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

    /// Entries of which something came of it in the end.
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
                self.give_back(numbers, changes);
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

    /// As many endpoints as before, but others: they take the numbers of those that are gone, and no rule changes.
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

    /// Gives endpoints their numbers.
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

    /// Numbers stand for addresses, or for chains if there are none.
    fn number(
        &mut self,
        chain: &str,
        count: usize,
        addresses: Vec<SocketAddr>,
        changes: &mut Changes,
    ) -> Numbers {
        let pool = if addresses.is_empty() { &mut self.endpoint_chains } else { &mut self.addresses };
        let (numbers, is_new) = pool.take(count);
        if is_new {
            changes.new_maps.push(numbers.map);
        }
        self.numbers.insert(chain.to_owned(), (numbers, addresses));
        numbers
    }

    /// Chains that numbers stand for could not go before the numbers; addresses stay for packets on their way.
    fn give_back(&mut self, numbers: Numbers, changes: &mut Changes) {
        let pool = if numbers.map.chains { &mut self.endpoint_chains } else { &mut self.addresses };
        if pool.give_back(numbers) {
            self.stale.maps.insert(numbers.map);
        }
        if numbers.map.chains {
            changes.removed_numbers.push(numbers);
        } else {
            self.stale.endpoints.push(numbers);
        }
    }
}

/// A set cannot change how long it remembers: it is made anew.
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
