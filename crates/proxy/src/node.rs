//! This node's Node object, as far as the proxy needs it.

use std::net::IpAddr;

use corten_api::{Str, Value, meta};
use corten_net::Cidr;

use crate::route::Node;

const ZONE: &str = "topology.kubernetes.io/zone";
/// The taint that the cluster autoscaler sets on a node that it is about to delete.
const GOING: &str = "ToBeDeletedByClusterAutoscaler";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeState {
    /// The facts that rules depend on.
    pub facts: Node,
    pub pod_cidrs: Vec<Cidr>,
    /// True if load balancers may send new connections to this node.
    pub is_eligible: bool,
}

impl NodeState {
    pub fn of(tree: &Value) -> NodeState {
        let label = |name: &str| meta::labels(tree)?.get(name)?.as_str().map(Str::new);
        let taints = tree.items_at(&["spec", "taints"]).iter();
        let is_going = taints.filter_map(|taint| taint.str_at(&["key"])).any(|key| key == GOING);
        let cidrs = tree.items_at(&["spec", "podCIDRs"]).iter();
        NodeState {
            facts: Node {
                name: meta::name(tree).into(),
                zone: label(ZONE).unwrap_or_default(),
                addresses: addresses(tree),
            },
            pod_cidrs: cidrs.filter_map(|cidr| cidr.as_str()?.parse().ok()).collect(),
            is_eligible: !is_going && !meta::is_deleting(tree),
        }
    }
}

/// The first address of each family, internal ones before external ones.
fn addresses(tree: &Value) -> Vec<IpAddr> {
    let of_kind = |kind: &str| -> Vec<IpAddr> {
        let all = tree.items_at(&["status", "addresses"]).iter();
        let all = all.filter(|address| address.str_at(&["type"]) == Some(kind));
        all.filter_map(|address| address.str_at(&["address"])?.parse().ok()).collect()
    };
    let all = [of_kind("InternalIP"), of_kind("ExternalIP")].concat();
    let first = |ipv4: bool| all.iter().copied().find(|address| address.is_ipv4() == ipv4);
    first(true).into_iter().chain(first(false)).collect()
}
