//! Tables of statuses.

use corten_api::value;
use corten_container::{ContainerMetadata, ImageSpec, PodSandboxState, PodSandboxStatus};

use super::*;
use crate::containers::observed::Found;
use crate::pod::Source;

fn at(second: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + second).unwrap()
}

fn pod(policy: &str, init: Value, main: Value) -> Pod {
    Pod::new(
        value!({
            "metadata": {"name": "p", "namespace": "default", "uid": "u", "generation": 2},
            "spec": {"restartPolicy": (policy), "initContainers": (init), "containers": (main)},
            "status": {"qosClass": "BestEffort", "phase": "Pending"},
        }),
        Source::Api,
    )
}

fn sandbox() -> PodSandboxStatus {
    PodSandboxStatus {
        id: "s".into(),
        state: PodSandboxState::Ready,
        ips: vec!["10.1.0.2".into()],
        created_at: at(0),
        ..Default::default()
    }
}

fn found(name: &str, attempt: u32, state: corten_container::ContainerState, exit_code: i32) -> Found {
    let status = ContainerStatus {
        id: format!("{name}-{attempt}"),
        metadata: ContainerMetadata { name: name.into(), attempt },
        state,
        created_at: at(i64::from(attempt)),
        started_at: Some(at(i64::from(attempt))),
        exit_code,
        image: ImageSpec::new("busybox"),
        image_ref: "sha256:1".into(),
        reason: if exit_code == 0 { "Completed".into() } else { "Error".into() },
        ..Default::default()
    };
    Found { sandbox_id: "s".into(), status }
}

fn facts(ready: &[&str]) -> StatusFacts {
    StatusFacts {
        probed: ready.iter().map(|id| ((*id).to_owned(), Readiness { started: true, ready: true })).collect(),
        host_ips: vec!["192.168.0.1".into()],
        runtime: "corten".into(),
        ..StatusFacts::default()
    }
}

fn conditions_of(status: &Value) -> Vec<String> {
    let items = status.items_at(&["conditions"]).iter();
    items
        .map(|c| {
            let text = |key: &str| c.str_at(&[key]).unwrap_or_default().to_owned();
            format!("{}={} {} {}", text("type"), text("status"), text("reason"), text("message"))
                .trim()
                .to_owned()
        })
        .collect()
}

use corten_container::ContainerState::{Exited, Running};

#[test]
fn a_pod_whose_containers_run_and_are_ready() {
    let pod = pod("Always", value!([]), value!([{"name": "a", "image": "busybox"}]));
    let observed = Observed::new(vec![sandbox()], vec![found("a", 0, Running, 0)]);
    let status = status(&pod, &observed, &facts(&["a-0"]), false, at(9));
    assert_eq!(status.str_at(&["phase"]), Some("Running"));
    assert_eq!(status.str_at(&["podIP"]), Some("10.1.0.2"));
    assert_eq!(status.str_at(&["hostIP"]), Some("192.168.0.1"));
    assert_eq!(status.str_at(&["qosClass"]), Some("BestEffort"));
    assert_eq!(status.int_at(&["observedGeneration"]), Some(2));
    assert_eq!(
        conditions_of(&status),
        [
            "PodReadyToStartContainers=True",
            "Initialized=True",
            "Ready=True",
            "ContainersReady=True",
            "PodScheduled=True"
        ]
    );
    let container = &status.items_at(&["containerStatuses"])[0];
    assert_eq!(container.str_at(&["containerID"]), Some("corten://a-0"));
    assert_eq!((container.bool_at(&["ready"]), container.bool_at(&["started"])), (Some(true), Some(true)));
}

#[test]
fn waiting_containers_have_reasons() {
    let both = pod("Always", value!([{"name": "i"}]), value!([{"name": "a"}]));
    let nothing = status(&both, &Observed::default(), &facts(&[]), false, at(0));
    assert_eq!(nothing.str_at(&["phase"]), Some("Pending"));
    let reason = |status: &Value, list: &str| {
        status.items_at(&[list])[0].str_at(&["state", "waiting", "reason"]).unwrap_or_default().to_owned()
    };
    assert_eq!(reason(&nothing, "containerStatuses"), "PodInitializing");
    assert_eq!(reason(&nothing, "initContainerStatuses"), "PodInitializing");
    assert_eq!(
        conditions_of(&nothing),
        [
            "PodReadyToStartContainers=False",
            "Initialized=False ContainersNotInitialized containers with incomplete status: [i]",
            "Ready=False ContainersNotReady containers with unready status: [a]",
            "ContainersReady=False ContainersNotReady containers with unready status: [a]",
            "PodScheduled=True"
        ]
    );
    let alone = pod("Always", value!([]), value!([{"name": "a"}]));
    let creating = status(&alone, &Observed::default(), &facts(&[]), false, at(0));
    assert_eq!(reason(&creating, "containerStatuses"), "ContainerCreating");
    let mut facts = facts(&[]);
    facts.waiting.insert("a".into(), Waiting { reason: "ErrImagePull".into(), message: "no".into() });
    let pulling = status(&alone, &Observed::default(), &facts, false, at(0));
    assert_eq!(reason(&pulling, "containerStatuses"), "ErrImagePull");
}

#[test]
fn a_crashing_container_waits_between_attempts() {
    let pod = pod("Always", value!([]), value!([{"name": "a"}]));
    let observed = Observed::new(vec![sandbox()], vec![found("a", 1, Exited, 3), found("a", 0, Exited, 2)]);
    let mut facts = facts(&[]);
    facts
        .waiting
        .insert("a".into(), Waiting { reason: "CrashLoopBackOff".into(), message: "back-off 10s".into() });
    let status = status(&pod, &observed, &facts, false, at(9));
    let container = &status.items_at(&["containerStatuses"])[0];
    assert_eq!(container.str_at(&["state", "waiting", "reason"]), Some("CrashLoopBackOff"));
    assert_eq!(container.int_at(&["lastState", "terminated", "exitCode"]), Some(3));
    assert_eq!(container.int_at(&["restartCount"]), Some(1));
    assert_eq!(status.str_at(&["phase"]), Some("Running"));
}

#[test]
fn final_phases_follow_from_exit_codes() {
    let cases = [
        ("Never", [0, 0], false, "Succeeded"),
        ("Never", [0, 1], false, "Failed"),
        ("OnFailure", [0, 0], false, "Succeeded"),
        ("OnFailure", [0, 1], false, "Running"),
        ("Always", [0, 0], false, "Running"),
        ("Always", [0, 0], true, "Succeeded"),
        ("Always", [0, 1], true, "Failed"),
    ];
    for (policy, [a, b], over, expected) in cases {
        let pod = pod(policy, value!([]), value!([{"name": "a"}, {"name": "b"}]));
        let observed =
            Observed::new(vec![sandbox()], vec![found("a", 0, Exited, a), found("b", 0, Exited, b)]);
        let status = status(&pod, &observed, &facts(&[]), over, at(9));
        assert_eq!(status.str_at(&["phase"]), Some(expected), "{policy} {a} {b} {over}");
    }
}

#[test]
fn a_failed_init_container_fails_a_pod_that_never_restarts() {
    let pod = pod("Never", value!([{"name": "i"}]), value!([{"name": "a"}]));
    let observed = Observed::new(vec![sandbox()], vec![found("i", 0, Exited, 1)]);
    let status = status(&pod, &observed, &facts(&[]), false, at(9));
    assert_eq!(status.str_at(&["phase"]), Some("Failed"));
}

#[test]
fn a_sidecar_has_to_start_before_the_others() {
    let pod = pod("Always", value!([{"name": "s", "restartPolicy": "Always"}]), value!([{"name": "a"}]));
    let observed = Observed::new(vec![sandbox()], vec![found("s", 0, Running, 0)]);
    let early = status(&pod, &observed, &facts(&[]), false, at(9));
    assert_eq!(early.str_at(&["phase"]), Some("Pending"));
    assert!(conditions_of(&early)[1].starts_with("Initialized=False"));
    let later = status(&pod, &observed, &facts(&["s-0"]), false, at(9));
    assert!(conditions_of(&later)[1].starts_with("Initialized=True"));
}

#[test]
fn conditions_keep_transition_times_and_foreign_conditions() {
    let mut tree = pod("Always", value!([]), value!([{"name": "a"}])).tree().clone();
    tree.set(
        &["status", "conditions"],
        value!([
            {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2020-01-01T00:00:00Z"},
            {"type": "example.com/gate", "status": "False"},
        ]),
    );
    tree.set(&["spec", "readinessGates"], value!([{"conditionType": "example.com/gate"}]));
    let pod = Pod::new(tree, Source::Api);
    let observed = Observed::new(vec![sandbox()], vec![found("a", 0, Running, 0)]);
    let status = status(&pod, &observed, &facts(&["a-0"]), false, at(9));
    let conditions = status.items_at(&["conditions"]);
    assert_eq!(conditions[4].str_at(&["lastTransitionTime"]), Some("2020-01-01T00:00:00Z"));
    assert_eq!(conditions[5].str_at(&["type"]), Some("example.com/gate"));
    assert!(conditions_of(&status)[2].starts_with("Ready=False ReadinessGatesNotReady"));
}
