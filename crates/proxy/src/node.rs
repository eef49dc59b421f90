//! What of this node's Node concerns the proxy.

use std::net::IpAddr;

use corten_api::{Str, Value, meta};
use corten_net::Cidr;

use crate::route::Node;

const ZONE: &str = "topology.kubernetes.io/zone";
/// Set by autoscalers on a node that is about to go.
const GOING: &str = "ToBeDeletedByClusterAutoscaler";

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeState {
    /// What rules follow from.
    pub facts: Node,
    pub pod_cidrs: Vec<Cidr>,
    /// Whether load balancers may send new connections here.
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

/// The first of each family: internal ones before external ones.
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
