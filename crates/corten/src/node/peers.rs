//! Routes to the pods of other nodes: keeps the pod network's peers in sync with Node objects.
//!
//! The last routes stay while the API server is unreachable.

use std::sync::Arc;
use std::time::Duration;

use corten_api::Value;
use corten_base::{Backoff, Clock};
use corten_client::{Caches, kinds};
use corten_net::PodNetwork;
use corten_net::peers::Peer;

const RETRY: Backoff = Backoff { first: Duration::from_millis(500), longest: Duration::from_secs(30) };

/// Watches the nodes until it is dropped. `own` is the name of this node.
pub(crate) async fn follow(network: Arc<PodNetwork>, caches: Caches, own: String, clock: Clock) {
    let nodes = caches.of(&kinds::NODES);
    nodes.synced().await;
    let mut changes = nodes.changes();
    let (mut applied, mut failures) = (None, 0);
    loop {
        changes.skip();
        let others = nodes.filter("", |node| node.key.name != own);
        let peers: Vec<Peer> = others.iter().filter_map(|node| peer(&node.tree())).collect();
        if applied.as_ref() != Some(&peers) {
            match set(&network, peers.clone()).await {
                Ok(()) => (applied, failures) = (Some(peers), 0),
                Err(err) => {
                    failures += 1;
                    let backoff = RETRY.delay(failures);
                    tracing::warn!(err, ?backoff, "cannot update routes to other nodes; retrying");
                    clock.sleep(backoff).await;
                    continue;
                }
            }
        }
        changes.next().await;
    }
}

async fn set(network: &Arc<PodNetwork>, peers: Vec<Peer>) -> Result<(), String> {
    let network = network.clone();
    let done = tokio::task::spawn_blocking(move || network.set_peers(&peers)).await;
    let done = done.map_err(|error| error.to_string())?;
    done.map_err(|error| format!("{:#}", anyhow::Error::from(error)))
}

/// The peer of a node that has an address and pod CIDRs.
fn peer(node: &Value) -> Option<Peer> {
    let addresses = node.items_at(&["status", "addresses"]).iter();
    let mut internal = addresses.filter(|address| address.str_at(&["type"]) == Some("InternalIP"));
    let address = internal.find_map(|address| address.str_at(&["address"])?.parse().ok())?;
    let cidrs = node.items_at(&["spec", "podCIDRs"]).iter().filter_map(Value::as_str);
    let pod_cidrs: Vec<_> = cidrs.filter_map(|cidr| cidr.parse().ok()).collect();
    (!pod_cidrs.is_empty()).then_some(Peer { address, pod_cidrs })
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn a_node_is_a_peer_once_its_network_and_address_are_known() {
        let addresses = value!([
            {"type": "Hostname", "address": "n"}, {"type": "ExternalIP", "address": "198.51.100.1"},
            {"type": "InternalIP", "address": "192.0.2.7"}
        ]);
        let cidrs = value!(["10.244.7.0/24", "fd00:7::/64"]);
        let known =
            value!({"spec": {"podCIDRs": (cidrs.clone())}, "status": {"addresses": (addresses.clone())}});
        let peer_of_it = peer(&known).unwrap();
        assert_eq!((peer_of_it.address, peer_of_it.pod_cidrs.len()), ([192, 0, 2, 7].into(), 2));
        assert!(peer(&value!({"status": {"addresses": (addresses)}})).is_none(), "no network yet");
        assert!(peer(&value!({"spec": {"podCIDRs": (cidrs)}})).is_none(), "no address yet");
    }
}
