//! The allocation of pod IPs per node, indexed so that no allocation scans all pods.

use std::collections::{BTreeMap, HashMap};
use std::net::Ipv4Addr;

use corten_api::Str;
use corten_client::Key;
use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct Placements(Mutex<State>);

#[derive(Default)]
struct State {
    nodes: HashMap<Key, Str>,
    /// By node, the last byte of each pod IP. Zero stands for a pod in the host network.
    addresses: HashMap<Str, BTreeMap<Key, u8>>,
}

impl Placements {
    /// Records a pod on a node, with its current address or the first free one.
    pub(crate) fn place(
        &self,
        pod: &Key,
        node: &str,
        network: Ipv4Addr,
        known: Option<Ipv4Addr>,
    ) -> Ipv4Addr {
        let mut state = self.0.lock();
        state.nodes.insert(pod.clone(), node.into());
        let pods = state.addresses.entry(node.into()).or_default();
        let [a, b, c, _] = network.octets();
        let known = known.map(|address| address.octets()).filter(|o| o[..3] == [a, b, c]).map(|o| o[3]);
        let current = known.or_else(|| pods.get(pod).copied().filter(|last| *last != 0));
        // The first address is the node's gateway.
        let last = current.unwrap_or_else(|| {
            let taken: Vec<u8> = pods.values().copied().collect();
            (2..=254).find(|last| !taken.contains(last)).unwrap_or(254)
        });
        pods.insert(pod.clone(), last);
        Ipv4Addr::new(a, b, c, last)
    }

    /// Releases the address of a deleted or finished pod.
    pub(crate) fn release(&self, pod: &Key) {
        let mut state = self.0.lock();
        let Some(node) = state.nodes.remove(pod) else { return };
        if let Some(pods) = state.addresses.get_mut(&node) {
            pods.remove(pod);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_reused_after_release() {
        let placements = Placements::default();
        let network = Ipv4Addr::new(10, 244, 3, 0);
        let place =
            |name: &str, known| placements.place(&Key::new("n", name), "node", network, known).octets()[3];
        assert_eq!((place("a", None), place("b", None), place("a", None)), (2, 3, 2));
        assert_eq!(place("c", Some(Ipv4Addr::new(10, 244, 3, 9))), 9);
        placements.release(&Key::new("n", "a"));
        assert_eq!(place("d", None), 2);
    }
}
