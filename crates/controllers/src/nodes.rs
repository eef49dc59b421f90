//! Nodes, as several controllers see them: their readiness, taints, zone and pods.

use std::time::Duration;

use corten_api::{Str, Value, meta, time};
use corten_base::Clock;
use corten_client::{Cache, Index, Key, View, kinds};
use corten_reconcile::Event;
use jiff::Timestamp;

use crate::conditions;
use crate::pods::PodView;

/// The component of events about nodes.
pub(crate) const COMPONENT: &str = "node-controller";
/// The service account of the controllers of nodes.
pub(crate) const ACCOUNT: &str = "node-controller";
/// The annotation with the seconds for which a kubelet may cache secrets and config maps.
pub(crate) const TTL: &str = "node.alpha.kubernetes.io/ttl";

/// The longest wait for a cache to show a write.
const STALE: Duration = Duration::from_secs(5);
const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";

/// The fields of a node that are read often.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct NodeView {
    /// `None` without a Ready condition.
    pub(crate) ready: Option<Ready>,
    pub(crate) created: Option<Timestamp>,
    /// Region and zone in one; empty if it has neither.
    pub(crate) zone: Str,
    pub(crate) taints: Vec<Value>,
    pub(crate) pod_cidrs: Vec<Str>,
    pub(crate) ttl: Option<i64>,
}

/// A node's Ready condition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Ready {
    pub(crate) status: Status,
    pub(crate) heartbeat: Option<Timestamp>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Status {
    True,
    False,
    #[default]
    Unknown,
}

impl View for NodeView {
    fn of(node: &Value) -> NodeView {
        let at = |value: Option<&Value>| value.and_then(Value::as_str).and_then(|t| time::parse(t).ok());
        let ready = conditions::condition(node, "Ready")
            .map(|ready| Ready { status: Status::of(ready), heartbeat: at(ready.get("lastHeartbeatTime")) });
        let cidrs = node.items_at(&["spec", "podCIDRs"]).iter();
        NodeView {
            ready,
            created: at(node.at(&["metadata", "creationTimestamp"])),
            zone: zone(node),
            taints: node.items_at(&["spec", "taints"]).to_vec(),
            pod_cidrs: cidrs.filter_map(Value::as_str).map(Str::new).collect(),
            ttl: node.str_at(&["metadata", "annotations", TTL]).and_then(|text| text.parse().ok()),
        }
    }
}

impl NodeView {
    pub(crate) fn is_ready(&self) -> bool {
        self.ready.as_ref().is_some_and(|ready| ready.status == Status::True)
    }

    /// True if a user has tainted the node as out of service, and it is not ready.
    pub(crate) fn is_out_of_service(&self) -> bool {
        !self.is_ready() && self.taints.iter().any(|t| t.str_at(&["key"]) == Some(OUT_OF_SERVICE))
    }
}

impl Status {
    fn of(condition: &Value) -> Status {
        match condition.str_at(&["status"]) {
            Some("True") => Status::True,
            Some("False") => Status::False,
            _ => Status::Unknown,
        }
    }
}

/// The region and zone of a node, as one text.
fn zone(node: &Value) -> Str {
    let label = |keys: [&str; 2]| {
        let labels = meta::labels(node);
        let label = |key: &str| labels.and_then(|labels| labels.get(key)).and_then(Value::as_str);
        keys.into_iter().find_map(label).unwrap_or_default()
    };
    let region = label(["topology.kubernetes.io/region", "failure-domain.beta.kubernetes.io/region"]);
    let zone = label(["topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone"]);
    match (region, zone) {
        ("", "") => Str::default(),
        (region, zone) => format!("{region}:\0:{zone}").into(),
    }
}

/// The pods of each node.
pub(crate) static PODS: Index = Index {
    kind: &kinds::PODS,
    name: "pods-by-node",
    names: |pod| {
        let node = &pod.view::<PodView>().node;
        if node.is_empty() { Vec::new() } else { vec![Key::new("", node.clone())] }
    },
};

/// Waits until the cache shows a version that was written; not for ever, as it may have lost its server.
pub(crate) async fn seen(nodes: &Cache, version: u64, clock: &Clock) {
    let seen = nodes.until(|nodes| nodes.revision() >= version);
    if clock.timeout(STALE, seen).await.is_none() {
        tracing::debug!(version, "node cache is stale; continuing");
    }
}

/// An event about a node, which may be deleted already.
pub(crate) fn event(name: &str, uid: &str, reason: &'static str, message: String) -> Event {
    about(COMPONENT, name, uid, reason, message)
}

/// An event whose reason is the new state of a node.
pub(crate) fn status_event(component: &'static str, name: &str, uid: &str, state: &'static str) -> Event {
    about(component, name, uid, state, format!("Node {name} status is now: {state}"))
}

fn about(component: &'static str, name: &str, uid: &str, reason: &'static str, message: String) -> Event {
    let mut about = kinds::NODES.new_object("", name);
    meta::set_text(&mut about, "uid", uid);
    Event::normal(component, &about, reason, message)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn zones_of_different_regions_differ() {
        let node = |labels: Value| zone(&value!({"metadata": {"labels": (labels)}}));
        assert_eq!(node(value!({})), "");
        let east =
            node(value!({"topology.kubernetes.io/region": "east", "topology.kubernetes.io/zone": "a"}));
        let old = node(value!({
            "failure-domain.beta.kubernetes.io/region": "east", "failure-domain.beta.kubernetes.io/zone": "a",
        }));
        assert_eq!(east, old);
        assert_ne!(east, node(value!({"topology.kubernetes.io/zone": "a"})));
    }

    #[test]
    fn only_unready_nodes_are_out_of_service() {
        for (ready, taint, expected) in [
            ("True", OUT_OF_SERVICE, false),
            ("False", OUT_OF_SERVICE, true),
            ("Unknown", OUT_OF_SERVICE, true),
            ("False", "other", false),
        ] {
            let node = value!({
                "spec": {"taints": [{"key": taint, "effect": "NoExecute"}]},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            });
            assert_eq!(NodeView::of(&node).is_out_of_service(), expected, "{ready} {taint}");
        }
    }
}
