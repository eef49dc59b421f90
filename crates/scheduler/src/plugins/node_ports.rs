//! NodePorts: two pods cannot have the same host port of one node.

use std::sync::Arc;

use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, Plugin, PreFilter, Rejection};
use crate::pod::{HostPort, Pod};
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "NodePorts";
const REASON: Rejection =
    Rejection::unschedulable("node(s) didn't have free ports for the requested pod ports");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::Filter],
    create: Some(|_| Ok(Arc::new(NodePorts))),
};

pub(crate) struct NodePorts;

struct Wanted(Vec<HostPort>);

impl Filter for Wanted {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let used = &cluster.snapshot.place(at).ports;
        let taken = |wanted: &HostPort| used.iter().any(|port| port.conflicts(wanted));
        self.0.iter().any(taken).then_some(REASON)
    }

    fn is_local(&self) -> bool {
        true
    }
}

impl Plugin for NodePorts {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, _: &mut Cluster) -> PreFilter {
        let ports = &pod.shape.ports;
        if ports.is_empty() { PreFilter::Skip } else { PreFilter::Filter(Box::new(Wanted(ports.clone()))) }
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) => true,
            ClusterEvent::PodGone(gone) => gone
                .shape
                .ports
                .iter()
                .any(|port| pod.shape.ports.iter().any(|wanted| wanted.conflicts(port))),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::testing::{Scene, node, pod};

    use super::*;

    #[track_caller]
    fn check(used: &[(&str, &str, i64)], wanted: &[(&str, &str, i64)], fits: bool) {
        let mut scene = Scene::new([node("a")]);
        scene.put(pod("there").ports(used).build(), "a");
        let found = scene.filter(&NodePorts, &pod("p").ports(wanted).build());
        assert_eq!(found, [(!fits).then_some(REASON)], "{used:?} {wanted:?}");
    }

    #[test]
    fn ports_conflict_by_address_protocol_and_number() {
        check(&[("", "TCP", 80)], &[], true);
        check(&[("", "TCP", 80)], &[("", "TCP", 81)], true);
        check(&[("", "TCP", 80)], &[("", "TCP", 80)], false);
        check(&[("", "TCP", 80)], &[("", "UDP", 80)], true);
        check(&[("127.0.0.1", "TCP", 80)], &[("127.0.0.2", "TCP", 80)], true);
        check(&[("127.0.0.1", "TCP", 80)], &[("0.0.0.0", "TCP", 80)], false);
        check(&[("", "TCP", 80)], &[("127.0.0.1", "TCP", 80)], false);
        check(&[("", "TCP", 80), ("", "UDP", 53)], &[("", "TCP", 8080), ("10.0.0.1", "UDP", 53)], false);
    }
}
