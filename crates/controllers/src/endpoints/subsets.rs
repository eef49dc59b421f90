//! Subsets of Endpoints: addresses that share their ports, in a canonical form that can be compared.
//!
//! Treats addresses and ports as the objects they are on the wire.

use std::collections::BTreeMap;

use corten_api::{Map, Str, Value, json};

/// The most addresses of an Endpoints object.
const CAPACITY: usize = 1000;

/// Collected addresses and ports.
#[derive(Debug, Default)]
pub(crate) struct Collected {
    /// By encoded port: the addresses that offer it, and whether they are ready.
    by_port: BTreeMap<String, (Option<Value>, BTreeMap<Identity, bool>)>,
    addresses: BTreeMap<Identity, Value>,
}

/// Addresses are equal if the IP and the target are. Subsets list them in this order.
type Identity = (Str, Str);

fn identity(address: &Value) -> Identity {
    let text = |path: &[&str]| Str::new(address.str_at(path).unwrap_or_default());
    (text(&["ip"]), text(&["targetRef", "uid"]))
}

impl Collected {
    /// The addresses and ports of some subsets.
    pub(crate) fn of(subsets: &[Value]) -> Collected {
        let mut collected = Collected::default();
        for subset in subsets {
            for (list, ready) in [("addresses", true), ("notReadyAddresses", false)] {
                for address in subset.items_at(&[list]) {
                    match subset.items_at(&["ports"]) {
                        [] => collected.add(address, None, ready),
                        ports => ports.iter().for_each(|port| collected.add(address, Some(port), ready)),
                    }
                }
            }
        }
        collected
    }

    /// Adds an address with a port, or without any. An address that is not ready in one place is not ready.
    pub(crate) fn add(&mut self, address: &Value, port: Option<&Value>, ready: bool) {
        let who = identity(address);
        self.addresses.entry(who.clone()).or_insert_with(|| address.clone());
        let name = port.map(json::write_to_string).unwrap_or_default();
        let (_, addresses) = self.by_port.entry(name).or_insert_with(|| (port.cloned(), BTreeMap::new()));
        *addresses.entry(who).or_insert(ready) &= ready;
    }

    /// The subsets: ports with the same addresses share one.
    pub(crate) fn into_subsets(self) -> Vec<Value> {
        let mut together: BTreeMap<BTreeMap<Identity, bool>, Vec<Value>> = BTreeMap::new();
        for (port, addresses) in self.by_port.into_values() {
            together.entry(addresses).or_default().extend(port);
        }
        let list = |addresses: &BTreeMap<Identity, bool>, ready: bool| -> Vec<Value> {
            let wanted = addresses.iter().filter(|(_, is_ready)| **is_ready == ready);
            wanted.map(|(who, _)| self.addresses[who].clone()).collect()
        };
        let subset = |(addresses, ports): (BTreeMap<Identity, bool>, Vec<Value>)| {
            let mut subset = Map::new();
            let lists = [
                ("addresses", list(&addresses, true)),
                ("notReadyAddresses", list(&addresses, false)),
                ("ports", ports),
            ];
            for (key, list) in lists.into_iter().filter(|(_, list)| !list.is_empty()) {
                subset.insert(key, list);
            }
            Value::Object(subset)
        };
        together.into_iter().map(subset).collect()
    }
}

/// The same subsets in canonical form.
pub(crate) fn repack(subsets: &[Value]) -> Vec<Value> {
    Collected::of(subsets).into_subsets()
}

fn count(subsets: &[Value]) -> (usize, usize) {
    let count = |list: &str| subsets.iter().map(|subset| subset.items_at(&[list]).len()).sum();
    (count("addresses"), count("notReadyAddresses"))
}

/// Truncates to the capacity, each subset in proportion and addresses that are not ready first. Returns true if there
/// were too many.
pub(super) fn truncate(subsets: &mut Vec<Value>) -> bool {
    let (ready, not_ready) = count(subsets);
    if ready + not_ready <= CAPACITY {
        return false;
    }
    let (list, room, total) = if ready > CAPACITY {
        for subset in subsets.iter_mut() {
            subset.remove(&["notReadyAddresses"]);
        }
        ("addresses", CAPACITY, ready)
    } else {
        ("notReadyAddresses", CAPACITY - ready, not_ready)
    };
    let mut left = room;
    for subset in subsets.iter_mut() {
        let count = subset.items_at(&[list]).len();
        let share = (count * room).div_ceil(total).min(left);
        left -= share.min(count);
        if let Some(addresses) = subset.get_mut(list).and_then(Value::as_array_mut) {
            addresses.truncate(share);
            if addresses.is_empty() {
                subset.remove(&[list]);
            }
        }
    }
    subsets.retain(|subset| subset.get("addresses").is_some() || subset.get("notReadyAddresses").is_some());
    true
}
