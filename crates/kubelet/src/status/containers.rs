//! The status of one container.

use corten_api::{Map, Value, time, value};
use corten_container::{ContainerState, ContainerStatus};
use jiff::Timestamp;

use super::{Known, Readiness};
use crate::observed::Observed;
use crate::pod::{Container, Pod, Role};

/// What the runtime lost sight of ended like this.
const LOST: i32 = 137;

pub(super) fn status(
    pod: &Pod,
    container: &Container,
    observed: &Observed,
    known: &Known,
    before: &[Value],
    over: bool,
) -> Value {
    let old = before.iter().find(|s| s.str_at(&["name"]) == Some(container.name.as_str()));
    let mut attempts = observed.attempts(&container.name);
    let Some(latest) = attempts.next() else { return unseen(pod, container, known, old, over) };
    let mut out = Map::new();
    let readiness = readiness(container, latest, known);
    out.insert("name", container.name.clone());
    let (mut state, mut last) = (state(latest, known), Value::object());
    if let Some(previous) = attempts.find(|s| s.state == ContainerState::Exited) {
        last = value!({"terminated": (terminated(previous, known))});
    } else if let Some(earlier) = old.filter(|_| latest.metadata.attempt > 0).and_then(|s| s.get("lastState"))
    {
        // The runtime may have collected the attempt before.
        last = earlier.clone();
    }
    let waits = known.waiting.get(container.name.as_str()).filter(|_| !over);
    if let Some(waiting) = waits.filter(|_| latest.state == ContainerState::Exited) {
        last = value!({"terminated": (terminated(latest, known))});
        state = waiting_state(&waiting.reason, &waiting.message);
    }
    out.insert("state", state);
    out.insert("lastState", last);
    out.insert("ready", readiness.ready);
    out.insert("restartCount", i64::from(latest.metadata.attempt));
    out.insert("image", shown_image(latest, container));
    out.insert("imageID", latest.image_ref.as_str());
    out.insert("containerID", format!("{}://{}", known.runtime, latest.id));
    if container.role != Role::Ephemeral || latest.state == ContainerState::Running {
        out.insert("started", readiness.started);
    }
    resources(container, latest, known, &mut out);
    Value::Object(out)
}

/// A container that the runtime knows nothing of: not made yet, or gone without a trace.
fn unseen(pod: &Pod, container: &Container, known: &Known, old: Option<&Value>, over: bool) -> Value {
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
    let state = match (known.waiting.get(container.name.as_str()), ran) {
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

fn state(status: &ContainerStatus, known: &Known) -> Value {
    match status.state {
        ContainerState::Running => value!({"running": {"startedAt": (at(status.started_at))}}),
        ContainerState::Exited => value!({"terminated": (terminated(status, known))}),
        ContainerState::Created | ContainerState::Unknown => waiting_state("ContainerCreating", ""),
    }
}

fn terminated(status: &ContainerStatus, known: &Known) -> Value {
    let mut out = Map::new();
    out.insert("exitCode", i64::from(status.exit_code));
    out.insert("reason", status.reason.as_str());
    if !status.message.is_empty() {
        out.insert("message", status.message.as_str());
    }
    out.insert("startedAt", at(status.started_at));
    out.insert("finishedAt", at(status.finished_at));
    out.insert("containerID", format!("{}://{}", known.runtime, status.id));
    Value::Object(out)
}

/// Init containers are ready once they have succeeded; the others when their probes say so.
fn readiness(container: &Container, status: &ContainerStatus, known: &Known) -> Readiness {
    let running = status.state == ContainerState::Running;
    match container.role {
        Role::Init => Readiness {
            started: running,
            ready: status.state == ContainerState::Exited && status.exit_code == 0,
        },
        Role::Ephemeral => Readiness { started: running, ready: false },
        Role::Sidecar | Role::Main => {
            let Readiness { started, ready } = known.readiness(status);
            Readiness { started: running && started, ready: running && started && ready }
        }
    }
}

/// The name the pod gave, unless the runtime has a better one.
fn shown_image<'a>(status: &'a ContainerStatus, container: &'a Container) -> &'a str {
    let known = [&status.image.user_specified_image, &status.image.image];
    known.into_iter().find(|name| !name.is_empty()).map_or_else(|| container.image(), String::as_str)
}

/// What the container was given, and what it has of that if it runs.
fn resources(container: &Container, status: &ContainerStatus, known: &Known, out: &mut Map) {
    let allocated = container.tree.get("resources").cloned().unwrap_or_else(Value::object);
    if let Some(requests) = allocated.get("requests").filter(|requests| !requests.is_null()) {
        out.insert("allocatedResources", requests.clone());
    }
    let actuated = known.actuated.as_ref().filter(|_| status.state == ContainerState::Running);
    let has = actuated.and_then(|actuated| actuated.container(&container.name));
    out.insert("resources", has.cloned().unwrap_or(allocated));
}
