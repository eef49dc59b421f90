//! Tables of actions.

use std::collections::HashMap;

use corten_api::{Value, value};
use corten_container::{ContainerMetadata, PodSandboxMetadata, PodSandboxState, PodSandboxStatus};
use jiff::Timestamp;

use super::*;
use crate::containers::observed::Found;
use crate::pod::Source;

/// Facts by container name.
#[derive(Default)]
struct Told {
    probed: HashMap<&'static str, Probed>,
    changed: Vec<&'static str>,
    resized: Vec<&'static str>,
}

impl Knowledge for Told {
    fn probed(&self, container: &Container, _: &ContainerStatus) -> Probed {
        let started = Probed { started: Some(true), ..Probed::default() };
        self.probed.get(container.name.as_str()).copied().unwrap_or(started)
    }

    fn changed(&self, container: &Container, _: &ContainerStatus) -> bool {
        self.changed.contains(&container.name.as_str())
    }

    fn resized(&self, _: &Pod, container: &Container) -> bool {
        self.resized.contains(&container.name.as_str())
    }
}

fn pod(policy: &str, init: Value, main: Value) -> Pod {
    let spec = value!({"restartPolicy": (policy), "initContainers": (init), "containers": (main)});
    Pod::new(value!({"metadata": {"name": "p", "uid": "u"}, "spec": (spec)}), Source::Api)
}

fn two(policy: &str) -> Pod {
    pod(policy, value!([]), value!([{"name": "a"}, {"name": "b"}]))
}

fn sandbox(state: PodSandboxState) -> PodSandboxStatus {
    let metadata = PodSandboxMetadata { attempt: 3, ..PodSandboxMetadata::default() };
    let ips = vec!["10.0.0.1".to_owned()];
    PodSandboxStatus { id: "s".into(), metadata, state, ips, ..PodSandboxStatus::default() }
}

/// `name state[code]`: `a running`, `a exited 1`.
fn found(text: &str) -> Found {
    let words: Vec<&str> = text.split(' ').collect();
    let state = match words[1] {
        "created" => ContainerState::Created,
        "running" => ContainerState::Running,
        "exited" => ContainerState::Exited,
        _ => ContainerState::Unknown,
    };
    let status = ContainerStatus {
        id: format!("{}-id", words[0]),
        metadata: ContainerMetadata { name: words[0].to_owned(), attempt: 0 },
        state,
        created_at: Timestamp::UNIX_EPOCH,
        exit_code: words.get(2).map_or(0, |code| code.parse().unwrap()),
        ..ContainerStatus::default()
    };
    Found { sandbox_id: "s".into(), status }
}

fn observed(containers: &[&str]) -> Observed {
    let containers = containers.iter().map(|text| found(text)).collect();
    Observed::new(vec![sandbox(PodSandboxState::Ready)], containers)
}

/// Actions as text.
fn words(actions: &Actions) -> String {
    let mut words = Vec::new();
    if actions.kill_pod {
        words.push("kill pod".to_owned());
    }
    if let Some(sandbox) = &actions.create_sandbox {
        words.push(format!("sandbox {}", sandbox.attempt));
    }
    words.extend(actions.kill.iter().map(|kill| format!("kill {}", kill.name)));
    words.extend(actions.start.iter().map(|name| format!("start {name}")));
    words.join(", ")
}

#[track_caller]
fn check(pod: &Pod, containers: &[&str], told: &Told, expected: &str) -> Actions {
    let actions = compute_pod_actions(pod, &observed(containers), told);
    assert_eq!(words(&actions), expected, "{containers:?}");
    actions
}

#[test]
fn a_new_pod_starts_with_a_sandbox() {
    let nothing = Observed::default();
    let told = Told::default();
    assert_eq!(
        words(&compute_pod_actions(&two("Always"), &nothing, &told)),
        "kill pod, sandbox 0, start a, start b"
    );
    let with_init = pod("Always", value!([{"name": "i"}, {"name": "j"}]), value!([{"name": "a"}]));
    assert_eq!(words(&compute_pod_actions(&with_init, &nothing, &told)), "kill pod, sandbox 0, start i");
}

#[test]
fn restart_policies_decide_restarts() {
    let cases = [
        ("Always", "exited 0", "start a"),
        ("Always", "exited 1", "start a"),
        ("OnFailure", "exited 0", ""),
        ("OnFailure", "exited 1", "start a"),
        ("Never", "exited 1", ""),
        ("Never", "created", "start a"),
        ("Never", "unknown", "kill a, start a"),
    ];
    for (policy, state, expected) in cases {
        check(&two(policy), &[&format!("a {state}"), "b running"], &Told::default(), expected);
    }
}

#[test]
fn a_pod_with_nothing_left_to_run_is_finished() {
    let told = Told::default();
    check(&two("Never"), &["a exited 0", "b exited 1"], &told, "kill pod");
    check(&two("OnFailure"), &["a exited 0", "b exited 0"], &told, "kill pod");
    let sidecar = pod("Never", value!([{"name": "s", "restartPolicy": "Always"}]), value!([{"name": "a"}]));
    check(&sidecar, &["s running", "a exited 0"], &told, "kill pod");
    check(&sidecar, &["s exited 0", "a exited 0"], &told, "kill pod");
}

#[test]
fn init_containers_run_one_after_the_other() {
    let pod_of = |policy| pod(policy, value!([{"name": "i"}, {"name": "j"}]), value!([{"name": "a"}]));
    let told = Told::default();
    let cases: [(&str, &[&str], &str); 8] = [
        ("Always", &[], "start i"),
        ("Always", &["i running"], ""),
        ("Always", &["i exited 0"], "start j"),
        ("Always", &["i exited 1"], "start i"),
        ("Never", &["i exited 1"], "kill pod"),
        ("Always", &["i exited 0", "j running"], ""),
        ("Always", &["i exited 0", "j exited 0"], "start a"),
        ("Always", &["a running"], ""),
    ];
    for (policy, containers, expected) in cases {
        check(&pod_of(policy), containers, &told, expected);
    }
}

#[test]
fn sidecars_start_in_their_turn_and_are_restarted() {
    let init = value!([{"name": "s", "restartPolicy": "Always"}, {"name": "i"}]);
    let pod = pod("Never", init, value!([{"name": "a"}]));
    let unsure = Told { probed: HashMap::from([("s", Probed::default())]), ..Told::default() };
    check(&pod, &["s running"], &unsure, "");
    check(&pod, &["s running"], &Told::default(), "start i");
    check(&pod, &["s running", "i exited 0"], &Told::default(), "start a");
    check(&pod, &["s exited 1", "i exited 0", "a running"], &Told::default(), "start s");
}

#[test]
fn containers_that_fail_their_probes_are_replaced() {
    let failed = |liveness: bool| {
        let probed = Probed { started: Some(liveness), liveness_failed: liveness, startup_failed: !liveness };
        Told { probed: HashMap::from([("a", probed)]), ..Told::default() }
    };
    let actions = check(&two("Always"), &["a running", "b running"], &failed(true), "kill a, start a");
    assert_eq!(actions.kill[0].message, "Container a failed liveness probe, will be restarted");
    let actions = check(&two("Never"), &["a running", "b running"], &failed(false), "kill a");
    assert_eq!(actions.kill[0].message, "Container a failed startup probe");
}

#[test]
fn a_container_with_another_image_is_replaced() {
    let told = Told { changed: vec!["b"], ..Told::default() };
    let actions = check(&two("Never"), &["a running", "b running"], &told, "kill b, start b");
    assert_eq!(actions.kill[0].message, "Container b definition changed, will be restarted");
}

#[test]
fn a_dead_sandbox_is_replaced_if_there_is_anything_to_run() {
    let told = Told::default();
    let dead = |containers: &[&str]| {
        let containers = containers.iter().map(|text| found(text)).collect();
        Observed::new(vec![sandbox(PodSandboxState::NotReady)], containers)
    };
    let cases: [(&str, &[&str], &str); 4] = [
        ("Always", &["a exited 0", "b exited 1"], "kill pod, sandbox 4, start a, start b"),
        ("OnFailure", &["a exited 0", "b exited 1"], "kill pod, sandbox 4, start b"),
        ("OnFailure", &["a exited 0", "b exited 0"], "kill pod"),
        ("Never", &["a exited 137", "b exited 137"], "kill pod"),
    ];
    for (policy, containers, expected) in cases {
        assert_eq!(
            words(&compute_pod_actions(&two(policy), &dead(containers), &told)),
            expected,
            "{policy} {containers:?}"
        );
    }
}

#[test]
fn ephemeral_containers_start_once() {
    let mut tree = two("Always").tree().clone();
    tree.set(&["spec", "ephemeralContainers"], value!([{"name": "debug"}]));
    let pod = Pod::new(tree, Source::Api);
    let told = Told::default();
    check(&pod, &["a running", "b running"], &told, "start debug");
    check(&pod, &["a running", "b running", "debug exited 0"], &told, "");
}
