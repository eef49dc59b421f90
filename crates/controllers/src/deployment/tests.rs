//! Tests of rollouts, step by step.

use corten_api::value;

use super::*;
use crate::testing::{at, at_text};

fn deployment(replicas: i64, image: &str, strategy: Value) -> Value {
    value!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "web", "generation": 1},
        "spec": {
            "replicas": (replicas), "selector": {"matchLabels": {"app": "web"}}, "strategy": (strategy),
            "revisionHistoryLimit": 0, "progressDeadlineSeconds": 60, "template": (template(image)),
        },
    })
}

fn template(image: &str) -> Value {
    value!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": (image)}]}})
}

fn rolling(surge: i64, unavailable: i64) -> Value {
    let limits = value!({"maxSurge": (surge), "maxUnavailable": (unavailable)});
    value!({"type": "RollingUpdate", "rollingUpdate": (limits)})
}

/// A replica set that was last scaled at ten desired and twelve allowed replicas.
fn set(image: &str, revision: &str, replicas: i64, available: i64) -> Value {
    value!({
        "metadata": {
            "name": (format!("web-{image}")), "namespace": "default", "uid": (image), "generation": 1,
            "creationTimestamp": (at_text(revision.parse().unwrap())),
            "annotations": {
                "deployment.kubernetes.io/revision": (revision),
                "deployment.kubernetes.io/desired-replicas": "10",
                "deployment.kubernetes.io/max-replicas": "12",
            },
        },
        "spec": {"replicas": (replicas), "template": (template(image))},
        "status": {"replicas": (replicas), "availableReplicas": (available), "observedGeneration": 1},
    })
}

fn rollout(deployment: &Value, sets: &[Value]) -> Rollout {
    Rollout::decide(deployment, sets, &HashSet::new(), at(0))
}

/// The sizes of the replica sets, the old ones first.
fn sizes(rollout: &Rollout) -> Vec<i64> {
    rollout.all().map(sets::Set::replicas).collect()
}

fn progressing(deployment: &Value) -> Option<&str> {
    crate::conditions::condition(deployment, "Progressing")?.str_at(&["reason"])
}

#[test]
fn pods_are_replaced_within_limits() {
    let sizes = |surge, unavailable, sets: &[Value]| {
        sizes(&rollout(&deployment(10, "b", rolling(surge, unavailable)), sets))
    };
    assert_eq!(sizes(2, 0, &[set("a", "1", 10, 10)]), [10, 2], "a new set begins as large as it may be");
    assert_eq!(sizes(2, 0, &[set("a", "1", 10, 10), set("b", "2", 2, 0)]), [10, 2], "nothing may be missing");
    assert_eq!(sizes(2, 0, &[set("a", "1", 10, 10), set("b", "2", 2, 2)]), [8, 2]);
    assert_eq!(sizes(2, 0, &[set("a", "1", 8, 8), set("b", "2", 2, 2)]), [8, 4]);
    assert_eq!(sizes(0, 3, &[set("a", "1", 10, 10), set("b", "2", 0, 0)]), [7, 0]);
    assert_eq!(sizes(0, 3, &[set("a", "1", 10, 4), set("b", "2", 0, 0)]), [7, 0], "broken ones go first");
}

#[test]
fn recreated_pods_come_after_the_old_ones_are_gone() {
    let wanted = deployment(10, "b", value!({"type": "Recreate"}));
    assert_eq!(sizes(&rollout(&wanted, &[set("a", "1", 10, 10)])), [0]);
    assert_eq!(sizes(&rollout(&wanted, &[set("a", "1", 0, 0)])), [0, 10]);
    let running = HashSet::from([Str::new("a")]);
    assert_eq!(sizes(&Rollout::decide(&wanted, &[set("a", "1", 0, 0)], &running, at(0))), [0]);
}

#[test]
fn scaling_within_a_rollout_is_spread_by_size() {
    let sets = [set("a", "1", 8, 8), set("b", "2", 4, 4)];
    assert_eq!(sizes(&rollout(&deployment(20, "b", rolling(4, 0)), &sets)), [16, 8]);
    assert_eq!(sizes(&rollout(&deployment(5, "b", rolling(1, 0)), &sets)), [4, 2]);
    assert_eq!(sizes(&rollout(&deployment(0, "b", rolling(1, 0)), &sets)), [0, 0]);
}

#[test]
fn paused_deployments_are_only_scaled() {
    let mut paused = deployment(4, "b", rolling(1, 0));
    paused.set(&["spec", "paused"], true);
    let rollout = rollout(&paused, &[set("a", "1", 10, 10)]);
    assert_eq!(sizes(&rollout), [4]);
    assert_eq!(progressing(&rollout.deployment), Some("DeploymentPaused"));
}

#[test]
fn going_back_makes_an_old_set_the_newest_revision() {
    let rollout = rollout(&deployment(10, "a", rolling(2, 0)), &[set("a", "1", 0, 0), set("b", "2", 10, 10)]);
    let new = rollout.new.as_ref().unwrap();
    assert_eq!((new.name(), new.revision_text()), ("web-a", "3"));
    let history = ["metadata", "annotations", "deployment.kubernetes.io/revision-history"];
    assert_eq!(new.tree.str_at(&history), Some("1"));
    let revision = ["metadata", "annotations", sets::REVISION];
    assert_eq!(rollout.deployment.str_at(&revision), Some("3"));
}

#[test]
fn progress_ends_in_success_or_in_time() {
    let wanted = deployment(10, "b", rolling(2, 0));
    let first = rollout(&wanted, &[]).deployment;
    assert_eq!(progressing(&first), Some("NewReplicaSetCreated"));
    let done = rollout(&wanted, &[set("b", "1", 10, 10)]).deployment;
    assert_eq!(progressing(&done), Some("NewReplicaSetAvailable"));
    let stuck = [set("b", "1", 10, 0)];
    let moved = rollout(&wanted, &stuck).deployment;
    assert_eq!(progressing(&moved), Some("ReplicaSetUpdated"));
    let late = Rollout::decide(&moved, &stuck, &HashSet::new(), at(61)).deployment;
    assert_eq!(progressing(&late), Some("ProgressDeadlineExceeded"));
    let cleaned = rollout(&done, &[set("a", "1", 0, 0), set("b", "2", 10, 10)]);
    assert!(
        matches!(cleaned.steps().last(), Some(Step::Together(gone)) if gone.len() == 1),
        "no history is kept"
    );
}
