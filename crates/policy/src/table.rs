//! The table that enforces a model, and its changes. Pure: it makes transactions and does not execute them.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use corten_net::nftables::{
    Element, Family, Field, Hook, Key, MapsTo, Rule, Set, Transaction, Type, Verdict,
};

use crate::model::{At, Clause, Model, Then, Who};
use crate::policy::Direction;

pub const TABLE: &str = "corten-policy";

const FILTER: i32 = 0;
/// The base chain.
const PASSING: &str = "passing";
/// The map of isolated pods to their chains; a chain of the same name looks it up.
const EGRESS: &str = "egress";
const INGRESS: &str = "ingress";
/// The set of pods paired with themselves.
const ITSELF: &str = "itself";

/// Replaces the whole table.
pub fn whole(model: &Model, ipv4: bool) -> Transaction {
    let mut writer = Writer::new(Transaction::replacing_in(family(ipv4), TABLE), ipv4);
    writer.frame();
    writer.change(&Model::default(), model);
    writer.transaction
}

/// Changes the table of one model to that of another.
pub fn change(old: &Model, new: &Model, ipv4: bool) -> Transaction {
    let mut writer = Writer::new(Transaction::changing(family(ipv4), TABLE), ipv4);
    writer.change(old, new);
    writer.transaction
}

pub(crate) fn family(ipv4: bool) -> Family {
    if ipv4 { Family::Ipv4 } else { Family::Ipv6 }
}

struct Writer {
    transaction: Transaction,
    ipv4: bool,
    /// The last ID of a set in the transaction.
    sets: u32,
}

impl Writer {
    fn new(transaction: Transaction, ipv4: bool) -> Writer {
        Writer { transaction, ipv4, sets: 0 }
    }

    /// Adds the fixed chains: new connections are checked by their source's chain, then by their destination's.
    fn frame(&mut self) {
        let address = self.address();
        self.set(EGRESS, &[address], MapsTo::Verdict);
        self.set(INGRESS, &[address], MapsTo::Verdict);
        self.set(ITSELF, &[address, address], MapsTo::Nothing);
        for chain in [EGRESS, INGRESS] {
            self.transaction.chain(chain);
        }
        self.transaction.base_chain(PASSING, "filter", Hook::Forward, FILTER);
        let both = [Field::Source, Field::Destination];
        for (chain, rule) in [
            (PASSING, self.rule().begins_connection().goto(EGRESS)),
            (EGRESS, self.rule().in_set(&both, ITSELF).accept()),
            (EGRESS, self.rule().judged_by(&[Field::Source], EGRESS)),
            (EGRESS, self.rule().goto(INGRESS)),
            (INGRESS, self.rule().judged_by(&[Field::Destination], INGRESS)),
            (INGRESS, self.rule().accept()),
        ] {
            self.transaction.rule(chain, &rule);
        }
    }

    /// Adds new elements before those that refer to them, and removes unused ones last.
    fn change(&mut self, old: &Model, new: &Model) {
        self.add_sets(old, new);
        for chain in new.chains.keys().filter(|chain| !old.chains.contains_key(*chain)) {
            self.transaction.chain(chain);
        }
        for (name, chain) in new.chains.iter().filter(|(name, chain)| old.chains.get(*name) != Some(*chain)) {
            if old.chains.contains_key(name) {
                self.transaction.flush_chain(name);
            }
            chain.clauses.iter().for_each(|clause| self.clause(name, chain.direction, clause));
        }
        self.judge(EGRESS, &old.egress, &new.egress);
        self.judge(INGRESS, &old.ingress, &new.ingress);
        self.itself(old, new);
        let gone: Vec<&String> = old.chains.keys().filter(|chain| !new.chains.contains_key(*chain)).collect();
        gone.iter().for_each(|chain| self.transaction.flush_chain(chain));
        gone.iter().for_each(|chain| self.transaction.delete_chain(chain));
        self.remove_sets(old, new);
    }

    fn add_sets(&mut self, old: &Model, new: &Model) {
        let address = self.address();
        for (name, members) in &new.addresses {
            let had = old.addresses.get(name);
            if had.is_none() {
                self.set(name, &[address], MapsTo::Nothing);
            }
            self.members(name, had, members, |address| Key::new().address(*address));
        }
        for (name, members) in &new.endpoints {
            let had = old.endpoints.get(name);
            if had.is_none() {
                self.set(name, &[address, Type::Protocol, Type::Port], MapsTo::Nothing);
            }
            self.members(name, had, members, |endpoint| {
                Key::new().address(endpoint.address).protocol(endpoint.protocol.number()).port(endpoint.port)
            });
        }
    }

    fn remove_sets(&mut self, old: &Model, new: &Model) {
        let addresses = old.addresses.keys().filter(|name| !new.addresses.contains_key(*name));
        let endpoints = old.endpoints.keys().filter(|name| !new.endpoints.contains_key(*name));
        addresses.chain(endpoints).for_each(|name| self.transaction.delete_set(name));
    }

    fn members<T: Ord>(
        &mut self,
        set: &str,
        old: Option<&BTreeSet<T>>,
        new: &BTreeSet<T>,
        key: impl Fn(&T) -> Key,
    ) {
        let none = BTreeSet::new();
        let old = old.unwrap_or(&none);
        let gone: Vec<Key> = old.difference(new).map(&key).collect();
        let come: Vec<Element> = new.difference(old).map(|member| Element::Member(key(member))).collect();
        self.transaction.delete_elements(set, &gone);
        self.transaction.add_elements(set, &come);
    }

    /// Changes the map of pods to chains.
    fn judge(&mut self, map: &str, old: &BTreeMap<IpAddr, String>, new: &BTreeMap<IpAddr, String>) {
        let key = |address: &IpAddr| Key::new().address(*address);
        let gone = old.iter().filter(|(address, chain)| new.get(*address) != Some(*chain));
        let gone: Vec<Key> = gone.map(|(address, _)| key(address)).collect();
        let come = new.iter().filter(|(address, chain)| old.get(*address) != Some(*chain));
        let come: Vec<Element> = come
            .map(|(address, chain)| Element::Judged(key(address), Verdict::Goto(chain.clone())))
            .collect();
        self.transaction.delete_elements(map, &gone);
        self.transaction.add_elements(map, &come);
    }

    /// Allows traffic of pods to themselves, whatever the policies are.
    fn itself(&mut self, old: &Model, new: &Model) {
        let isolated = |model: &Model| -> BTreeSet<IpAddr> {
            model.egress.keys().chain(model.ingress.keys()).copied().collect()
        };
        let (old, new) = (isolated(old), isolated(new));
        self.members(ITSELF, Some(&old), &new, |address| Key::new().address(*address).address(*address));
    }

    fn clause(&mut self, chain: &str, direction: Direction, clause: &Clause) {
        let rule = self.at(self.who(self.rule(), direction, &clause.who), &clause.at);
        let rule = match (&clause.then, direction) {
            (Then::Ask(chain), _) => rule.jump(chain),
            (Then::Leave, _) => rule.back(),
            (Then::Drop, _) => rule.drop(),
            // Traffic that egress policies allow is still subject to ingress policies.
            (Then::Allow, Direction::Egress) => rule.goto(INGRESS),
            (Then::Allow, Direction::Ingress) => rule.accept(),
        };
        self.transaction.rule(chain, &rule);
    }

    fn who(&self, rule: Rule, direction: Direction, who: &Who) -> Rule {
        let (field, is_ingress) = match direction {
            Direction::Ingress => (Field::Source, true),
            Direction::Egress => (Field::Destination, false),
        };
        match who {
            Who::Any => rule,
            Who::In(set) => rule.in_set(&[field], set),
            Who::Within { network, except } => {
                let within = if is_ingress { rule.from_network(*network) } else { rule.to_network(*network) };
                except.iter().fold(within, |rule, except| {
                    if is_ingress { rule.not_from_network(*except) } else { rule.not_to_network(*except) }
                })
            }
        }
    }

    fn at(&self, rule: Rule, at: &At) -> Rule {
        match at {
            At::Any => rule,
            At::AnyOf(protocol) => rule.protocol(protocol.number()),
            At::Numbers(protocol, first, last) => rule.protocol(protocol.number()).to_ports(*first, *last),
            At::In(set) => {
                let fields = [Field::Destination, Field::Protocol, Field::DestinationPort];
                rule.in_set(&fields, set)
            }
        }
    }

    fn set(&mut self, name: &str, key: &[Type], maps_to: MapsTo<'_>) {
        self.sets += 1;
        let set = Set { name, key, maps_to, intervals: false, timeout: None };
        self.transaction.set(self.sets, &set);
    }

    fn rule(&self) -> Rule {
        Rule::of(family(self.ipv4))
    }

    fn address(&self) -> Type {
        if self.ipv4 { Type::Ipv4 } else { Type::Ipv6 }
    }
}
