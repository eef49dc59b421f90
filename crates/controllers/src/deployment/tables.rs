//! Tests of deployments: the sizes of their replica sets, and their status.

use corten_api::{Status, value};

use super::*;
use crate::conditions;
use crate::testing::{at, at_text, done, failed};

const DESIRED: &str = "deployment.kubernetes.io/desired-replicas";
const MAX: &str = "deployment.kubernetes.io/max-replicas";
const HISTORY: &str = "deployment.kubernetes.io/revision-history";

fn template(image: &str) -> Value {
    value!({
        "metadata": {"labels": {"app": "web"}},
        "spec": {"containers": [{"name": "web", "image": image}]},
    })
}

/// A deployment of image `new` that rolls with these limits.
fn rolling(replicas: i64, surge: impl Into<Value>, unavailable: impl Into<Value>) -> Value {
    let (surge, unavailable): (Value, Value) = (surge.into(), unavailable.into());
    value!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": "web", "namespace": "default", "uid": "deployment", "generation": 1},
        "spec": {
            "replicas": replicas, "revisionHistoryLimit": 10, "progressDeadlineSeconds": 600,
            "selector": {"matchLabels": {"app": "web"}},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": surge, "maxUnavailable": unavailable},
            },
            "template": (template("new")),
        },
    })
}

fn recreating(replicas: i64) -> Value {
    with(rolling(replicas, 0, 0), &["spec", "strategy"], value!({"type": "Recreate"}))
}

fn with(mut tree: Value, path: &[&str], value: impl Into<Value>) -> Value {
    tree.set(path, value);
    tree
}

/// A replica set of an image, which is also its name, with this number of replicas, some of them available.
fn set(image: &str, replicas: i64, available: i64) -> Value {
    // Of these names, the first of the alphabet is the oldest, and `new` the youngest.
    let age = if image == "new" { 0 } else { -1000 + i64::from(image.as_bytes()[0]) };
    let uid = format!("uid-{image}");
    let mut status = value!({"replicas": replicas, "observedGeneration": 1, "terminatingReplicas": 0});
    if available > 0 {
        status.set(&["readyReplicas"], available);
        status.set(&["availableReplicas"], available);
    }
    value!({
        "apiVersion": "apps/v1", "kind": "ReplicaSet",
        "metadata": {
            "name": image, "namespace": "default", "uid": uid, "generation": 1,
            "labels": {"app": "web"}, "creationTimestamp": (at_text(age)),
        },
        "spec": {"replicas": replicas, "template": (template(image))},
        "status": status,
    })
}

/// A replica set with these annotations of the last scaling.
fn scaled(set: Value, desired: i64, max: i64) -> Value {
    let set = with(set, &["metadata", "annotations", DESIRED], desired.to_string());
    with(set, &["metadata", "annotations", MAX], max.to_string())
}

fn revised(set: Value, revision: i64) -> Value {
    with(set, &["metadata", "annotations", sets::REVISION], revision.to_string())
}

fn world(deployment: Value, sets: &[Value]) -> World {
    World { deployment: Some(deployment), sets: sets.to_vec(), ..World::default() }
}

fn key() -> Key {
    Key::new("default", "web")
}

fn plan(world: &World) -> Plan {
    Deployments.plan(&key(), world, at(0))
}

/// The changes of sizes in a plan, and its deletions. The created replica set is called `new`, whatever its hash.
fn words(world: &World) -> Vec<String> {
    let size = |set: &Value| set.int_at(&["spec", "replicas"]).unwrap_or(1);
    let word = |action: &Action| match action {
        Action::Create { object, .. } => Some(format!("create {}", size(object))),
        Action::Delete { key, .. } => Some(format!("delete {}", key.name)),
        Action::Update { object, .. } => {
            let before = world.sets.iter().find(|set| meta::uid(set) == meta::uid(object)).map(size);
            (before != Some(size(object))).then(|| format!("{} to {}", meta::name(object), size(object)))
        }
        _ => None,
    };
    plan(world).actions().filter_map(word).collect()
}

fn conclude(world: &World, report: &Report, now: i64) -> Plan {
    Deployments.conclude(&key(), world, report, at(now))
}

/// The deployment after a reconcile in which all requests succeeded.
fn after(world: &World, now: i64) -> Value {
    let concluded = conclude(world, &done(&Deployments.plan(&key(), world, at(now))), now);
    written(&concluded).unwrap_or_else(|| world.deployment.clone().unwrap())
}

fn written(plan: &Plan) -> Option<Value> {
    plan.actions().find_map(|action| match action {
        Action::Update { object, subresource: "status", .. } => Some(object.clone()),
        _ => None,
    })
}

/// Status, reason and message of a condition.
fn said(deployment: &Value, kind: &str) -> Option<(String, String, String)> {
    let condition = conditions::condition(deployment, kind)?;
    let text = |field: &str| condition.str_at(&[field]).unwrap_or_default().to_owned();
    Some((text("status"), text("reason"), text("message")))
}

fn reason(deployment: &Value) -> String {
    said(deployment, "Progressing").map(|(_, reason, _)| reason).unwrap_or_default()
}

#[test]
fn the_first_set_is_like_the_template() {
    let world = world(with(rolling(3, 1, 0), &["metadata", "annotations", "note"], "x"), &[]);
    let first = plan(&world);
    let Some(Action::Create { object, .. }) = first.actions().next() else { panic!("nothing is made") };
    let hash = object.str_at(&["metadata", "labels", "pod-template-hash"]).unwrap();
    assert_eq!(meta::name(object), format!("web-{hash}"));
    assert_eq!(object.str_at(&["spec", "selector", "matchLabels", "pod-template-hash"]), Some(hash));
    assert_eq!(object.str_at(&["spec", "template", "metadata", "labels", "pod-template-hash"]), Some(hash));
    assert_eq!(object.int_at(&["spec", "replicas"]), Some(3));
    let note = |key: &str| object.str_at(&["metadata", "annotations", key]);
    assert_eq!((note(sets::REVISION), note("note")), (Some("1"), Some("x")));
    assert_eq!((note(DESIRED), note(MAX)), (Some("3"), Some("4")));
    let concluded = conclude(&world, &done(&first), 0);
    assert_eq!(concluded.events[0].reason, "ScalingReplicaSet");
    assert_eq!(concluded.events[0].message, format!("Scaled up replica set web-{hash} from 0 to 3"));
    let now = written(&concluded).unwrap();
    assert_eq!(now.str_at(&["metadata", "annotations", sets::REVISION]), Some("1"));
    let message = format!("Created new replica set \"web-{hash}\"");
    let expected = ("True".to_owned(), "NewReplicaSetCreated".to_owned(), message);
    assert_eq!(said(&now, "Progressing"), Some(expected));
}

#[test]
fn a_rollout_stays_within_its_limits() {
    type Case = (i64, i64, i64, Vec<Value>, &'static [&'static str]);
    let cases: Vec<Case> = vec![
        // Up: as the surge allows.
        (10, 0, 0, vec![set("new", 0, 0), set("a", 10, 10)], &["a to 9"]),
        (10, 2, 0, vec![set("new", 0, 0), set("a", 10, 10)], &["new to 2"]),
        (10, 2, 0, vec![set("new", 5, 5), set("a", 5, 5)], &["new to 7"]),
        (10, 2, 0, vec![set("new", 10, 10)], &[]),
        (10, 2, 0, vec![set("new", 12, 12)], &["new to 10"]),
        // Down: as maxUnavailable allows, and only for new pods that are available.
        (10, 0, 2, vec![set("new", 0, 0), set("a", 10, 10)], &["a to 8"]),
        (10, 0, 2, vec![set("new", 2, 0), set("a", 8, 8)], &[]),
        (10, 0, 2, vec![set("new", 2, 2), set("a", 8, 8)], &["a to 6"]),
        (10, 0, 2, vec![set("new", 2, 2), set("a", 4, 4), set("b", 4, 4)], &["a to 2"]),
        (10, 3, 2, vec![set("new", 5, 0), set("a", 8, 8)], &[]),
        // Unhealthy pods go first, in whichever replica set.
        (10, 0, 2, vec![set("new", 0, 0), set("a", 5, 5), set("b", 5, 3)], &["b to 3"]),
        (10, 0, 2, vec![set("new", 0, 0), set("a", 10, 0)], &["a to 8"]),
        (10, 0, 10, vec![set("new", 0, 0), set("a", 10, 0)], &["a to 0"]),
    ];
    for (replicas, surge, unavailable, sets, expected) in cases {
        let about = format!("{replicas} +{surge} -{unavailable} {sets:?}");
        let world = world(rolling(replicas, surge, unavailable), &sets);
        assert_eq!(words(&world), expected, "{about}");
    }
}

#[test]
fn a_new_template_begins_with_the_surge() {
    for (replicas, surge, unavailable, expected) in [
        (4, "25%", "25%", &["create 1", "a to 3"][..]),
        (3, "25%", "25%", &["create 1"]),
        (1, "25%", "25%", &["create 1"]),
        (1, "0%", "1%", &["create 0", "a to 0"]),
        (10, "30%", "0%", &["create 3"]),
    ] {
        let world = world(rolling(replicas, surge, unavailable), &[set("a", replicas, replicas)]);
        assert_eq!(words(&world), expected, "{replicas} +{surge} -{unavailable}");
    }
}

#[test]
fn scaling_during_a_rollout_is_spread_by_size() {
    type Case = (i64, i64, Vec<Value>, &'static [&'static str]);
    let of = |image: &str, replicas: i64, max: i64| scaled(set(image, replicas, replicas), 10, max);
    let cases: Vec<Case> = vec![
        // Only one replica set has replicas: it gets the whole change.
        (12, 0, vec![of("new", 10, 10), of("a", 0, 10)], &["new to 12"]),
        (5, 0, vec![of("a", 10, 10)], &["a to 5"]),
        // In proportion; the remainder goes to the largest, and of equals the newer grows and the older shrinks.
        (20, 0, vec![of("new", 5, 10), of("a", 5, 10)], &["new to 10", "a to 10"]),
        (11, 0, vec![of("new", 5, 10), of("a", 5, 10)], &["new to 6"]),
        (9, 0, vec![of("new", 5, 10), of("a", 5, 10)], &["a to 4"]),
        (20, 0, vec![of("new", 2, 10), of("a", 8, 10)], &["new to 4", "a to 16"]),
        (5, 0, vec![of("new", 2, 10), of("a", 8, 10)], &["new to 1", "a to 4"]),
        (0, 0, vec![of("new", 2, 10), of("a", 8, 10)], &["new to 0", "a to 0"]),
        // The surge is scaled as well.
        (20, 2, vec![of("new", 6, 12), of("a", 6, 12)], &["new to 11", "a to 11"]),
    ];
    for (replicas, surge, sets, expected) in cases {
        let about = format!("{replicas} +{surge} {sets:?}");
        let world = world(rolling(replicas, surge, 1), &sets);
        assert_eq!(words(&world), expected, "{about}");
    }
}

#[test]
fn recreating_waits_until_the_old_are_gone() {
    let mut waiting = world(recreating(3), &[set("a", 3, 3)]);
    assert_eq!(words(&waiting), ["a to 0"]);
    waiting.sets = vec![set("a", 0, 0)];
    waiting.running.insert("uid-a".into());
    assert!(words(&waiting).is_empty());
    waiting.running.clear();
    assert_eq!(words(&waiting), ["create 3"]);
    let counted = with(set("a", 0, 0), &["status", "replicas"], 1);
    assert!(words(&world(recreating(3), &[counted])).is_empty(), "the old set still counts a pod");
}

#[test]
fn while_paused_only_the_size_follows() {
    let paused = |replicas: i64| with(rolling(replicas, 1, 1), &["spec", "paused"], true);
    assert!(words(&world(paused(3), &[])).is_empty(), "no set is made");
    assert!(words(&world(paused(3), &[set("a", 3, 3)])).is_empty());
    assert_eq!(words(&world(paused(5), &[set("a", 3, 3)])), ["a to 5"]);

    let noted = after(&world(paused(3), &[set("a", 3, 3)]), 0);
    let words =
        |status: &str, reason: &str, message: &str| Some((status.into(), reason.into(), message.into()));
    assert_eq!(said(&noted, "Progressing"), words("Unknown", "DeploymentPaused", "Deployment is paused"));
    let still = conclude(&world(noted.clone(), &[set("a", 3, 3)]), &Report::default(), 9000);
    assert!(still.is_done(), "time does not count: {still:?}");

    // The paused time does not count as a lack of progress.
    let resumed = with(noted, &["spec", "paused"], false);
    let going = after(&world(resumed, &[set("new", 1, 0), set("a", 3, 3)]), 9000);
    assert_ne!(reason(&going), "ProgressDeadlineExceeded");
}

#[test]
fn revisions_count_up_and_are_remembered() {
    let sets = [revised(set("new", 3, 3), 1), revised(set("a", 0, 0), 2)];
    let world = world(rolling(3, 1, 0), &sets);
    let plan = plan(&world);
    let Some(Action::Update { object, .. }) = plan.actions().next() else { panic!("nothing is noted") };
    let note = |key: &str| object.str_at(&["metadata", "annotations", key]);
    assert_eq!((note(sets::REVISION), note(HISTORY)), (Some("3"), Some("1")));
    let now = after(&world, 0);
    assert_eq!(now.str_at(&["metadata", "annotations", sets::REVISION]), Some("3"));
}

#[test]
fn history_is_cut_once_the_rollout_is_complete() {
    let limited = |limit: i64| with(rolling(2, 1, 0), &["spec", "revisionHistoryLimit"], limit);
    let new = || revised(set("new", 2, 2), 9);
    let old = || [revised(set("c", 0, 0), 1), revised(set("a", 0, 0), 2), revised(set("b", 0, 0), 3)];
    let sets = |old: &[Value]| [&[new()], old].concat();
    let complete = |limit: i64, old: &[Value]| after(&world(limited(limit), &sets(old)), 0);
    let cut = |limit: i64, old: &[Value]| words(&world(complete(limit, old), &sets(old)));
    assert!(words(&world(limited(0), &sets(&old()))).is_empty(), "not complete as far as is known");
    assert_eq!(cut(1, &old()), ["delete c", "delete a"], "by revision, not by age");
    assert_eq!(cut(0, &old()), ["delete c", "delete a", "delete b"]);
    assert!(cut(3, &old()).is_empty());
    assert!(cut(i64::from(i32::MAX), &old()).is_empty());
    let unseen = with(revised(set("c", 0, 0), 1), &["metadata", "generation"], 2);
    assert!(cut(0, &[unseen]).is_empty(), "its last change was not observed");
    let going = with(revised(set("c", 0, 0), 1), &["metadata", "deletionTimestamp"], at_text(0));
    assert!(cut(0, &[going]).is_empty());
}

#[test]
fn the_status_counts() {
    let sets = [set("new", 2, 1), with(set("a", 3, 3), &["status", "terminatingReplicas"], 2)];
    let now = after(&world(rolling(4, 1, 1), &sets), 0);
    for (field, count) in [
        ("observedGeneration", 1),
        ("replicas", 5),
        ("updatedReplicas", 2),
        ("readyReplicas", 4),
        ("availableReplicas", 4),
        ("unavailableReplicas", 1),
        ("terminatingReplicas", 2),
    ] {
        assert_eq!(now.int_at(&["status", field]), Some(count), "{field}");
    }
}

#[test]
fn availability_follows_max_unavailable() {
    for (available, expected) in
        [(3, ("True", "MinimumReplicasAvailable")), (2, ("False", "MinimumReplicasUnavailable"))]
    {
        let now = after(&world(rolling(4, 1, 1), &[set("new", 4, available)]), 0);
        let (status, reason, _) = said(&now, "Available").unwrap();
        assert_eq!((status.as_str(), reason.as_str()), expected);
    }
}

#[test]
fn progress_is_made_finished_or_missed() {
    let begun = after(&world(rolling(3, 1, 0), &[set("new", 3, 0)]), 0);
    let moved = after(&world(begun, &[set("new", 3, 1)]), 100);
    assert_eq!(said(&moved, "Progressing").unwrap().2, "ReplicaSet \"new\" is progressing.");
    assert_eq!(reason(&moved), "ReplicaSetUpdated");

    // No progress: it is reconciled again when the deadline is exceeded, which is reported once.
    let stuck = world(moved.clone(), &[set("new", 3, 1)]);
    assert_eq!(
        conclude(&stuck, &Report::default(), 400).requeue_after,
        Some(std::time::Duration::from_secs(301))
    );
    let missed = after(&stuck, 701);
    let (status, reason_now, message) = said(&missed, "Progressing").unwrap();
    assert_eq!((status.as_str(), reason_now.as_str()), ("False", "ProgressDeadlineExceeded"));
    assert_eq!(message, "ReplicaSet \"new\" has timed out progressing.");
    let again = world(missed.clone(), &[set("new", 3, 1)]);
    assert!(conclude(&again, &Report::default(), 800).is_done());

    let finished = after(&world(missed, &[set("new", 3, 3)]), 900);
    assert_eq!(said(&finished, "Progressing").unwrap().2, "ReplicaSet \"new\" has successfully progressed.");
    assert_eq!(reason(&finished), "NewReplicaSetAvailable");

    // Pods that fail after the rollout are no lack of progress.
    let broken = after(&world(finished, &[set("new", 3, 2)]), 9000);
    assert_eq!(reason(&broken), "NewReplicaSetAvailable");
    let idle = conclude(&world(broken, &[set("new", 3, 2)]), &Report::default(), 9001);
    assert!(idle.is_done(), "{idle:?}");
}

#[test]
fn without_a_deadline_nothing_is_said_of_progress() {
    let patient = with(rolling(3, 1, 0), &["spec", "progressDeadlineSeconds"], i64::from(i32::MAX));
    assert_eq!(said(&after(&world(patient, &[set("new", 3, 0)]), 0), "Progressing"), None);
}

#[test]
fn failures_of_sets_are_passed_on_until_they_end() {
    let failure = conditions::new("ReplicaFailure", "True", "FailedCreate", "quota", at(0));
    let failing = with(set("new", 3, 0), &["status", "conditions"], vec![failure]);
    let now = after(&world(rolling(3, 1, 0), &[failing]), 0);
    assert_eq!(said(&now, "ReplicaFailure"), Some(("True".into(), "FailedCreate".into(), "quota".into())));
    assert_eq!(said(&after(&world(now, &[set("new", 3, 0)]), 0), "ReplicaFailure"), None);
}

#[test]
fn a_replica_set_that_cannot_be_created_is_reported() {
    let world = world(rolling(3, 1, 0), &[]);
    let refused = failed(&plan(&world), Status::internal("no"));
    let concluded = conclude(&world, &refused, 0);
    assert!(concluded.events[0].message.starts_with("Failed to create new replica set \"web-"));
    assert_eq!(reason(&written(&concluded).unwrap()), "ReplicaSetCreateError");
}

#[test]
fn a_name_that_is_taken_leads_to_another() {
    let first = world(rolling(3, 1, 0), &[]);
    let taken = failed(&plan(&first), Status::already_exists("apps", "replicasets", "web-x"));
    let counted = written(&conclude(&first, &taken, 0)).unwrap();
    assert_eq!(counted.int_at(&["status", "collisionCount"]), Some(1));
    let name = |world: &World| match plan(world).actions().next() {
        Some(Action::Create { object, .. }) => meta::name(object).to_owned(),
        other => panic!("nothing is made but {other:?}"),
    };
    assert_ne!(name(&first), name(&world(counted, &[])));
}

#[test]
fn a_deployment_on_its_way_out_only_counts() {
    let going = with(rolling(3, 1, 0), &["metadata", "deletionTimestamp"], at_text(0));
    assert!(words(&world(going.clone(), &[])).is_empty());
    assert!(words(&world(going.clone(), &[set("a", 3, 3)])).is_empty());
    assert_eq!(after(&world(going, &[set("a", 3, 3)]), 0).int_at(&["status", "replicas"]), Some(3));
}

#[test]
fn a_deployment_in_its_desired_state_is_not_written() {
    let settled = |now: i64, deployment: Value| {
        after(&world(deployment, &[scaled(revised(set("new", 3, 3), 1), 3, 4)]), now)
    };
    let deployment = settled(1, settled(0, rolling(3, 1, 0)));
    let world = world(deployment, &[scaled(revised(set("new", 3, 3), 1), 3, 4)]);
    assert!(plan(&world).is_done());
    assert!(conclude(&world, &Report::default(), 5000).is_done());
}

#[test]
fn going_back_by_annotation_is_done_or_refused() {
    let asking =
        |revision: &str| with(rolling(3, 1, 0), &["metadata", "annotations", sets::ROLLBACK_TO], revision);
    let sets = [revised(set("a", 0, 0), 1), revised(set("b", 0, 0), 2), revised(set("new", 3, 3), 3)];
    let cases = [
        ("0", "b", "DeploymentRollback", "Rolled back deployment \"web\" to revision 2"),
        ("1", "a", "DeploymentRollback", "Rolled back deployment \"web\" to revision 1"),
        ("7", "new", "DeploymentRollbackRevisionNotFound", "Unable to find the revision to rollback to."),
        (
            "3",
            "new",
            "DeploymentRollbackTemplateUnchanged",
            "The rollback revision contains the same template as current deployment \"web\"",
        ),
    ];
    for (revision, image, reason, message) in cases {
        let plan = plan(&world(asking(revision), &sets));
        let [Step::One(Action::Update { object, subresource: "", .. })] = &plan.steps[..] else {
            panic!("{revision}: {plan:?}")
        };
        assert_eq!(object.at(&["spec", "template"]), Some(&template(image)), "{revision}");
        assert_eq!(object.str_at(&["metadata", "annotations", sets::ROLLBACK_TO]), None);
        assert_eq!((&*plan.events[0].reason, plan.events[0].message.as_str()), (reason, message));
    }
}

#[test]
fn sets_are_taken_in_before_anything_else() {
    let mut world = world(rolling(3, 1, 0), &[set("new", 1, 1)]);
    let orphan = crate::testing::cached(&set("new", 1, 1));
    world.claims.adopt.push(orphan.clone());
    world.claims.owned.push(orphan);
    let first = plan(&world);
    assert!(matches!(&first.steps[..], [Step::Together(claims)] if claims.len() == 1));
    assert!(conclude(&world, &done(&first), 0).is_done());
}
