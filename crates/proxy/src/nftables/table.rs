//! The table in the kernel: the one place where it is written.
//!
//! *Invariants:* a transaction that the kernel refuses changes nothing, and the next one replaces the table. The table of an
//! earlier process works until it is replaced, in one transaction, which keeps the clients in its affinity sets.

use std::collections::HashSet;
use std::io;
use std::time::Duration;

use corten_client::Key as ServiceKey;
use corten_net::namespace::Namespace;
use corten_net::nftables::{Element, Family, Key, Nftables, Transaction};

use super::kept::{Changes, Kept};
use super::names::AFFINITY;
use super::service::{Wanted, wanted};
use super::{TABLE, write};
use crate::backend::{Backend, RuleCount};
use crate::base::Base;
use crate::route::Routed;

#[derive(Debug)]
pub struct Table {
    nftables: Nftables,
    base: Base,
    kept: Kept,
    /// True if the kernel's table is known to equal `kept`.
    is_written: bool,
}

/// The names of affinity sets, with their clients and remaining timeouts.
type Affinities = Vec<(String, Vec<(Key, Duration)>)>;

impl Table {
    /// Writes nothing yet.
    pub fn open(namespace: &Namespace, base: Base) -> io::Result<Table> {
        Ok(Table { nftables: Nftables::open(namespace)?, base, kept: Kept::default(), is_written: false })
    }

    /// Removes the table.
    pub fn remove(namespace: &Namespace, ipv4: bool) -> io::Result<()> {
        let family = if ipv4 { Family::Ipv4 } else { Family::Ipv6 };
        Transaction::deleting_in(family, TABLE).commit(&mut Nftables::open(namespace)?)
    }

    fn write(&mut self, changes: &Changes) -> io::Result<()> {
        let mut transaction = Transaction::changing(self.base.family(), TABLE);
        write::changes(&mut transaction, &self.base, changes);
        if transaction.is_empty() { Ok(()) } else { self.commit(&transaction) }
    }

    fn write_everything(&mut self) -> io::Result<()> {
        let everything = self.kept.everything();
        let mut transaction = self.base.table();
        write::changes(&mut transaction, &self.base, &everything);
        let wanted: HashSet<&String> = everything.new_sets.iter().map(|(name, _)| name).collect();
        for (set, who) in self.affinities()? {
            if wanted.contains(&set) {
                let who: Vec<Element> =
                    who.into_iter().map(|(key, left)| Element::Expiring(key, left)).collect();
                transaction.add_elements(&set, &who);
            }
        }
        self.commit(&transaction)?;
        self.is_written = true;
        Ok(())
    }

    fn commit(&mut self, transaction: &Transaction) -> io::Result<()> {
        let done = transaction.commit(&mut self.nftables);
        if done.is_err() {
            self.is_written = false;
        }
        done
    }

    /// Reads the affinity sets of the kernel's table.
    fn affinities(&mut self) -> io::Result<Affinities> {
        let family = self.base.family();
        let sets = self.nftables.sets(family, TABLE)?;
        let mut remembered = Vec::new();
        for set in sets.into_iter().filter(|set| set.starts_with(AFFINITY)) {
            let who = self.nftables.elements(family, TABLE, &set)?;
            let who: Vec<_> = who.into_iter().filter_map(|(key, left)| Some((key, left?))).collect();
            remembered.push((set, who));
        }
        Ok(remembered)
    }
}

impl Backend for Table {
    fn set_base(&mut self, base: Base) {
        if self.base != base {
            self.base = base;
            self.is_written = false;
        }
    }

    fn distrust(&mut self) {
        self.is_written = false;
    }

    fn is_full(&self) -> bool {
        !self.is_written
    }

    /// The table is ours alone, and no other program flushes it.
    fn is_intact(&mut self) -> bool {
        true
    }

    fn change(&mut self, services: Vec<(ServiceKey, Vec<Routed>)>) -> io::Result<()> {
        let node = self.base.node;
        let services: Vec<(ServiceKey, Wanted)> =
            services.into_iter().map(|(key, ports)| (key, wanted(&ports, node))).collect();
        let changes = self.kept.change(services);
        if self.is_written { self.write(&changes) } else { self.write_everything() }
    }

    fn rule_counts(&self) -> Vec<RuleCount> {
        Vec::new()
    }

    fn has_stale(&self) -> bool {
        self.is_written && self.kept.has_stale()
    }

    fn clean_up(&mut self) -> io::Result<()> {
        let mut transaction = Transaction::changing(self.base.family(), TABLE);
        write::removal(&mut transaction, &self.kept.take_stale());
        self.commit(&transaction)
    }
}
