//! Rows of pods in every state.

use super::*;

const NOW: &str = "2024-01-01T12:00:00Z";

/// Ready, status and restarts of a pod as `1/2 Running 0`.
fn shown(pod: &Value) -> String {
    let now = corten_api::time::parse(NOW).unwrap();
    let cells = row(pod, &RowContext { now, marked: None });
    let text = |i: usize| cells[i].as_str().unwrap_or("?").to_owned();
    format!("{} {} {}", text(1), text(2), text(3))
}

/// A pod with so many containers and this status.
fn pod(containers: usize, status: Value) -> Value {
    let containers: Vec<Value> = (0..containers).map(|i| value!({"name": (format!("c{i}"))})).collect();
    value!({"metadata": {"name": "p"}, "spec": {"containers": containers}, "status": status})
}

fn with(mut pod: Value, path: &[&str], value: Value) -> Value {
    pod.set(path, value);
    pod
}

fn running(ready: bool, restarts: i64) -> Value {
    value!({"ready": ready, "restartCount": restarts, "state": {"running": {}}})
}

fn terminated(state: Value) -> Value {
    value!({"restartCount": 0, "state": {"terminated": state}})
}

fn waiting(reason: &str) -> Value {
    value!({"restartCount": 0, "state": {"waiting": {"reason": reason}}})
}

#[test]
fn main_containers() {
    let phase_only = |phase: &str| pod(2, value!({"phase": phase}));
    let of = |phase: &str, statuses: Vec<Value>| {
        pod(statuses.len(), value!({"phase": phase, "containerStatuses": statuses}))
    };
    let ready = value!([{"type": "Ready", "status": "True"}]);
    let restarted = value!({
        "ready": true, "restartCount": 3, "state": {"running": {}},
        "lastState": {"terminated": {"finishedAt": "2024-01-01T11:55:00Z"}},
    });
    let done = || terminated(value!({"exitCode": 0, "reason": "Completed"}));
    let failed = || terminated(value!({"exitCode": 255, "reason": "Error"}));
    let table = [
        (phase_only("Pending"), "0/2 Pending 0"),
        (of("Running", vec![running(true, 3), running(false, 0)]), "1/2 Running 3"),
        (of("Running", vec![running(true, 3), waiting("ContainerCreating")]), "1/2 ContainerCreating 3"),
        (of("Running", vec![waiting("CrashLoopBackOff")]), "0/1 CrashLoopBackOff 0"),
        (of("Running", vec![waiting("First"), waiting("Last")]), "0/2 First 0"),
        (of("Running", vec![terminated(value!({"exitCode": 3}))]), "0/1 ExitCode:3 0"),
        (of("Running", vec![terminated(value!({"exitCode": 137, "signal": 9}))]), "0/1 Signal:9 0"),
        (of("Succeeded", vec![done()]), "0/1 Completed 0"),
        (of("Running", vec![done(), running(true, 0)]), "1/2 NotReady 0"),
        (
            with(of("Running", vec![done(), running(true, 0)]), &["status", "conditions"], ready.clone()),
            "1/2 Running 0",
        ),
        (of("Failed", vec![done(), failed()]), "0/2 Error 0"),
        (of("Failed", vec![failed(), running(true, 0)]), "1/2 Error 0"),
        (of("Running", vec![restarted]), "1/1 Running 3 (5m ago)"),
        (with(phase_only("Failed"), &["status", "reason"], value!("Evicted")), "0/2 Evicted 0"),
        (
            with(
                phase_only("Pending"),
                &["status", "conditions"],
                value!([{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]),
            ),
            "0/2 SchedulingGated 0",
        ),
    ];
    for (pod, expected) in table {
        assert_eq!(shown(&pod), expected, "{pod:?}");
    }
}

#[test]
fn deleted_pods() {
    let deleted = |status: Value| with(pod(1, status), &["metadata", "deletionTimestamp"], value!(NOW));
    let table = [
        (value!({"phase": "Running"}), "0/1 Terminating 0"),
        (value!({"phase": "Running", "reason": "NodeLost"}), "0/1 Unknown 0"),
        (value!({"phase": "Failed", "reason": "Evicted"}), "0/1 Evicted 0"),
        (value!({"phase": "Succeeded"}), "0/1 Succeeded 0"),
    ];
    for (status, expected) in table {
        assert_eq!(shown(&deleted(status.clone())), expected, "{status:?}");
    }
}

/// A pod with one container and these init containers: each with a flag for sidecars, and its status.
fn initialising(init: Vec<(bool, Value)>, main: Value) -> Value {
    let mut containers = Vec::new();
    let mut statuses = Vec::new();
    for (i, (sidecar, mut status)) in init.into_iter().enumerate() {
        let name = format!("init{i}");
        let mut container = value!({"name": (name.as_str())});
        if sidecar {
            container.set(&["restartPolicy"], "Always");
        }
        status.set(&["name"], name);
        containers.push(container);
        statuses.push(status);
    }
    let mut pod = pod(1, value!({"phase": "Pending"}));
    pod.set(&["spec", "initContainers"], containers);
    pod.set(&["status", "initContainerStatuses"], statuses);
    pod.set(&["status", "containerStatuses"], vec![main]);
    pod
}

#[test]
fn init_containers() {
    let done = || terminated(value!({"exitCode": 0, "reason": "Completed"}));
    let creating = || waiting("PodInitializing");
    let crashed = value!({
        "restartCount": 4, "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        "lastState": {"terminated": {"finishedAt": "2024-01-01T11:59:30Z"}},
    });
    let table = [
        (vec![(false, running(false, 0)), (false, creating())], creating(), "0/1 Init:0/2 0"),
        (vec![(false, done()), (false, running(false, 2))], creating(), "0/1 Init:1/2 2"),
        (vec![(false, waiting("ImagePullBackOff"))], creating(), "0/1 Init:ImagePullBackOff 0"),
        (
            vec![(false, terminated(value!({"exitCode": 1, "reason": "Error"})))],
            creating(),
            "0/1 Init:Error 0",
        ),
        (vec![(false, terminated(value!({"exitCode": 1})))], creating(), "0/1 Init:ExitCode:1 0"),
        (vec![(false, terminated(value!({"exitCode": 1, "signal": 9})))], creating(), "0/1 Init:Signal:9 0"),
        (vec![(false, crashed)], creating(), "0/1 Init:CrashLoopBackOff 4 (30s ago)"),
        (vec![(false, done()), (false, done())], running(true, 0), "1/1 Pending 0"),
    ];
    for (init, main, expected) in table {
        let pod = initialising(init, main);
        assert_eq!(shown(&pod), expected, "{pod:?}");
    }
}

#[test]
fn sidecars_count_as_containers() {
    let started = |ready: bool, restarts: i64| value!({"ready": ready, "started": true, "restartCount": restarts, "state": {"running": {}}});
    let starting = || value!({"ready": false, "started": false, "restartCount": 0, "state": {"running": {}}});
    let done = || terminated(value!({"exitCode": 0}));
    let creating = || waiting("PodInitializing");
    let table = [
        (vec![(true, starting())], creating(), "0/2 Init:0/1 0"),
        (vec![(true, started(true, 0)), (false, running(false, 0))], creating(), "1/2 Init:1/2 0"),
        (vec![(true, started(true, 2)), (false, done())], running(true, 1), "2/2 Pending 3"),
        (vec![(true, started(false, 0))], running(true, 0), "1/2 Pending 0"),
        (vec![(true, done())], running(true, 0), "1/2 Pending 0"),
        (vec![(true, waiting("CrashLoopBackOff"))], creating(), "0/2 Init:CrashLoopBackOff 0"),
    ];
    for (init, main, expected) in table {
        let pod = initialising(init, main);
        assert_eq!(shown(&pod), expected, "{pod:?}");
    }
    // A sidecar that restarts after initialisation does not make the pod initialise again.
    let initialised = with(
        initialising(vec![(true, waiting("CrashLoopBackOff"))], running(true, 0)),
        &["status", "conditions"],
        value!([{"type": "Initialized", "status": "True"}]),
    );
    assert_eq!(shown(&initialised), "1/2 Init:CrashLoopBackOff 0");
}

#[test]
fn wide_cells_and_row_conditions() {
    let pod = value!({
        "metadata": {"name": "p", "creationTimestamp": "2024-01-01T10:00:00Z"},
        "spec": {"nodeName": "n1", "readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}]},
        "status": {
            "phase": "Succeeded", "podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}],
            "conditions": [{"type": "a", "status": "True"}, {"type": "b", "status": "False"}],
        },
    });
    let now = corten_api::time::parse(NOW).unwrap();
    let cells = row(&pod, &RowContext { now, marked: None });
    let expected = value!(["p", "0/0", "Succeeded", "0", "120m", "10.0.0.1", "n1", "<none>", "1/2"]);
    assert_eq!(Value::Array(cells), expected);
    assert_eq!(
        Value::Array(row_conditions(&pod)),
        value!([{
            "type": "Completed", "status": "True", "reason": "Succeeded",
            "message": "The pod has completed successfully.",
        }])
    );
    assert!(row_conditions(&Value::Null).is_empty());
}
