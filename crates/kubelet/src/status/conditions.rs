//! The conditions of a pod, in upstream's order.

use corten_api::{Map, Value, time};
use jiff::Timestamp;

use super::StatusFacts;
use crate::containers::observed::{Observed, Sandbox};
use crate::pod::{HostNamespace, Pod, Role};
use crate::resources::allocation::Resizing;

/// The parts of a status that conditions depend on.
pub(super) struct Parts<'a> {
    pub(super) init: &'a [Value],
    pub(super) main: &'a [Value],
    pub(super) phase: &'a str,
    /// The message of the `DisruptionTarget` condition, if it is set.
    pub(super) disrupted: Option<&'a str>,
}

/// A condition's status, and the reason if it is false.
#[derive(Debug, Default, PartialEq, Eq)]
struct Answer {
    holds: bool,
    reason: &'static str,
    message: String,
}

impl Answer {
    fn yes() -> Answer {
        Answer { holds: true, ..Answer::default() }
    }

    fn completed(holds: bool) -> Answer {
        Answer { holds, reason: "PodCompleted", message: String::new() }
    }

    fn no(reason: &'static str, message: String) -> Answer {
        Answer { holds: false, reason, message }
    }
}

/// All conditions of the kubelet, and after them those of other writers as they were.
pub(super) fn conditions(
    pod: &Pod,
    observed: &Observed,
    parts: &Parts<'_>,
    old: &Value,
    now: Timestamp,
    facts: &StatusFacts,
) -> Vec<Value> {
    let containers = containers_ready(pod, parts);
    let ready = ready(pod, &containers, old);
    let mut own = vec![
        ("PodReadyToStartContainers", sandbox_ready(pod, observed)),
        ("Initialized", initialized(pod, parts)),
        ("Ready", ready),
        ("ContainersReady", containers),
        ("PodScheduled", Answer::yes()),
    ];
    if let Some(why) = parts.disrupted {
        let reason = "TerminationByKubelet";
        own.push(("DisruptionTarget", Answer { holds: true, reason, message: why.to_owned() }));
    }
    let before = old.items_at(&["conditions"]);
    let mut all: Vec<Value> =
        own.iter().map(|(kind, answer)| written(pod, kind, answer, before, now)).collect();
    all.extend(facts.resizing.written());
    let kinds = || own.iter().map(|(kind, _)| *kind).chain(Resizing::KINDS);
    let is_own = |c: &&Value| kinds().any(|kind| c.str_at(&["type"]) == Some(kind));
    all.extend(before.iter().filter(|c| !is_own(c)).cloned());
    all
}

fn written(pod: &Pod, kind: &str, answer: &Answer, before: &[Value], now: Timestamp) -> Value {
    let status = if answer.holds { "True" } else { "False" };
    let old = before.iter().find(|c| c.str_at(&["type"]) == Some(kind));
    let unchanged = old.filter(|c| c.str_at(&["status"]) == Some(status));
    let since = unchanged.and_then(|c| c.get("lastTransitionTime")).filter(|at| !at.is_null()).cloned();
    let mut condition = Map::new();
    condition.insert("type", kind);
    condition.insert("status", status);
    condition.insert("lastProbeTime", Value::Null);
    condition.insert("lastTransitionTime", since.unwrap_or_else(|| Value::from(time::format(now))));
    if let Some(generation) = pod.tree().int_at(&["metadata", "generation"]).filter(|g| *g != 0) {
        condition.insert("observedGeneration", generation);
    }
    if !answer.reason.is_empty() {
        condition.insert("reason", answer.reason);
    }
    if !answer.message.is_empty() {
        condition.insert("message", answer.message.as_str());
    }
    Value::Object(condition)
}

fn sandbox_ready(pod: &Pod, observed: &Observed) -> Answer {
    let fit = matches!(observed.sandbox(pod.uses_host(HostNamespace::Network)), Sandbox::Ready { .. });
    Answer { holds: fit, ..Answer::default() }
}

fn is_over(phase: &str) -> Option<bool> {
    match phase {
        "Succeeded" => Some(true),
        "Failed" => Some(false),
        _ => None,
    }
}

fn initialized(pod: &Pod, parts: &Parts<'_>) -> Answer {
    if parts.init.is_empty() && pod.initial().is_empty() {
        return match is_over(parts.phase) {
            Some(true) => Answer::completed(true),
            _ => Answer::yes(),
        };
    }
    let of = |name: &str| parts.init.iter().find(|s| s.str_at(&["name"]) == Some(name));
    let mut unknown = Vec::new();
    let mut incomplete = Vec::new();
    for container in pod.initial() {
        let Some(status) = of(&container.name) else {
            unknown.push(container.name.as_str());
            continue;
        };
        let done = match container.role {
            Role::Sidecar => status.bool_at(&["started"]) == Some(true),
            _ => status.bool_at(&["ready"]) == Some(true),
        };
        if !done {
            incomplete.push(container.name.as_str());
        }
    }
    if parts.phase == "Succeeded" && unknown.is_empty() {
        return Answer::completed(true);
    }
    // Containers that run or ran imply that initialization is complete.
    let begun = parts.main.iter().any(|s| {
        s.at(&["state", "running"]).is_some()
            || s.at(&["state", "terminated"]).is_some()
            || s.at(&["lastState", "terminated"]).is_some()
    });
    if begun {
        return Answer::yes();
    }
    shortcomings("ContainersNotInitialized", &unknown, "incomplete", &incomplete)
}

fn containers_ready(pod: &Pod, parts: &Parts<'_>) -> Answer {
    match is_over(parts.phase) {
        Some(true) => return Answer::completed(false),
        Some(false) => return Answer::no("PodFailed", String::new()),
        None => {}
    }
    let mut unknown = Vec::new();
    let mut unready = Vec::new();
    let lists = [(Role::Sidecar, parts.init), (Role::Main, parts.main)];
    for (role, list) in lists {
        for container in pod.with_role(role) {
            match list.iter().find(|s| s.str_at(&["name"]) == Some(&container.name)) {
                None => unknown.push(container.name.as_str()),
                Some(status) if status.bool_at(&["ready"]) == Some(true) => {}
                Some(_) => unready.push(container.name.as_str()),
            }
        }
    }
    shortcomings("ContainersNotReady", &unknown, "unready", &unready)
}

fn shortcomings(reason: &'static str, unknown: &[&str], what: &str, lacking: &[&str]) -> Answer {
    let listed = |what: &str, names: &[&str]| format!("containers with {what} status: [{}]", names.join(" "));
    let mut messages = Vec::new();
    if !unknown.is_empty() {
        messages.push(listed("unknown", unknown));
    }
    if !lacking.is_empty() {
        messages.push(listed(what, lacking));
    }
    if messages.is_empty() { Answer::yes() } else { Answer::no(reason, messages.join(", ")) }
}

/// The `Ready` condition: ready containers and every readiness gate.
fn ready(pod: &Pod, containers: &Answer, old: &Value) -> Answer {
    if !containers.holds {
        return Answer { holds: false, reason: containers.reason, message: containers.message.clone() };
    }
    let conditions = old.items_at(&["conditions"]);
    let mut closed = Vec::new();
    for gate in pod.tree().items_at(&["spec", "readinessGates"]) {
        let kind = gate.str_at(&["conditionType"]).unwrap_or_default();
        match conditions.iter().find(|c| c.str_at(&["type"]) == Some(kind)) {
            None => {
                closed.push(format!("corresponding condition of pod readiness gate {kind:?} does not exist."))
            }
            Some(c) if c.str_at(&["status"]) == Some("True") => {}
            Some(c) => {
                let status = c.str_at(&["status"]).unwrap_or_default();
                let expected = "the status of pod readiness gate";
                closed.push(format!("{expected} {kind:?} is not \"True\", but {status}"));
            }
        }
    }
    if closed.is_empty() { Answer::yes() } else { Answer::no("ReadinessGatesNotReady", closed.join(", ")) }
}
