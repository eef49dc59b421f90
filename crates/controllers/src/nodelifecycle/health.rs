//! Node health: the time of a node's last heartbeat, in its status or in its lease. Pure.
//!
//! Only this process's clock counts. Timestamps that nodes write are compared with earlier ones of the same node, never
//! with the clock.

use std::time::Duration;

use corten_api::{Value, meta, time};
use corten_client::View;
use jiff::{SignedDuration, Timestamp};

use super::NodeLifecycleOptions;
use crate::nodes::{NodeView, Ready};

/// The conditions of an unresponsive node that become `Unknown`. NetworkUnavailable is not one: kubelets do not report
/// it.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// The fields of a node lease that matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct LeaseView {
    pub(super) renewed: Option<Timestamp>,
}

impl View for LeaseView {
    fn of(lease: &Value) -> LeaseView {
        let renewed = lease.str_at(&["spec", "renewTime"]).and_then(|text| time::parse_micro(text).ok());
        LeaseView { renewed }
    }
}

/// The health record of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeHealth {
    /// The time at which the last heartbeat was observed.
    pub(super) probe_time: Timestamp,
    ready: Option<Ready>,
    pub(super) lease: Option<LeaseView>,
}

impl NodeHealth {
    /// The health record after an observation.
    pub(super) fn next(
        known: Option<NodeHealth>,
        node: &NodeView,
        lease: Option<LeaseView>,
        now: Timestamp,
    ) -> NodeHealth {
        let reported = |known: &NodeHealth| known.ready.as_ref().map(|ready| ready.heartbeat);
        let heartbeat = node.ready.as_ref().map(|ready| ready.heartbeat);
        let known_lease = known.as_ref().and_then(|known| known.lease);
        let probe_time = match known {
            // A missing condition is no heartbeat.
            Some(known) if heartbeat.is_none() || reported(&known) == heartbeat => known.probe_time,
            None if heartbeat.is_none() => node.created.unwrap_or(now),
            _ => now,
        };
        let mut health = NodeHealth { probe_time, ready: node.ready.clone(), lease: known_lease };
        if let Some(lease) = lease
            && known_lease.is_none_or(|known| known.renewed < lease.renewed)
        {
            health.probe_time = now;
            health.lease = Some(lease);
        }
        health
    }

    /// True if there was no heartbeat within the grace period.
    pub(super) fn grace_period_expired(&self, options: &NodeLifecycleOptions, now: Timestamp) -> bool {
        let grace =
            if self.ready.is_some() { options.monitor_grace_period } else { options.startup_grace_period };
        after(self.probe_time, grace) < now
    }
}

pub(super) fn after(at: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    at.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// Sets the conditions of an unresponsive node to `Unknown`.
pub(super) fn mark_unknown(node: &mut Value, now: Timestamp) {
    let created = node.str_at(&["metadata", "creationTimestamp"]).unwrap_or_default().to_owned();
    let conditions = node.make_object().entry("status").make_object().entry("conditions").make_array();
    for kind in REPORTED {
        let mut unknown = crate::conditions::new(
            kind,
            "Unknown",
            "NodeStatusUnknown",
            "Kubelet stopped posting node status.",
            now,
        );
        match conditions.iter_mut().find(|c| c.str_at(&["type"]) == Some(kind)) {
            Some(known) if known.str_at(&["status"]) == Some("Unknown") => {}
            Some(known) => {
                let heartbeat = known.get("lastHeartbeatTime").cloned().unwrap_or_default();
                unknown.set(&["lastHeartbeatTime"], heartbeat);
                *known = unknown;
            }
            None => {
                unknown.set(&["reason"], "NodeStatusNeverUpdated");
                unknown.set(&["message"], "Kubelet never posted node status.");
                unknown.set(&["lastHeartbeatTime"], created.as_str());
                conditions.push(unknown);
            }
        }
    }
}

/// True if a node has posted a heartbeat since this observation, or is being deleted.
pub(super) fn has_reported_since(node: &Value, seen: &NodeView) -> bool {
    let heartbeat = |view: &NodeView| view.ready.as_ref().map(|ready| ready.heartbeat);
    meta::is_deleting(node) || heartbeat(&NodeView::of(node)) != heartbeat(seen)
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::testing::{at, at_text};

    fn node(heartbeat: Option<i64>) -> NodeView {
        let mut node = value!({"metadata": {"creationTimestamp": (at_text(0))}});
        if let Some(heartbeat) = heartbeat {
            node.set(
                &["status", "conditions"],
                value!([{"type": "Ready", "status": "True", "lastHeartbeatTime": (at_text(heartbeat))}]),
            );
        }
        NodeView::of(&node)
    }

    fn lease(renewed: i64) -> Option<LeaseView> {
        Some(LeaseView { renewed: Some(at(renewed)) })
    }

    /// The health record of a node after these observations: time, heartbeat and lease of each.
    fn history(seen: &[(i64, Option<i64>, Option<LeaseView>)]) -> NodeHealth {
        let next = |known, (now, heartbeat, lease): &(i64, Option<i64>, Option<LeaseView>)| {
            Some(NodeHealth::next(known, &node(*heartbeat), *lease, at(*now)))
        };
        seen.iter().fold(None, next).unwrap()
    }

    #[test]
    fn heartbeats_in_status_and_lease_update_the_probe_time() {
        for (case, seen, probe_time) in [
            ("never posted a status", vec![(20, None, None)], 0),
            ("still no status", vec![(20, None, None), (30, None, None)], 0),
            ("posts its first status", vec![(20, None, None), (30, Some(1), None)], 30),
            ("is seen for the first time", vec![(20, Some(1), None)], 20),
            ("no new heartbeat", vec![(20, Some(1), None), (30, Some(1), None)], 20),
            ("reports", vec![(20, Some(1), None), (30, Some(2), None)], 30),
            ("removes its condition", vec![(20, Some(1), None), (30, None, None)], 20),
            ("renews", vec![(20, Some(1), lease(1)), (30, Some(1), lease(2))], 30),
            ("does not renew", vec![(20, Some(1), lease(1)), (30, Some(1), lease(1))], 20),
            ("renews without reporting", vec![(20, None, lease(1)), (30, None, lease(2))], 30),
            ("loses its lease", vec![(20, Some(1), lease(1)), (30, Some(1), None)], 20),
            ("has a clock that goes back", vec![(20, Some(1), lease(9)), (30, Some(1), lease(2))], 20),
        ] {
            assert_eq!(history(&seen).probe_time, at(probe_time), "{case}");
        }
    }

    #[test]
    fn the_grace_period_is_longer_during_startup() {
        let options = NodeLifecycleOptions::default();
        for (case, seen, grace) in [
            ("running", (0, Some(1), None), 50),
            ("starting", (5, None, None), 60),
            ("renewing", (0, None, lease(1)), 60),
        ] {
            let health = history(&[seen]);
            assert!(!health.grace_period_expired(&options, at(grace)), "{case}");
            assert!(health.grace_period_expired(&options, at(grace + 1)), "{case}");
        }
    }

    #[test]
    fn conditions_of_an_unresponsive_node_become_unknown() {
        let mut node = value!({
            "metadata": {"creationTimestamp": (at_text(0))},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m",
                 "lastHeartbeatTime": (at_text(5)), "lastTransitionTime": (at_text(1))},
                {"type": "DiskPressure", "status": "Unknown", "reason": "before"},
                {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"},
            ]},
        });
        mark_unknown(&mut node, at(60));
        let stopped = "Kubelet stopped posting node status.";
        let never = |kind: &'static str| {
            value!({"type": kind, "status": "Unknown", "reason": "NodeStatusNeverUpdated",
                "message": "Kubelet never posted node status.",
                "lastHeartbeatTime": (at_text(0)), "lastTransitionTime": (at_text(60))})
        };
        let expected = value!([
            {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown", "message": stopped,
             "lastHeartbeatTime": (at_text(5)), "lastTransitionTime": (at_text(60))},
            {"type": "DiskPressure", "status": "Unknown", "reason": "before"},
            {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"},
            (never("MemoryPressure")),
            (never("PIDPressure")),
        ]);
        assert_eq!(node.at(&["status", "conditions"]), Some(&expected));
    }
}
