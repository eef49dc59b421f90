//! Changes as a transaction.

use std::collections::BTreeMap;

use corten_net::nftables::{Element, Key, MapsTo, Rule as Expressions, Set, Transaction, Type};

use super::base::{ENDPOINT_CHAINS, ENDPOINTS, from_pods};
use super::kept::{Changes, Numbers, Placed, Stale};
use super::service::{Entry, Map, Rule};
use crate::base::Base;

/// Adds everything that changes.
pub(crate) fn changes(table: &mut Transaction, base: &Base, changes: &Changes) {
    for chain in &changes.flushed {
        table.flush_chain(chain);
    }
    for set in &changes.forgotten_sets {
        table.delete_set(set);
    }
    for (map, entries) in by_map(changes.removed.iter().copied()) {
        let keys: Vec<Key> = entries.iter().map(key).collect();
        table.delete_elements(map.name(), &keys);
    }
    for numbers in &changes.removed_numbers {
        forget(table, *numbers);
    }
    let address = if base.ipv4 { [Type::Ipv4] } else { [Type::Ipv6] };
    for (id, (name, timeout)) in (1000..).zip(&changes.new_sets) {
        let maps_to = MapsTo::Nothing;
        table.set(id, &Set { name, key: &address, maps_to, intervals: false, timeout: Some(*timeout) });
    }
    for chain in &changes.new_chains {
        table.chain(chain);
    }
    let endpoints: Vec<Element> = changes
        .numbered
        .iter()
        .map(|(number, address)| {
            let target = Key::new().address(address.ip()).port(address.port());
            Element::Mapped(Key::new().number(*number), target)
        })
        .collect();
    table.add_elements(ENDPOINTS, &endpoints);
    let chains: Vec<Element> = changes
        .numbered_chains
        .iter()
        .map(|(number, chain)| {
            Element::Judged(Key::new().number(*number), corten_net::nftables::Verdict::Goto(chain.clone()))
        })
        .collect();
    table.add_elements(ENDPOINT_CHAINS, &chains);
    for (chain, rule) in &changes.rules {
        if let Some(expressions) = expressions(base, rule) {
            table.rule(chain, &expressions);
        }
    }
    let mut added: BTreeMap<Map, Vec<Element>> = BTreeMap::new();
    for (entry, verdict) in &changes.added {
        let element = match verdict {
            Some(verdict) => Element::Judged(key(entry), verdict.clone()),
            None => Element::Member(key(entry)),
        };
        added.entry(entry.map).or_default().push(element);
    }
    for (map, elements) in added {
        table.add_elements(map.name(), &elements);
    }
}

/// Removes what nothing leads to any more.
pub(crate) fn removal(table: &mut Transaction, stale: &Stale) {
    for numbers in &stale.endpoints {
        forget(table, *numbers);
    }
    for chain in &stale.chains {
        table.delete_chain(chain);
    }
}

fn forget(table: &mut Transaction, numbers: Numbers) {
    let map = if numbers.chains { ENDPOINT_CHAINS } else { ENDPOINTS };
    let keys: Vec<Key> =
        (numbers.first..numbers.first + numbers.count).map(|number| Key::new().number(number)).collect();
    table.delete_elements(map, &keys);
}

fn by_map(entries: impl Iterator<Item = Entry>) -> BTreeMap<Map, Vec<Entry>> {
    let mut sorted: BTreeMap<Map, Vec<Entry>> = BTreeMap::new();
    for entry in entries {
        sorted.entry(entry.map).or_default().push(entry);
    }
    sorted
}

fn key(entry: &Entry) -> Key {
    let mut key = Key::new();
    if let Some(address) = entry.address {
        key = key.address(address);
        if entry.map == Map::HairpinConnections {
            key = key.address(address);
        }
    }
    match entry.port {
        Some((protocol, port)) => key.protocol(protocol.number()).port(port),
        None => key,
    }
}

/// `None` for what cannot be told on this node.
fn expressions(base: &Base, rule: &Placed) -> Option<Expressions> {
    let (new, mark) = (Expressions::of(base.family()), base.masquerade_mark);
    Some(match rule {
        Placed::RedirectAny(protocol, numbers) => new.protocol(protocol.number()).redirect_to_any(
            base.ipv4,
            ENDPOINTS,
            numbers.first,
            numbers.count,
        ),
        Placed::GotoAny(numbers) => new.judged_by_chance(ENDPOINT_CHAINS, numbers.first, numbers.count),
        Placed::Plain(rule) => match rule {
            Rule::Masquerade => new.mark(mark),
            Rule::MasqueradeOwn => new.from_local().mark(mark),
            Rule::Goto(chain) => new.goto(chain),
            Rule::PodsGoto(chain) => from_pods(&base.local_pods, new)?.goto(chain),
            Rule::OwnGoto(chain) => new.from_local().goto(chain),
            Rule::Admit(network) => new.from_network(*network).back(),
            Rule::Drop => new.drop(),
            Rule::Return { set, chain, .. } => new.from_set(base.ipv4, set).goto(chain),
            Rule::Remember { set, .. } => new.remember_source(set),
            Rule::Redirect(protocol, targets) => {
                let target = targets.first()?;
                new.protocol(protocol.number()).redirect(target.ip(), target.port())
            }
            // Whoever has several is numbered.
            Rule::GotoAny(chains) => new.goto(chains.first()?),
        },
    })
}
