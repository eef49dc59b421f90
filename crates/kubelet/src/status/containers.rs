//! The status of one container.

use corten_api::{Map, Value, time, value};
use corten_container::{ContainerState, ContainerStatus};
use jiff::Timestamp;

use super::{Readiness, StatusFacts};
use crate::containers::observed::Observed;
use crate::pod::{Container, Pod, Role};

/// The exit code of a container that the runtime lost.
const LOST: i32 = 137;

pub(super) fn status(
    pod: &Pod,
    container: &Container,
    observed: &Observed,
    facts: &StatusFacts,
    before: &[Value],
    over: bool,
) -> Value {
    let old = before.iter().find(|s| s.str_at(&["name"]) == Some(container.name.as_str()));
    let mut attempts = observed.attempts(&container.name);
    let Some(latest) = attempts.next() else { return missing_status(pod, container, facts, old, over) };
    let mut out = Map::new();
    let readiness = readiness(container, latest, facts);
    out.insert("name", container.name.clone());
    let (mut state, mut last) = (state(latest, facts), Value::object());
    if let Some(previous) = attempts.find(|s| s.state == ContainerState::Exited) {
        last = value!({"terminated": (terminated(previous, facts))});
    } else if let Some(earlier) = old.filter(|_| latest.metadata.attempt > 0).and_then(|s| s.get("lastState"))
    {
        // The previous attempt may have been garbage collected.
        last = earlier.clone();
    }
    let waits = facts.waiting.get(container.name.as_str()).filter(|_| !over);
    if let Some(waiting) = waits.filter(|_| latest.state == ContainerState::Exited) {
        last = value!({"terminated": (terminated(latest, facts))});
        state = waiting_state(&waiting.reason, &waiting.message);
    }
    out.insert("state", state);
    out.insert("lastState", last);
    out.insert("ready", readiness.ready);
    out.insert("restartCount", i64::from(latest.metadata.attempt));
    out.insert("image", shown_image(latest, container));
    out.insert("imageID", latest.image_ref.as_str());
    out.insert("containerID", format!("{}://{}", facts.runtime, latest.id));
    if container.role != Role::Ephemeral || latest.state == ContainerState::Running {
        out.insert("started", readiness.started);
    }
    resources(container, latest, facts, &mut out);
    Value::Object(out)
}

/// The status of a container that the runtime does not have: not created yet, or lost.
fn missing_status(
    pod: &Pod,
    container: &Container,
    facts: &StatusFacts,
    old: Option<&Value>,
    over: bool,
) -> Value {
    if let Some(old) = old.filter(|s| s.at(&["state", "terminated"]).is_some()) {
        return old.clone();
    }
    let mut out = Map::new();
    out.insert("name", container.name.clone());
    out.insert("image", container.image());
    out.insert("imageID", "");
    out.insert("ready", false);
    out.insert("lastState", Value::object());
    let ran = old.filter(|s| s.at(&["state", "running"]).is_some());
    let restarts = old.and_then(|s| s.int_at(&["restartCount"])).unwrap_or(0);
    out.insert("restartCount", restarts);
    if container.role != Role::Ephemeral {
        out.insert("started", false);
    }
    let state = match (facts.waiting.get(container.name.as_str()), ran) {
        (_, Some(_)) if over => {
            let message = "The container could not be located when the pod was terminated";
            value!({"terminated": {
                "exitCode": (LOST), "reason": "ContainerStatusUnknown", "message": (message),
                "startedAt": null, "finishedAt": null,
            }})
        }
        (Some(waiting), _) => waiting_state(&waiting.reason, &waiting.message),
        (None, _) => {
            let behind_init = container.role == Role::Main && !pod.initial().is_empty()
                || matches!(container.role, Role::Init | Role::Sidecar);
            waiting_state(if behind_init { "PodInitializing" } else { "ContainerCreating" }, "")
        }
    };
    out.insert("state", state);
    Value::Object(out)
}

fn waiting_state(reason: &str, message: &str) -> Value {
    let mut waiting = Map::new();
    waiting.insert("reason", reason);
    if !message.is_empty() {
        waiting.insert("message", message);
    }
    value!({"waiting": (Value::Object(waiting))})
}

fn at(moment: Option<Timestamp>) -> Value {
    moment.map_or(Value::Null, |moment| Value::from(time::format(moment)))
}

fn state(status: &ContainerStatus, facts: &StatusFacts) -> Value {
    match status.state {
        ContainerState::Running => value!({"running": {"startedAt": (at(status.started_at))}}),
        ContainerState::Exited => value!({"terminated": (terminated(status, facts))}),
        ContainerState::Created | ContainerState::Unknown => waiting_state("ContainerCreating", ""),
    }
}

fn terminated(status: &ContainerStatus, facts: &StatusFacts) -> Value {
    let mut out = Map::new();
    out.insert("exitCode", i64::from(status.exit_code));
    out.insert("reason", status.reason.as_str());
    if !status.message.is_empty() {
        out.insert("message", status.message.as_str());
    }
    out.insert("startedAt", at(status.started_at));
    out.insert("finishedAt", at(status.finished_at));
    out.insert("containerID", format!("{}://{}", facts.runtime, status.id));
    Value::Object(out)
}

/// Init containers are ready once they have succeeded; the others by their probes.
fn readiness(container: &Container, status: &ContainerStatus, facts: &StatusFacts) -> Readiness {
    let running = status.state == ContainerState::Running;
    match container.role {
        Role::Init => Readiness {
            started: running,
            ready: status.state == ContainerState::Exited && status.exit_code == 0,
        },
        Role::Ephemeral => Readiness { started: running, ready: false },
        Role::Sidecar | Role::Main => {
            let Readiness { started, ready } = facts.readiness(status);
            Readiness { started: running && started, ready: running && started && ready }
        }
    }
}

/// The pod's image name, unless the runtime has a better one.
fn shown_image<'a>(status: &'a ContainerStatus, container: &'a Container) -> &'a str {
    let facts = [&status.image.user_specified_image, &status.image.image];
    facts.into_iter().find(|name| !name.is_empty()).map_or_else(|| container.image(), String::as_str)
}

/// The allocated resources of a container, and the actuated ones if it runs.
fn resources(container: &Container, status: &ContainerStatus, facts: &StatusFacts, out: &mut Map) {
    let allocated = container.tree.get("resources").cloned().unwrap_or_else(Value::object);
    if let Some(requests) = allocated.get("requests").filter(|requests| !requests.is_null()) {
        out.insert("allocatedResources", requests.clone());
    }
    let actuated = facts.actuated.as_ref().filter(|_| status.state == ContainerState::Running);
    let has = actuated.and_then(|actuated| actuated.container(&container.name));
    out.insert("resources", has.cloned().unwrap_or(allocated));
}
