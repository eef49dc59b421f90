//! Signs of life: how long ago a node was last heard of, by its own report or by its lease. Pure.
//!
//! Only this process's clock counts. What nodes write is compared with what they wrote before, never with the time.

use std::time::Duration;

use corten_api::{Value, meta, time};
use corten_client::View;
use jiff::{SignedDuration, Timestamp};

use super::NodeLifecycleOptions;
use crate::nodes::{NodeView, Ready};

/// Conditions that nobody knows of a node that is silent. Whether there is a network is not for nodes to say.
const REPORTED: [&str; 4] = ["Ready", "MemoryPressure", "DiskPressure", "PIDPressure"];

/// What is read off leases.
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

/// What is remembered of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Health {
    /// When it last gave a sign of life.
    pub(super) heard: Timestamp,
    ready: Option<Ready>,
    pub(super) lease: Option<LeaseView>,
}

impl Health {
    /// What is to be remembered of a node now.
    pub(super) fn next(
        known: Option<Health>,
        node: &NodeView,
        lease: Option<LeaseView>,
        now: Timestamp,
    ) -> Health {
        let reported = |known: &Health| known.ready.as_ref().map(|ready| ready.heartbeat);
        let heartbeat = node.ready.as_ref().map(|ready| ready.heartbeat);
        let known_lease = known.as_ref().and_then(|known| known.lease);
        let heard = match known {
            // Nobody is heard of by a condition that is not there.
            Some(known) if heartbeat.is_none() || reported(&known) == heartbeat => known.heard,
            None if heartbeat.is_none() => node.created.unwrap_or(now),
            _ => now,
        };
        let mut health = Health { heard, ready: node.ready.clone(), lease: known_lease };
        if let Some(lease) = lease
            && known_lease.is_none_or(|known| known.renewed < lease.renewed)
        {
            health.heard = now;
            health.lease = Some(lease);
        }
        health
    }

    /// Whether a node has been silent for too long.
    pub(super) fn is_silent(&self, options: &NodeLifecycleOptions, now: Timestamp) -> bool {
        let grace = if self.ready.is_some() { options.monitor_grace } else { options.startup_grace };
        after(self.heard, grace) < now
    }
}

pub(super) fn after(at: Timestamp, delay: Duration) -> Timestamp {
    let delay = SignedDuration::try_from(delay).unwrap_or(SignedDuration::MAX);
    at.checked_add(delay).unwrap_or(Timestamp::MAX)
}

/// Says in a node's conditions that it is silent.
pub(super) fn silence(node: &mut Value, now: Timestamp) {
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

/// Whether a node has reported since it was seen.
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

    /// What is known of a node that was seen in these states at these times.
    fn history(seen: &[(i64, Option<i64>, Option<LeaseView>)]) -> Health {
        let next = |known, (now, heartbeat, lease): &(i64, Option<i64>, Option<LeaseView>)| {
            Some(Health::next(known, &node(*heartbeat), *lease, at(*now)))
        };
        seen.iter().fold(None, next).unwrap()
    }

    #[test]
    fn signs_of_life() {
        for (case, seen, heard) in [
            ("never said anything", vec![(20, None, None)], 0),
            ("still never said anything", vec![(20, None, None), (30, None, None)], 0),
            ("speaks for the first time", vec![(20, None, None), (30, Some(1), None)], 30),
            ("is seen for the first time", vec![(20, Some(1), None)], 20),
            ("repeats nothing", vec![(20, Some(1), None), (30, Some(1), None)], 20),
            ("reports", vec![(20, Some(1), None), (30, Some(2), None)], 30),
            ("takes its report back", vec![(20, Some(1), None), (30, None, None)], 20),
            ("renews", vec![(20, Some(1), lease(1)), (30, Some(1), lease(2))], 30),
            ("does not renew", vec![(20, Some(1), lease(1)), (30, Some(1), lease(1))], 20),
            ("renews without reporting", vec![(20, None, lease(1)), (30, None, lease(2))], 30),
            ("loses its lease", vec![(20, Some(1), lease(1)), (30, Some(1), None)], 20),
            ("has a clock that goes back", vec![(20, Some(1), lease(9)), (30, Some(1), lease(2))], 20),
        ] {
            assert_eq!(history(&seen).heard, at(heard), "{case}");
        }
    }

    #[test]
    fn silence_has_its_grace_period() {
        let options = NodeLifecycleOptions::default();
        for (case, seen, grace) in [
            ("running", (0, Some(1), None), 50),
            ("starting", (5, None, None), 60),
            ("renewing", (0, None, lease(1)), 60),
        ] {
            let health = history(&[seen]);
            assert!(!health.is_silent(&options, at(grace)), "{case}");
            assert!(health.is_silent(&options, at(grace + 1)), "{case}");
        }
    }

    #[test]
    fn what_a_silent_node_said_is_no_longer_known() {
        let mut node = value!({
            "metadata": {"creationTimestamp": (at_text(0))},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "reason": "KubeletReady", "message": "m",
                 "lastHeartbeatTime": (at_text(5)), "lastTransitionTime": (at_text(1))},
                {"type": "DiskPressure", "status": "Unknown", "reason": "before"},
                {"type": "NetworkUnavailable", "status": "False", "reason": "RouteCreated"},
            ]},
        });
        silence(&mut node, at(60));
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
