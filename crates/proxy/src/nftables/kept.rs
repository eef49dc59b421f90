//! What is in the table, and what has to change for it to be what Services want now.
//!
//! Two Services may want the same entry: the one whose name comes first has it, and the other when that one is gone.
//!
//! *Invariants:* what changes depends on what changed, never on how much there is. What a packet on its way may still
//! look for stays a while: endpoints are given new numbers rather than others' (until all are used up and the table is
//! made anew), and old ones and empty chains are removed later.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::net::SocketAddr;
use std::time::Duration;

use corten_client::Key;
use corten_net::Protocol;
use corten_net::nftables::Verdict;

use super::service::{Entry, Rule, Wanted};

#[derive(Debug, Clone, Default)]
pub struct Kept {
    services: HashMap<Key, Wanted>,
    /// Who wants each entry.
    entries: HashMap<Entry, BTreeMap<Key, Option<Verdict>>>,
    /// The numbers that chains pick from.
    numbers: HashMap<String, Numbers>,
    next: u32,
    /// There were not enough numbers: what was said to change is not to be written.
    is_exhausted: bool,
    stale: Stale,
}

/// What nothing leads to any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stale {
    pub chains: BTreeSet<String>,
    pub endpoints: Vec<Numbers>,
}

/// Consecutive numbers of endpoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Numbers {
    pub first: u32,
    pub count: u32,
    /// They stand for chains, rather than for addresses.
    pub chains: bool,
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
    pub new_chains: Vec<String>,
    pub numbered: Vec<(u32, SocketAddr)>,
    pub numbered_chains: Vec<(u32, String)>,
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

    /// Whether there were not enough numbers for the last change: everything has to be written anew.
    pub fn is_exhausted(&self) -> bool {
        self.is_exhausted
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
            if wanted.chains.get(chain) == Some(rules) {
                continue;
            }
            changes.flushed.push(chain.clone());
            match self.numbers.remove(chain) {
                Some(numbers) if numbers.chains => changes.removed_numbers.push(numbers),
                numbers => self.stale.endpoints.extend(numbers),
            }
            if !wanted.chains.contains_key(chain) {
                self.stale.chains.insert(chain.clone());
            }
        }
        for (chain, rules) in &wanted.chains {
            if had.chains.get(chain) == Some(rules) {
                continue;
            }
            if !had.chains.contains_key(chain) {
                self.stale.chains.remove(chain);
                changes.new_chains.push(chain.clone());
            }
            for rule in rules {
                let placed = self.place(chain, rule, changes);
                changes.rules.push((chain.clone(), placed));
            }
        }
    }

    /// Gives endpoints their numbers.
    fn place(&mut self, chain: &str, rule: &Rule, changes: &mut Changes) -> Placed {
        match rule {
            Rule::Redirect(protocol, targets) if targets.len() > 1 => {
                let numbers = self.number(chain, targets.len(), false);
                changes.numbered.extend((numbers.first..).zip(targets.iter().copied()));
                Placed::RedirectAny(*protocol, numbers)
            }
            Rule::GotoAny(chains) if chains.len() > 1 => {
                let numbers = self.number(chain, chains.len(), true);
                changes.numbered_chains.extend((numbers.first..).zip(chains.iter().cloned()));
                Placed::GotoAny(numbers)
            }
            rule => Placed::Plain(rule.clone()),
        }
    }

    fn number(&mut self, chain: &str, count: usize, chains: bool) -> Numbers {
        let count = count as u32;
        let (first, next) = match self.next.checked_add(count) {
            Some(next) => (self.next, next),
            None => {
                self.is_exhausted = true;
                (0, count)
            }
        };
        self.next = next;
        let numbers = Numbers { first, count, chains };
        self.numbers.insert(chain.to_owned(), numbers);
        numbers
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
