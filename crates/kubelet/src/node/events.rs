//! The events of changes of the node's status, with upstream's reasons and messages. Pure.

use corten_api::{Value, meta};

use crate::eviction::Condition;

/// An event about the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct NodeEvent {
    pub(super) warning: bool,
    pub(super) reason: &'static str,
    pub(super) message: String,
}

/// The events of a change of the node's status. `before` is null for a new node.
pub(super) fn changes(name: &str, before: &Value, status: &Value) -> Vec<NodeEvent> {
    let old = before.get("status").cloned().unwrap_or_default();
    let mut events = Vec::new();
    let boot = status.str_at(&["nodeInfo", "bootID"]).unwrap_or_default();
    if old.str_at(&["nodeInfo", "bootID"]).is_some_and(|old| !old.is_empty() && old != boot) {
        let message = format!("Node {name} has been rebooted, boot id: {boot}");
        events.push(NodeEvent { warning: true, reason: "Rebooted", message });
    }
    let mut change = |reason| {
        events.push(NodeEvent {
            warning: false,
            reason,
            message: format!("Node {name} status is now: {reason}"),
        })
    };
    for condition in Condition::ALL {
        let is = holds(status, condition.name());
        if is.is_some() && holds(&old, condition.name()) != is {
            change(condition.event(is == Some("True")));
        }
    }
    // A node that did not exist before was not ready before: no event.
    let ready = holds(status, "Ready");
    if holds(&old, "Ready").is_some_and(|old| Some(old) != ready) {
        change(if ready == Some("True") { "NodeReady" } else { "NodeNotReady" });
    }
    events
}

/// The event of a change of `spec.unschedulable`, if it changed.
pub(super) fn schedulable(before: bool, node: &Value) -> Option<NodeEvent> {
    let is_closed = node.bool_at(&["spec", "unschedulable"]).unwrap_or(false);
    let reason = if is_closed { "NodeNotSchedulable" } else { "NodeSchedulable" };
    let message = format!("Node {} status is now: {reason}", meta::name(node));
    (before != is_closed).then_some(NodeEvent { warning: false, reason, message })
}

fn holds<'a>(status: &'a Value, kind: &str) -> Option<&'a str> {
    let condition = status.items_at(&["conditions"]).iter().find(|c| c.str_at(&["type"]) == Some(kind));
    condition.and_then(|condition| condition.str_at(&["status"]))
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn status(boot: &str, memory: &str, ready: &str) -> Value {
        value!({"nodeInfo": {"bootID": (boot)}, "conditions": [
            {"type": "MemoryPressure", "status": (memory)}, {"type": "DiskPressure", "status": "False"},
            {"type": "PIDPressure", "status": "False"}, {"type": "Ready", "status": (ready)},
        ]})
    }

    #[track_caller]
    fn check(before: Option<&Value>, now: &Value, expected: &[&str]) {
        let before = before.map_or(Value::Null, |status| value!({"status": (status.clone())}));
        let events: Vec<String> = changes("n", &before, now)
            .into_iter()
            .map(|NodeEvent { warning, reason, message }| format!("{warning} {reason}: {message}"))
            .collect();
        assert_eq!(events, expected);
    }

    #[test]
    fn changed_conditions_and_reboots_are_events() {
        let fine = status("1", "False", "True");
        check(
            None,
            &fine,
            &[
                "false NodeHasSufficientMemory: Node n status is now: NodeHasSufficientMemory",
                "false NodeHasNoDiskPressure: Node n status is now: NodeHasNoDiskPressure",
                "false NodeHasSufficientPID: Node n status is now: NodeHasSufficientPID",
            ],
        );
        check(Some(&fine), &fine, &[]);
        check(
            Some(&fine),
            &status("1", "True", "False"),
            &[
                "false NodeHasInsufficientMemory: Node n status is now: NodeHasInsufficientMemory",
                "false NodeNotReady: Node n status is now: NodeNotReady",
            ],
        );
        check(
            Some(&status("1", "Unknown", "Unknown")),
            &fine,
            &[
                "false NodeHasSufficientMemory: Node n status is now: NodeHasSufficientMemory",
                "false NodeReady: Node n status is now: NodeReady",
            ],
        );
        check(
            Some(&status("0", "False", "True")),
            &fine,
            &["true Rebooted: Node n has been rebooted, boot id: 1"],
        );
    }

    #[test]
    fn a_change_of_unschedulable_is_an_event() {
        let node = |closed: bool| value!({"metadata": {"name": "n"}, "spec": {"unschedulable": (closed)}});
        let reason = |before, now| schedulable(before, &node(now)).map(|news| news.reason);
        assert_eq!(reason(false, true), Some("NodeNotSchedulable"));
        assert_eq!(reason(true, false), Some("NodeSchedulable"));
        assert_eq!(reason(true, true), None);
    }
}
