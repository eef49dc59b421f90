//! Tests of replica sets: the actions on their pods, and their status.

use corten_api::{Status, value};

use super::*;
use crate::testing::{at, at_text, cached, done, failed};

fn set(replicas: i64) -> Value {
    value!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {"name": "web", "namespace": "default", "uid": "set", "generation": 2},
        "spec": {
            "replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": []}},
        },
    })
}

/// A running pod of the set, on a node, created long ago.
fn pod(name: &str) -> Value {
    let uid = format!("uid-{name}");
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": uid,
            "labels": {"app": "web"},
            "creationTimestamp": (at_text(-1000)),
            "ownerReferences": [(claims::reference(&set(0)))],
        },
        "spec": {"nodeName": "one"},
        "status": {"phase": "Running"},
    })
}

fn with(mut pod: Value, path: &[&str], value: impl Into<Value>) -> Value {
    pod.set(path, value);
    pod
}

fn ready(pod: Value, since: i64) -> Value {
    let condition = conditions::new("Ready", "True", "", "", at(since));
    with(pod, &["status", "conditions"], vec![condition])
}

fn orphan(mut pod: Value) -> Value {
    pod.remove(&["metadata", "ownerReferences"]);
    pod
}

fn world(set: Value, pods: &[Value]) -> World {
    let selector = selectors::of(&set).unwrap();
    let pods: Vec<_> = pods.iter().map(cached).collect();
    World::of(set, &selector, &pods)
}

fn key() -> Key {
    Key::new("default", "web")
}

fn plan(world: &World) -> Plan {
    REPLICA_SETS.plan(&key(), world, at(0))
}

/// The actions of a plan.
fn words(plan: &Plan) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Create { object, .. } => format!("create {}", meta::generate_name(object)),
        Action::Delete { key, .. } => format!("delete {}", key.name),
        Action::Patch { key, .. } => format!("patch {}", key.name),
        Action::Update { object, subresource, .. } => format!("update {} {subresource}", meta::name(object)),
        Action::Post { key, .. } => format!("post {}", key.name),
        Action::Scale { path, .. } => format!("scale {path}"),
    };
    plan.actions().map(word).collect()
}

/// The status that is written in the end; `None` if it stays.
fn written(world: &World, report: &Report) -> Option<Value> {
    let plan = REPLICA_SETS.conclude(&key(), world, report, at(0));
    plan.actions().find_map(|action| match action {
        Action::Update { object, subresource: "status", .. } => object.get("status").cloned(),
        _ => None,
    })
}

#[test]
fn missing_pods_are_made_by_slow_start() {
    for (wanted, there, made) in [(3, 0, 3), (3, 2, 1), (3, 3, 0), (2000, 0, 500)] {
        let pods: Vec<_> = (0..there).map(|i| pod(&format!("p{i}"))).collect();
        let plan = plan(&world(set(wanted), &pods));
        assert_eq!(plan.actions().count(), made, "{wanted} wanted, {there} there");
        assert!(plan.steps.iter().all(|step| matches!(step, Step::SlowStart(_))));
    }
}

#[test]
fn made_pods_are_like_the_template() {
    let plan = plan(&world(set(1), &[]));
    let Some(Action::Create { object, .. }) = plan.actions().next() else { panic!("nothing is made") };
    assert_eq!(meta::generate_name(object), "web-");
    assert_eq!(object.str_at(&["metadata", "labels", "app"]), Some("web"));
    assert_eq!(object.items_at(&["metadata", "ownerReferences"]), [claims::reference(&set(1))]);
    assert_eq!(object.at(&["spec"]), set(1).at(&["spec", "template", "spec"]));
}

#[test]
fn pods_that_do_not_count_are_replaced() {
    let finished = with(pod("a"), &["status", "phase"], "Succeeded");
    let failed = with(pod("b"), &["status", "phase"], "Failed");
    let going = with(pod("c"), &["metadata", "deletionTimestamp"], at_text(0));
    assert_eq!(words(&plan(&world(set(1), &[finished, failed, going]))), ["create web-"]);
}

#[test]
fn the_worst_pods_go_first() {
    let old = || ready(pod("old"), -900);
    let cases = [
        ("unassigned", with(pod("x"), &["spec", "nodeName"], "")),
        ("pending", with(pod("x"), &["status", "phase"], "Pending")),
        ("not ready", pod("x")),
        ("ready for a shorter time", ready(pod("x"), -5)),
        ("younger", with(ready(pod("x"), -900), &["metadata", "creationTimestamp"], at_text(-5))),
        (
            "cheap",
            with(
                ready(pod("x"), -900),
                &["metadata", "annotations", "controller.kubernetes.io/pod-deletion-cost"],
                "-1",
            ),
        ),
        (
            "restarted",
            with(ready(pod("x"), -900), &["status", "containerStatuses"], vec![value!({"restartCount": 3})]),
        ),
    ];
    for (why, worse) in cases {
        let world = world(set(1), &[old(), worse]);
        assert_eq!(words(&plan(&world)), ["delete x"], "{why}");
    }
}

/// Ready times of one magnitude, different restarts and unordered uids: pairwise comparison, random here and by
/// restarts there, would be cyclic.
#[test]
fn the_deletion_order_is_total() {
    let pod_of = |index: i64| {
        let pod = ready(pod(&format!("{:02}", index * 17 % 40)), -600 - index % 5);
        let restarts = value!({"restartCount": (index * 3 % 4)});
        with(pod, &["status", "containerStatuses"], vec![restarts])
    };
    let mut pods: Vec<_> = (0..40).map(pod_of).collect();
    let first = words(&plan(&world(set(10), &pods)));
    assert_eq!(first.len(), 30);
    for _ in 0..pods.len() {
        pods.rotate_left(1);
        assert_eq!(words(&plan(&world(set(10), &pods))), first);
    }
}

#[test]
fn crowded_nodes_are_relieved_first() {
    let here = ready(pod("here"), -900);
    let there = with(ready(pod("there"), -900), &["spec", "nodeName"], "two");
    let mut world = world(set(1), &[here, there]);
    world.related = HashMap::from([("one".into(), 1), ("two".into(), 4)]);
    assert_eq!(words(&plan(&world)), ["delete there"]);
}

#[test]
fn everything_goes_at_zero() {
    let world = world(set(0), &[pod("a"), pod("b")]);
    let plan = plan(&world);
    assert_eq!(words(&plan), ["delete a", "delete b"]);
    assert!(matches!(&plan.steps[..], [Step::Together(_)]));
}

#[test]
fn pods_are_taken_in_and_let_go() {
    let other = || {
        let mut pod = pod("other");
        pod.set(&["metadata", "ownerReferences"], vec![value!({"uid": "else", "controller": true})]);
        pod
    };
    let strange = |pod: Value| with(pod, &["metadata", "labels", "app"], "db");
    let finished = |pod: Value| with(pod, &["status", "phase"], "Failed");
    let going = |pod: Value| with(pod, &["metadata", "deletionTimestamp"], at_text(0));
    let cases = [
        ("an orphan is taken in", orphan(pod("x")), &["patch x"][..]),
        ("what is let go is replaced", strange(pod("x")), &["patch x", "create web-"]),
        ("others' pods are theirs", other(), &["create web-"]),
        ("strange orphans stay", orphan(strange(pod("x"))), &["create web-"]),
        ("finished ones are left alone", finished(orphan(pod("x"))), &["create web-"]),
        ("finished ones are not let go", finished(strange(pod("x"))), &["create web-"]),
        ("going ones are left alone", going(orphan(pod("x"))), &["create web-"]),
    ];
    for (why, pod, expected) in cases {
        assert_eq!(words(&plan(&world(set(1), &[pod]))), expected, "{why}");
    }
}

#[test]
fn a_set_on_its_way_out_does_nothing() {
    let going = with(set(3), &["metadata", "deletionTimestamp"], at_text(0));
    let strange = with(pod("x"), &["metadata", "labels", "app"], "db");
    assert!(plan(&world(going, &[orphan(pod("a")), strange])).is_done());
}

#[test]
fn the_status_counts() {
    let mut pods = vec![pod("a"), ready(pod("b"), -100), ready(pod("c"), -5)];
    pods.push(with(pod("d"), &["metadata", "deletionTimestamp"], at_text(0)));
    let patient = with(set(3), &["spec", "minReadySeconds"], 10);
    let world = world(patient, &pods);
    let expected = value!({
        "replicas": 3, "fullyLabeledReplicas": 3, "readyReplicas": 2, "availableReplicas": 1,
        "terminatingReplicas": 1, "observedGeneration": 2,
    });
    assert_eq!(written(&world, &Report::default()), Some(expected));
    // The unavailable pod becomes available in five seconds.
    let plan = REPLICA_SETS.conclude(&key(), &world, &Report::default(), at(0));
    assert_eq!(plan.requeue_after, Some(Duration::from_secs(5)));
}

#[test]
fn fully_labelled_pods_are_counted() {
    let labelled = with(set(1), &["spec", "template", "metadata", "labels", "tier"], "front");
    let status = written(&world(labelled, &[pod("a")]), &Report::default()).unwrap();
    assert_eq!((status.int_at(&["replicas"]), status.int_at(&["fullyLabeledReplicas"])), (Some(1), None));
}

#[test]
fn a_status_that_is_right_is_not_written() {
    let first = world(set(1), &[ready(pod("a"), -10)]);
    let status = written(&first, &Report::default()).unwrap();
    let again = world(with(set(1), &["status"], status), &[ready(pod("a"), -10)]);
    assert!(REPLICA_SETS.conclude(&key(), &again, &Report::default(), at(0)).is_done());
}

#[test]
fn failures_are_conditions_until_they_end() {
    let world_of = |status: Option<Value>| match status {
        Some(status) => world(with(set(1), &["status"], status), &[]),
        None => world(set(1), &[]),
    };
    let first = world_of(None);
    let refused = failed(&plan(&first), Status::forbidden("", "pods", "", "exceeded quota"));
    let status = written(&first, &refused).unwrap();
    let condition = &status.items_at(&["conditions"])[0];
    assert_eq!(condition.str_at(&["type"]), Some("ReplicaFailure"));
    assert_eq!(condition.str_at(&["reason"]), Some("FailedCreate"));
    assert!(condition.str_at(&["message"]).unwrap().contains("exceeded quota"));

    let second = world_of(Some(status));
    assert_eq!(written(&second, &refused), None, "it is known already");
    let status = written(&second, &done(&plan(&second))).unwrap();
    assert_eq!(status.get("conditions"), None);
}

#[test]
fn events_are_recorded() {
    let events = |world: &World, report: &Report| -> Vec<String> {
        let plan = REPLICA_SETS.conclude(&key(), world, report, at(0));
        plan.events.iter().map(|e| format!("{} {}", e.reason, e.message)).collect()
    };
    let more = world(set(1), &[]);
    let mut made = done(&plan(&more));
    made.outcomes[0].result = Ok(pod("web-x"));
    assert_eq!(events(&more, &made), ["SuccessfulCreate Created pod: web-x"]);
    let refused = failed(&plan(&more), Status::internal("no"));
    assert!(events(&more, &refused)[0].starts_with("FailedCreate Error creating: "));
    let less = world(set(0), &[pod("a")]);
    assert_eq!(events(&less, &done(&plan(&less))), ["SuccessfulDelete Deleted pod: a"]);
    let refused = failed(&plan(&less), Status::internal("no"));
    assert!(events(&less, &refused)[0].starts_with("FailedDelete Error deleting: "));
}

#[test]
fn replication_controllers_are_kept_alike() {
    let mut controller = set(2);
    controller.set(&["apiVersion"], "v1");
    controller.set(&["kind"], "ReplicationController");
    controller.set(&["spec", "selector"], value!({"app": "web"}));
    let world = world(controller, &[pod("a")]);
    let plan = REPLICATION_CONTROLLERS.plan(&key(), &world, at(0));
    assert_eq!(words(&plan), ["create web-"]);
    let concluded = REPLICATION_CONTROLLERS.conclude(&key(), &world, &done(&plan), at(0));
    assert_eq!(concluded.events[0].component, "replication-controller");
    let expected = value!({"replicas": 1, "fullyLabeledReplicas": 1, "observedGeneration": 2});
    let Some(Action::Update { kind, object, .. }) = concluded.actions().next() else { panic!("no status") };
    assert_eq!(kind.plural, "replicationcontrollers");
    assert_eq!(object.get("status"), Some(&expected), "pods on their way out are not counted");
}
