//! The next status that a kubelet would report of a pod, given the last one. Pure: the status itself is the state, so a
//! restart continues where it stopped.
//!
//! Containers start, become ready and stop at once. Those of pods with a restart policy other than Always complete by
//! themselves, with exit code 0 unless an annotation sets another.

use std::net::Ipv4Addr;
use std::time::Duration;

use corten_api::{Map, Value, meta, time, value};
use jiff::Timestamp;

use crate::conditions::{self, Condition};

/// Annotation: the seconds after which the containers of a pod complete.
pub const RUN_FOR: &str = "simulator.corten.dev/run-for-seconds";
/// Annotation: the exit code of the containers.
pub const EXIT_CODE: &str = "simulator.corten.dev/exit-code";
/// The exit code of a process that SIGTERM ended.
const TERMINATED: i64 = 143;

/// The next step of a pod.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Next {
    /// Nothing: the status is up to date.
    Nothing,
    /// Sync again after this time.
    Later(Duration),
    /// Patch the status.
    Status(Value),
    /// Delete the pod: its containers have stopped.
    Delete,
}

/// The addresses of the pod and its node.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) host: Ipv4Addr,
    pub(crate) pod: Ipv4Addr,
}

pub(crate) fn is_finished(pod: &Value) -> bool {
    matches!(pod.str_at(&["status", "phase"]), Some("Succeeded" | "Failed"))
}

pub(crate) fn next(pod: &Value, addresses: Addresses, now: Timestamp) -> Next {
    let stopped = is_finished(pod);
    if meta::is_deleting(pod) {
        let waits = pod.int_at(&["metadata", "deletionGracePeriodSeconds"]).unwrap_or(0) > 0;
        // A pod without finalizers that is still there was not deleted because the server crashed meanwhile.
        let held = !waits && !pod.items_at(&["metadata", "finalizers"]).is_empty();
        return match (stopped, held) {
            (false, _) => Next::Status(status(pod, addresses, Stage::Ended(stopped_with(pod)), now)),
            (true, false) => Next::Delete,
            (true, true) => Next::Nothing,
        };
    }
    if stopped {
        return Next::Nothing;
    }
    let Some(started) = running_since(pod) else {
        let stage = if pod.at(&["status", "startTime"]).is_none() { Stage::Creating } else { Stage::Running };
        return Next::Status(status(pod, addresses, stage, now));
    };
    let left = run_for(pod).map(|run| left_of(run, started, now));
    if left == Some(Duration::ZERO) {
        return Next::Status(status(pod, addresses, Stage::Ended(exit_code(pod)), now));
    }
    let wanted = status(pod, addresses, Stage::Running, now);
    match left {
        _ if !covers(pod, &wanted) => Next::Status(wanted),
        Some(left) => Next::Later(left),
        None => Next::Nothing,
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Creating,
    Running,
    /// Every container has exited with this code.
    Ended(i64),
}

fn annotation<'a>(pod: &'a Value, name: &str) -> Option<&'a str> {
    pod.str_at(&["metadata", "annotations", name])
}

/// The run time of the containers; `None` if they run until they are stopped.
fn run_for(pod: &Value) -> Option<Duration> {
    let ends = pod.str_at(&["spec", "restartPolicy"]).is_some_and(|policy| policy != "Always");
    let seconds = || annotation(pod, RUN_FOR).and_then(|text| text.parse().ok()).unwrap_or(1.0);
    ends.then(|| Duration::try_from_secs_f64(seconds()).unwrap_or_default())
}

fn exit_code(pod: &Value) -> i64 {
    annotation(pod, EXIT_CODE).and_then(|text| text.parse().ok()).unwrap_or(0)
}

/// The exit code of stopped containers: those that should complete by themselves have not.
fn stopped_with(pod: &Value) -> i64 {
    if run_for(pod).is_some() { TERMINATED } else { 0 }
}

fn left_of(run: Duration, started: Timestamp, now: Timestamp) -> Duration {
    run.saturating_sub(now.duration_since(started).try_into().unwrap_or_default())
}

/// The time since which all containers run.
fn running_since(pod: &Value) -> Option<Timestamp> {
    let statuses = pod.items_at(&["status", "containerStatuses"]);
    let since = |status: &Value| {
        status.str_at(&["state", "running", "startedAt"]).and_then(|text| time::parse(text).ok())
    };
    let all: Option<Vec<Timestamp>> = statuses.iter().map(since).collect();
    all?.into_iter().max()
}

/// The status patch for a stage.
fn status(pod: &Value, addresses: Addresses, stage: Stage, now: Timestamp) -> Value {
    let restarts = restarts(pod, stage);
    let phase = match stage {
        Stage::Creating => "Pending",
        Stage::Ended(0) => "Succeeded",
        Stage::Ended(_) if !restarts => "Failed",
        Stage::Running | Stage::Ended(_) => "Running",
    };
    let started = pod.at(&["status", "startTime"]).cloned().unwrap_or_else(|| time::format(now).into());
    let host = addresses.host.to_string();
    let mut status = value!({
        "phase": (phase), "startTime": (started),
        "hostIP": (host.clone()), "hostIPs": [{"ip": (host)}],
        "observedGeneration": (meta::generation(pod)),
    });
    if stage != Stage::Creating {
        let on_host = pod.bool_at(&["spec", "hostNetwork"]) == Some(true);
        let ip = if on_host { addresses.host } else { addresses.pod }.to_string();
        status.set(&["podIP"], ip.clone());
        let mut ips = vec![value!({"ip": (ip.clone())})];
        let is_other = |known: &Value| known.str_at(&["ip"]) != Some(ip.as_str());
        // A pod IP of another pod CIDR is replaced, not kept beside the new one.
        if pod.items_at(&["status", "podIPs"]).iter().any(is_other) {
            ips.push(value!({"$patch": "replace"}));
        }
        status.set(&["podIPs"], ips);
    }
    let ordinary =
        |container: &Value, known: Option<&Value>| container_status(pod, container, known, stage, now);
    let statuses = each(pod, "containers", "containerStatuses", ordinary);
    status.set(&["containerStatuses"], statuses);
    if !pod.items_at(&["spec", "initContainers"]).is_empty() {
        let init = |container: &Value, known: Option<&Value>| {
            container_status(pod, container, known, init_stage(container, stage), now)
        };
        status.set(&["initContainerStatuses"], each(pod, "initContainers", "initContainerStatuses", init));
    }
    let conditions = conditions_at(pod, stage).into_iter().map(|condition| {
        let mut patch = condition.patch(pod, now);
        patch.insert("observedGeneration", meta::generation(pod));
        Value::Object(patch)
    });
    status.set(&["conditions"], Value::Array(conditions.collect()));
    value!({"metadata": {"uid": (meta::uid(pod))}, "status": (status)})
}

/// True if failed containers are restarted.
fn restarts(pod: &Value, stage: Stage) -> bool {
    let again = pod.str_at(&["spec", "restartPolicy"]) == Some("OnFailure") && !meta::is_deleting(pod);
    matches!(stage, Stage::Ended(code) if code != 0) && again
}

/// The status of every container of a list, given its last one.
fn each(pod: &Value, list: &str, statuses: &str, make: impl Fn(&Value, Option<&Value>) -> Value) -> Value {
    let name = |value: &Value| value.str_at(&["name"]).unwrap_or_default().to_owned();
    let known = pod.items_at(&["status", statuses]);
    let one = |container: &Value| make(container, known.iter().find(|s| name(s) == name(container)));
    Value::Array(pod.items_at(&["spec", list]).iter().map(one).collect())
}

/// The stage of an init container: completed once the others run; a sidecar is at the same stage as they are.
fn init_stage(container: &Value, stage: Stage) -> Stage {
    let stays = container.str_at(&["restartPolicy"]) == Some("Always");
    if stage == Stage::Running && !stays { Stage::Ended(0) } else { stage }
}

fn container_status(
    pod: &Value,
    container: &Value,
    known: Option<&Value>,
    stage: Stage,
    now: Timestamp,
) -> Value {
    let text = |key: &str| container.str_at(&[key]).unwrap_or_default();
    let now = time::format(now);
    let mut count = known.and_then(|s| s.int_at(&["restartCount"])).unwrap_or(0);
    let was = known.and_then(|status| status.get("state"));
    let since = was.and_then(|state| state.at(&["running", "startedAt"])).cloned();
    let id = |count: i64| format!("simulated://{}/{}/{count}", meta::uid(pod), text("name"));
    let ended = |code: i64, count: i64| {
        let reason = if code == 0 { "Completed" } else { "Error" };
        let since = since.clone().unwrap_or_else(|| now.clone().into());
        value!({"terminated": {
            "exitCode": (code), "reason": (reason), "startedAt": (since), "finishedAt": (now.clone()),
            "containerID": (id(count)),
        }})
    };
    let mut last = known.and_then(|status| status.get("lastState")).cloned().unwrap_or_else(Value::object);
    let waiting = if pod.items_at(&["spec", "initContainers"]).is_empty() {
        "ContainerCreating"
    } else {
        "PodInitializing"
    };
    let state = match stage {
        Stage::Creating => value!({"waiting": {"reason": (waiting)}}),
        Stage::Running => match &since {
            Some(since) => value!({"running": {"startedAt": (since.clone())}}),
            None => value!({"running": {"startedAt": (now.clone())}}),
        },
        Stage::Ended(code) if restarts(pod, stage) => {
            last = ended(code, count);
            count += 1;
            value!({"running": {"startedAt": (now.clone())}})
        }
        // A terminated container keeps its state.
        Stage::Ended(code) => match was.filter(|state| state.get("terminated").is_some()) {
            Some(state) => state.clone(),
            None => ended(code, count),
        },
    };
    let runs = state.get("running").is_some();
    let mut status = Map::new();
    status.insert("name", text("name"));
    status.insert("image", text("image"));
    status.insert("imageID", if stage == Stage::Creating { "" } else { text("image") });
    if stage != Stage::Creating {
        status.insert("containerID", id(count));
    }
    let completed = matches!(stage, Stage::Ended(0)) && !runs;
    status.insert("ready", runs || (completed && is_init(pod, text("name"))));
    status.insert("started", runs);
    status.insert("restartCount", count);
    status.insert("state", state);
    status.insert("lastState", last);
    Value::Object(status)
}

fn is_init(pod: &Value, name: &str) -> bool {
    pod.items_at(&["spec", "initContainers"]).iter().any(|c| c.str_at(&["name"]) == Some(name))
}

/// The pod conditions at a stage.
fn conditions_at(pod: &Value, stage: Stage) -> [Condition; 5] {
    let says = |kind, holds| Condition { kind, holds, ..Condition::default() };
    let but = |kind, reason, message: String| Condition { kind, holds: false, reason, message };
    let initialized = match stage {
        Stage::Creating if !pod.items_at(&["spec", "initContainers"]).is_empty() => {
            let message = format!("containers with incomplete status: [{}]", names(pod, "initContainers"));
            but("Initialized", "ContainersNotInitialized", message)
        }
        _ => says("Initialized", true),
    };
    let unready = |kind| match stage {
        Stage::Creating => {
            let message = format!("containers with unready status: [{}]", names(pod, "containers"));
            but(kind, "ContainersNotReady", message)
        }
        Stage::Running => says(kind, true),
        Stage::Ended(0) => but(kind, "PodCompleted", String::new()),
        Stage::Ended(_) if restarts(pod, stage) => says(kind, true),
        Stage::Ended(_) => but(kind, "PodFailed", String::new()),
    };
    let mut ready = unready("Ready");
    if let (true, Some(message)) = (ready.holds, missing_gates(pod)) {
        ready = but("Ready", "ReadinessGatesNotReady", message);
    }
    let networked = matches!(stage, Stage::Running) || restarts(pod, stage);
    [
        says("PodReadyToStartContainers", networked),
        initialized,
        ready,
        unready("ContainersReady"),
        says("PodScheduled", true),
    ]
}

fn names(pod: &Value, list: &str) -> String {
    let names: Vec<&str> = pod.items_at(&["spec", list]).iter().filter_map(|c| c.str_at(&["name"])).collect();
    names.join(" ")
}

/// The message about readiness gates whose conditions are not true.
fn missing_gates(pod: &Value) -> Option<String> {
    let gates = pod.items_at(&["spec", "readinessGates"]).iter().filter_map(|g| g.str_at(&["conditionType"]));
    let missing: Vec<String> = gates
        .filter(|gate| !conditions::is_true(pod, gate))
        .map(|gate| match conditions::find(pod, gate) {
            None => format!("corresponding condition of pod readiness gate \"{gate}\" does not exist."),
            Some(_) => format!("the status of pod readiness gate \"{gate}\" is not \"True\", but False"),
        })
        .collect();
    (!missing.is_empty()).then(|| missing.join(", "))
}

/// True if a patch would change nothing.
fn covers(object: &Value, patch: &Value) -> bool {
    match (object, patch) {
        (Value::Object(object), Value::Object(patch)) => {
            patch.iter().all(|(key, value)| match object.get(key) {
                Some(known) => covers(known, value),
                None => {
                    value.is_null()
                        || value.as_object().is_some_and(Map::is_empty)
                        || value.as_str() == Some("")
                }
            })
        }
        (Value::Array(object), Value::Array(patch)) => patch.iter().enumerate().all(|(at, value)| {
            let same = |known: &&Value| known.str_at(&["type"]) == value.str_at(&["type"]);
            let known = if value.get("type").is_some() { object.iter().find(same) } else { object.get(at) };
            known.is_some_and(|known| covers(known, value))
        }),
        (object, patch) => object == patch,
    }
}

#[cfg(test)]
mod tests;
