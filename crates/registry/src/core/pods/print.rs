//! A pod's row: its containers' states as a word, a ratio and a count.
//!
//! The order of the rules is that of kubectl: a failing init container outranks the phase,
//! the first container's problem outranks the last's, and deletion outranks everything but
//! termination.

use corten_api::{Value, value};
use jiff::Timestamp;

use super::first_ip;
use crate::rules::RowContext;
use crate::table::{
    NONE, age, cells, condition, condition_true, int_at, name, present, str_at, str_or, time_at,
};
use corten_api::duration::human_since;

pub(super) fn row(pod: &Value, context: &RowContext<'_>) -> Vec<Value> {
    let summary = Summary::of(pod);
    let restarts = match summary.last_restart {
        Some(last) if summary.restarts != 0 => {
            format!("{} ({} ago)", summary.restarts, human_since(last, context.now))
        }
        _ => summary.restarts.to_string(),
    };
    let ip = match first_ip(pod) {
        "" => NONE,
        ip => ip,
    };
    cells![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers),
        summary.reason,
        restarts,
        age(pod, context),
        ip,
        str_or(pod, &["spec", "nodeName"], NONE),
        str_or(pod, &["status", "nominatedNodeName"], NONE),
        readiness_gates(pod),
    ]
}

pub(super) fn row_conditions(pod: &Value) -> Vec<Value> {
    let message = match str_at(pod, &["status", "phase"]) {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Vec::new(),
    };
    let phase = str_at(pod, &["status", "phase"]);
    vec![value!({"type": "Completed", "status": "True", "reason": phase, "message": message})]
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.items_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| condition_true(pod, str_at(gate, &["conditionType"]))).count();
    format!("{open}/{}", gates.len())
}

struct Summary {
    reason: String,
    ready: usize,
    containers: usize,
    restarts: i64,
    last_restart: Option<Timestamp>,
}

/// The restarts of some containers, and the time of the last one.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Timestamp>,
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += int_at(status, &["restartCount"]);
        self.last = self.last.max(time_at(status, &["lastState", "terminated", "finishedAt"]));
    }
}

impl Summary {
    fn of(pod: &Value) -> Summary {
        let phase = str_at(pod, &["status", "phase"]);
        let mut reason = str_or(pod, &["status", "reason"], phase).to_owned();
        let gated = condition(pod, "PodScheduled").is_some_and(|c| c.str_at(&["reason"]) == Some(GATED));
        if gated {
            reason = GATED.to_owned();
        }
        let sidecars = sidecars(pod).count();
        let containers = pod.items_at(&["spec", "containers"]).len() + sidecars;
        let mut summary = Summary { reason, ready: 0, containers, restarts: 0, last_restart: None };

        let init = summary.init_containers(pod);
        let mut restarts = init.all;
        if !init.unfinished || condition_true(pod, "Initialized") {
            restarts = init.sidecars;
            summary.main_containers(pod, &mut restarts);
        }
        if present(pod, &["metadata", "deletionTimestamp"]) {
            if pod.str_at(&["status", "reason"]) == Some("NodeLost") {
                summary.reason = "Unknown".to_owned();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                summary.reason = "Terminating".to_owned();
            }
        }
        (summary.restarts, summary.last_restart) = (restarts.count, restarts.last);
        summary
    }

    /// Evaluates init containers up to the first that has not finished; sidecars count as finished once they started.
    fn init_containers(&mut self, pod: &Value) -> Init {
        let mut init = Init::default();
        for (i, status) in pod.items_at(&["status", "initContainerStatuses"]).iter().enumerate() {
            init.all.add(status);
            let is_sidecar = sidecars(pod).any(|name| Some(name) == status.str_at(&["name"]));
            if is_sidecar {
                init.sidecars.add(status);
            }
            let terminated = status.at(&["state", "terminated"]).filter(|t| !t.is_null());
            if terminated.is_some_and(|t| int_at(t, &["exitCode"]) == 0) {
                continue;
            }
            if is_sidecar && status.bool_at(&["started"]) == Some(true) {
                self.ready += usize::from(is_ready(status));
                continue;
            }
            self.reason = match (terminated, str_at(status, &["state", "waiting", "reason"])) {
                (Some(terminated), _) => format!("Init:{}", termination(terminated)),
                (None, "" | "PodInitializing") => {
                    format!("Init:{i}/{}", pod.items_at(&["spec", "initContainers"]).len())
                }
                (None, reason) => format!("Init:{reason}"),
            };
            init.unfinished = true;
            break;
        }
        init
    }

    fn main_containers(&mut self, pod: &Value, restarts: &mut Restarts) {
        let mut running = false;
        let mut error = None;
        for status in pod.items_at(&["status", "containerStatuses"]).iter().rev() {
            restarts.add(status);
            let waiting = str_at(status, &["state", "waiting", "reason"]);
            if !waiting.is_empty() {
                self.reason = waiting.to_owned();
            } else if let Some(terminated) = status.at(&["state", "terminated"]).filter(|t| !t.is_null()) {
                self.reason = termination(terminated);
                if int_at(terminated, &["exitCode"]) != 0 {
                    error = Some(self.reason.clone());
                }
            } else if is_ready(status) && present(status, &["state", "running"]) {
                running = true;
                self.ready += 1;
            }
        }
        // One completed container does not make a pod completed.
        if self.reason == "Completed" {
            if running && condition_true(pod, "Ready") {
                self.reason = "Running".to_owned();
            } else if let Some(error) = error {
                self.reason = error;
            } else if running {
                self.reason = "NotReady".to_owned();
            }
        }
    }
}

#[derive(Default)]
struct Init {
    all: Restarts,
    sidecars: Restarts,
    unfinished: bool,
}

const GATED: &str = "SchedulingGated";

/// Names of the init containers that keep running beside the others.
fn sidecars(pod: &Value) -> impl Iterator<Item = &str> {
    let init = pod.items_at(&["spec", "initContainers"]).iter();
    init.filter(|c| c.str_at(&["restartPolicy"]) == Some("Always")).map(|c| str_at(c, &["name"]))
}

fn is_ready(status: &Value) -> bool {
    status.bool_at(&["ready"]) == Some(true)
}

/// The reason of a container's termination: the given one, or else the signal or exit code.
fn termination(terminated: &Value) -> String {
    match (str_at(terminated, &["reason"]), int_at(terminated, &["signal"])) {
        ("", 0) => format!("ExitCode:{}", int_at(terminated, &["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.to_owned(),
    }
}

#[cfg(test)]
mod tests;
