//! Encodes changes as a transaction.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use corten_net::nftables::{Element, Key, MapsTo, Rule as Expressions, Set, Transaction, Type, Verdict};

use super::base::from_pods;
use super::kept::{Changes, Placed, Stale};
use super::numbers::{Map as NumberMap, Numbers};
use super::service::{Entry, Map, Rule};
use crate::base::Base;

/// Adds all changes to a transaction.
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
    for (map, number, address) in &changes.renumbered {
        let (map, number) = (&map.name(), Key::new().number(*number));
        table.delete_elements(map, [&number]);
        table.add_elements(map, [&Element::Mapped(number, target(*address))]);
    }
    let address = if base.ipv4 { [Type::Ipv4] } else { [Type::Ipv6] };
    for (id, (name, timeout)) in (1000..).zip(&changes.new_sets) {
        let maps_to = MapsTo::Nothing;
        table.set(id, &Set { name, key: &address, maps_to, intervals: false, timeout: Some(*timeout) });
    }
    for map in &changes.new_maps {
        self::map(table, base, *map);
    }
    for chain in &changes.new_chains {
        table.chain(chain);
    }
    for (map, elements) in numbered(changes) {
        table.add_elements(&map.name(), &elements);
    }
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

/// Removes stale chains, numbers and maps.
pub(crate) fn removal(table: &mut Transaction, stale: &Stale) {
    for numbers in stale.endpoints.iter().filter(|numbers| !stale.maps.contains(&numbers.map)) {
        forget(table, *numbers);
    }
    for map in &stale.maps {
        table.delete_set(&map.name());
    }
    for chain in &stale.chains {
        table.delete_chain(chain);
    }
}

/// Creates a map of numbered endpoints.
fn map(table: &mut Transaction, base: &Base, map: NumberMap) {
    let target = if base.ipv4 { [Type::Ipv4, Type::Port] } else { [Type::Ipv6, Type::Port] };
    let maps_to = if map.chains { MapsTo::Verdict } else { MapsTo::Data(&target) };
    let id = 1_000_000 + 2 * map.id + u32::from(map.chains);
    let name = &map.name();
    table.set(id, &Set { name, key: &[Type::Mark], maps_to, intervals: false, timeout: None });
}

/// The new elements of the maps of numbered endpoints.
fn numbered(changes: &Changes) -> BTreeMap<NumberMap, Vec<Element>> {
    let mut elements: BTreeMap<NumberMap, Vec<Element>> = BTreeMap::new();
    for (numbers, addresses) in &changes.numbered {
        let numbered = (numbers.first..)
            .zip(addresses)
            .map(|(number, address)| Element::Mapped(Key::new().number(number), target(*address)));
        elements.entry(numbers.map).or_default().extend(numbered);
    }
    for (numbers, chains) in &changes.numbered_chains {
        let numbered = (numbers.first..)
            .zip(chains)
            .map(|(number, chain)| Element::Judged(Key::new().number(number), Verdict::Goto(chain.clone())));
        elements.entry(numbers.map).or_default().extend(numbered);
    }
    elements
}

fn target(address: SocketAddr) -> Key {
    Key::new().address(address.ip()).port(address.port())
}

fn forget(table: &mut Transaction, numbers: Numbers) {
    let numbered = numbers.first..numbers.first + numbers.count;
    let keys: Vec<Key> = numbered.map(|number| Key::new().number(number)).collect();
    table.delete_elements(&numbers.map.name(), &keys);
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

/// The expressions of a rule; `None` if this node's pods cannot be detected and the rule needs that.
fn expressions(base: &Base, rule: &Placed) -> Option<Expressions> {
    let (new, mark) = (Expressions::of(base.family()), base.masquerade_mark);
    Some(match rule {
        Placed::RedirectAny(protocol, numbers) => {
            let (map, first, count) = (&numbers.map.name(), numbers.first, numbers.count);
            new.protocol(protocol.number()).redirect_to_any(base.ipv4, map, first, count)
        }
        Placed::GotoAny(numbers) => new.judged_by_chance(&numbers.map.name(), numbers.first, numbers.count),
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
            // A rule with several chains has numbers.
            Rule::GotoAny(chains) => new.goto(chains.first()?),
        },
    })
}
