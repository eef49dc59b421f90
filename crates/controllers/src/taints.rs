//! Taints of nodes: those that conditions imply, and swaps of taints.
//!
//! Two taints are equal if key and effect are; a node's list is replaced as a whole, provided the node still has the
//! version it was read in.

use corten_api::{Str, Value, time, value};
use corten_client::Patch;
use jiff::Timestamp;

pub(crate) const NOT_READY: &str = "node.kubernetes.io/not-ready";
pub(crate) const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";

pub(crate) const NO_EXECUTE: &str = "NoExecute";
const NO_SCHEDULE: &str = "NoSchedule";

/// The condition and status of each taint.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// The keys of taints to add and to remove, all of one effect.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Swap<'a> {
    pub(crate) effect: &'static str,
    pub(crate) add: Vec<&'a str>,
    pub(crate) remove: Vec<&'a str>,
}

impl Swap<'_> {
    /// The taints after the swap; `None` if it changes nothing.
    pub(crate) fn apply(&self, taints: &[Value], now: Timestamp) -> Option<Vec<Value>> {
        let added: Vec<_> = self.add.iter().filter(|key| !has(taints, key, self.effect)).collect();
        let mut kept = taints.to_vec();
        kept.retain(|taint| !self.remove.iter().any(|key| is(taint, key, self.effect)));
        if added.is_empty() && kept.len() == taints.len() {
            return None;
        }
        kept.extend(
            added.into_iter().map(
                |key| value!({"key": (*key), "effect": (self.effect), "timeAdded": (time::format(now))}),
            ),
        );
        Some(kept)
    }
}

fn is(taint: &Value, key: &str, effect: &str) -> bool {
    taint.str_at(&["key"]) == Some(key) && taint.str_at(&["effect"]) == Some(effect)
}

pub(crate) fn has(taints: &[Value], key: &str, effect: &str) -> bool {
    taints.iter().any(|taint| is(taint, key, effect))
}

/// The swap that aligns a node's NoSchedule taints with its conditions and its cordon.
pub(crate) fn by_condition(node: &Value) -> Swap<'static> {
    let conditions = node.items_at(&["status", "conditions"]);
    let holds = |kind: &str, status: &str| {
        conditions.iter().any(|c| c.str_at(&["type"]) == Some(kind) && c.str_at(&["status"]) == Some(status))
    };
    let cordoned = node.bool_at(&["spec", "unschedulable"]) == Some(true);
    let by_condition = BY_CONDITION.iter().map(|(kind, status, key)| (*key, holds(kind, status)));
    let mut swap = Swap { effect: NO_SCHEDULE, ..Swap::default() };
    let taints = node.items_at(&["spec", "taints"]);
    for (key, wanted) in by_condition.chain([(UNSCHEDULABLE, cordoned)]) {
        match (has(taints, key, NO_SCHEDULE), wanted) {
            (false, true) => swap.add.push(key),
            (true, false) => swap.remove.push(key),
            _ => {}
        }
    }
    swap
}

/// The taints with the effect NoExecute.
pub(crate) fn no_execute(taints: &[Value]) -> Vec<Value> {
    taints.iter().filter(|taint| taint.str_at(&["effect"]) == Some(NO_EXECUTE)).cloned().collect()
}

/// Replaces a node's taints, if it still has this version.
pub(crate) fn patch(version: impl Into<Str>, taints: Vec<Value>) -> Patch {
    let taints = if taints.is_empty() { Value::Null } else { Value::Array(taints) };
    Patch::Strategic(
        value!({"metadata": {"resourceVersion": (version.into())}, "spec": {"taints": (taints)}}),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{at, at_text};

    fn taint(key: &str, effect: &str) -> Value {
        value!({"key": key, "effect": effect})
    }

    #[test]
    fn conditions_imply_taints() {
        for (case, conditions, cordoned, taints, add, remove) in [
            ("ready", value!([{"type": "Ready", "status": "True"}]), false, vec![], vec![], vec![]),
            (
                "not ready",
                value!([{"type": "Ready", "status": "False"}]),
                false,
                vec![],
                vec![NOT_READY],
                vec![],
            ),
            (
                "from not ready to unreachable",
                value!([{"type": "Ready", "status": "Unknown"}]),
                false,
                vec![taint(NOT_READY, NO_SCHEDULE)],
                vec![UNREACHABLE],
                vec![NOT_READY],
            ),
            (
                "pressure, and a cordon that ended",
                value!([
                    {"type": "Ready", "status": "True"}, {"type": "PIDPressure", "status": "True"},
                    {"type": "MemoryPressure", "status": "True"}, {"type": "DiskPressure", "status": "True"},
                    {"type": "NetworkUnavailable", "status": "True"},
                ]),
                false,
                vec![taint(UNSCHEDULABLE, NO_SCHEDULE)],
                vec![
                    "node.kubernetes.io/memory-pressure",
                    "node.kubernetes.io/disk-pressure",
                    "node.kubernetes.io/network-unavailable",
                    "node.kubernetes.io/pid-pressure",
                ],
                vec![UNSCHEDULABLE],
            ),
            (
                "unknown pressure is none",
                value!([{"type": "MemoryPressure", "status": "Unknown"}]),
                false,
                vec![taint("node.kubernetes.io/memory-pressure", NO_SCHEDULE)],
                vec![],
                vec!["node.kubernetes.io/memory-pressure"],
            ),
            ("cordoned", value!([]), true, vec![], vec![UNSCHEDULABLE], vec![]),
            (
                "others' taints stay",
                value!([{"type": "Ready", "status": "True"}]),
                false,
                vec![taint("theirs", NO_SCHEDULE), taint(NOT_READY, NO_EXECUTE)],
                vec![],
                vec![],
            ),
        ] {
            let node = value!({
                "spec": {"unschedulable": cordoned, "taints": (Value::Array(taints))},
                "status": {"conditions": (conditions)},
            });
            assert_eq!(by_condition(&node), Swap { effect: NO_SCHEDULE, add, remove }, "{case}");
        }
    }

    #[test]
    fn a_swap_keeps_other_taints() {
        let taints = [taint("a", NO_EXECUTE), taint(NOT_READY, NO_EXECUTE), taint(NOT_READY, NO_SCHEDULE)];
        let swap = Swap { effect: NO_EXECUTE, add: vec![UNREACHABLE], remove: vec![NOT_READY] };
        let mut added = taint(UNREACHABLE, NO_EXECUTE);
        added.set(&["timeAdded"], at_text(0));
        let swapped = swap.apply(&taints, at(0)).unwrap();
        assert_eq!(swapped, [taints[0].clone(), taints[2].clone(), added]);
        assert_eq!(swap.apply(&swapped, at(9)), None, "once is enough");
    }

    #[test]
    fn the_last_taint_is_removed_with_null() {
        let Patch::Strategic(patch) = patch("7", vec![]) else { panic!() };
        assert_eq!(patch, value!({"metadata": {"resourceVersion": "7"}, "spec": {"taints": null}}));
    }
}
