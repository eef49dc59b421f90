//! Lifecycles of pods step by step; each status is merged into the pod as the server would.

use super::*;

const ADDRESSES: Addresses =
    Addresses { host: Ipv4Addr::new(172, 31, 0, 1), pod: Ipv4Addr::new(10, 244, 1, 2) };

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn pod(policy: &str) -> Value {
    value!({
        "metadata": {"name": "p", "uid": "u", "generation": 1},
        "spec": {"restartPolicy": (policy), "nodeName": "n", "containers": [{"name": "c", "image": "i"}]},
        "status": {"phase": "Pending"},
    })
}

/// Takes the next step and describes its result.
fn step(pod: &mut Value, seconds: i64) -> String {
    match next(pod, ADDRESSES, at(seconds)) {
        Next::Nothing => "nothing".into(),
        Next::Later(left) => format!("in {}s", left.as_secs()),
        Next::Delete => "delete".into(),
        Next::Status(patch) => {
            pod.set(&["status"], patch.get("status").unwrap().clone());
            let ready = conditions::is_true(pod, "Ready");
            format!("{}{}", pod.str_at(&["status", "phase"]).unwrap(), if ready { " ready" } else { "" })
        }
    }
}

#[track_caller]
fn check(pod: &mut Value, steps: &[(i64, &str)]) {
    for (seconds, expected) in steps {
        assert_eq!(step(pod, *seconds), *expected, "at {seconds}s");
    }
}

#[test]
fn a_pod_with_restart_policy_always_runs_until_it_is_deleted() {
    let mut pod = pod("Always");
    check(&mut pod, &[(0, "Pending")]);
    let reason = |pod: &Value| pod.items_at(&["status", "containerStatuses"])[0].clone();
    assert_eq!(reason(&pod).str_at(&["state", "waiting", "reason"]), Some("ContainerCreating"));
    assert_eq!(pod.at(&["status", "podIP"]), None);
    check(&mut pod, &[(1, "Running ready"), (2, "nothing"), (90_000, "nothing")]);
    assert_eq!(pod.str_at(&["status", "podIP"]), Some("10.244.1.2"));
    pod.set(&["metadata", "generation"], 2);
    check(&mut pod, &[(3, "Running ready"), (4, "nothing")]);
    pod.set(&["metadata", "deletionTimestamp"], "2027-01-15T08:00:30Z");
    pod.set(&["metadata", "deletionGracePeriodSeconds"], 30);
    check(&mut pod, &[(5, "Succeeded"), (6, "delete")]);
    pod.set(&["metadata", "deletionGracePeriodSeconds"], 0);
    check(&mut pod, &[(7, "delete")]);
    pod.set(&["metadata", "finalizers"], value!(["example.com/hold"]));
    check(&mut pod, &[(8, "nothing")]);
}

#[test]
fn pods_with_other_restart_policies_complete() {
    check(
        &mut pod("Never"),
        &[(0, "Pending"), (0, "Running ready"), (0, "in 1s"), (1, "Succeeded"), (2, "nothing")],
    );
    let mut failing = pod("Never");
    failing.set(&["metadata", "annotations", EXIT_CODE], "3");
    failing.set(&["metadata", "annotations", RUN_FOR], "10");
    check(
        &mut failing,
        &[(0, "Pending"), (0, "Running ready"), (4, "in 6s"), (10, "Failed"), (11, "nothing")],
    );
    let mut again = pod("OnFailure");
    again.set(&["metadata", "annotations", EXIT_CODE], "3");
    check(&mut again, &[(0, "Pending"), (0, "Running ready"), (1, "Running ready"), (2, "Running ready")]);
    assert_eq!(again.items_at(&["status", "containerStatuses"])[0].int_at(&["restartCount"]), Some(2));
}

#[test]
fn readiness_gates_and_init_containers_are_honoured() {
    let mut pod = pod("Always");
    pod.set(&["spec", "readinessGates"], value!([{"conditionType": "example.com/gate"}]));
    pod.set(&["spec", "initContainers"], value!([{"name": "first", "image": "i"}]));
    check(&mut pod, &[(0, "Pending"), (0, "Running"), (1, "nothing")]);
    let init = &pod.items_at(&["status", "initContainerStatuses"])[0];
    assert_eq!(init.str_at(&["state", "terminated", "reason"]), Some("Completed"));
    let mut conditions = pod.items_at(&["status", "conditions"]).to_vec();
    conditions.push(value!({"type": "example.com/gate", "status": "True"}));
    pod.set(&["status", "conditions"], Value::Array(conditions));
    check(&mut pod, &[(2, "Running ready")]);
}

#[test]
fn an_address_of_another_network_is_replaced() {
    let ips = |known: &str| {
        let mut pod = pod("Always");
        pod.set(&["status", "podIPs"], value!([{"ip": (known)}]));
        status(&pod, ADDRESSES, Stage::Running, at(0)).items_at(&["status", "podIPs"]).to_vec()
    };
    assert_eq!(ips("10.244.1.2"), [value!({"ip": "10.244.1.2"})]);
    assert_eq!(ips("10.9.9.9"), [value!({"ip": "10.244.1.2"}), value!({"$patch": "replace"})]);
}
