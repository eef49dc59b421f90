//! Jobs with a backoff limit per index.

use super::*;

fn failed_pod(index: i64, failures: i64) -> Value {
    after_failures(failures, of_index(index, "Failed"))
}

fn annotations(plan: &Plan) -> Vec<String> {
    let annotation = |object: &Value, key: &str| {
        object.str_at(&["metadata", "annotations", key]).unwrap_or("-").to_owned()
    };
    let made = plan.actions().filter_map(|action| match action {
        Action::Create { object, .. } => Some(object),
        _ => None,
    });
    let keys = [tracking::INDEX, tracking::FAILURES, tracking::IGNORED_FAILURES];
    made.map(|object| keys.map(|key| annotation(object, key)).join(" ")).collect()
}

#[test]
fn a_pod_has_the_failure_count_of_its_index() {
    let ignore = value!({"rules": [{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [9]}}]});
    let tolerant = with(per_index(1, 3), &["spec", "podFailurePolicy"], ignore);
    let cases = [
        ("the first", per_index(1, 3), vec![], vec!["0 0 -"]),
        ("the second", per_index(1, 3), vec![failed_pod(0, 0)], vec!["0 1 -"]),
        ("the third", per_index(1, 3), vec![failed_pod(0, 0), named("x", failed_pod(0, 1))], vec!["0 2 -"]),
        ("after one that is ignored", tolerant, vec![exited(failed_pod(0, 1), 9)], vec!["0 1 1"]),
    ];
    for (why, job, pods, expected) in cases {
        assert_eq!(annotations(&plan(&world(job, &pods))), expected, "{why}");
    }
}

#[test]
fn the_last_failed_pod_stays_until_it_is_replaced() {
    let failed = [failed_pod(0, 0), named("later", failed_pod(0, 1))];
    let waiting = concluded(&world(per_index(2, 3), &failed));
    assert_eq!(words(&waiting), ["status", "patch p0"]);
    assert_eq!(written(&waiting).items_at(&["uncountedTerminatedPods", "failed"]), [Value::from("uid-p0")]);
    let replaced = [failed_pod(0, 0), named("new", of_index(0, "Running"))];
    assert_eq!(words(&concluded(&world(per_index(2, 3), &replaced))), ["status", "patch p0"]);
}

#[test]
fn each_index_waits_for_itself() {
    let failed_at = |index: i64, failures: i64, seconds: i64| {
        let state = value!({"terminated": {"exitCode": 1, "finishedAt": (at_text(seconds))}});
        let statuses = vec![value!({"name": "main", "state": (state)})];
        with(failed_pod(index, failures), &["status", "containerStatuses"], statuses)
    };
    let some = plan(&world(per_index(3, 5), &[failed_at(0, 0, -3), failed_at(1, 2, -50)]));
    assert_eq!(annotations(&some), ["1 3 -", "2 0 -"]);
    let none = plan(&world(per_index(2, 5), &[failed_at(0, 0, -3), failed_at(1, 2, -35)]));
    assert_eq!(none, Plan::done().requeue_after(Duration::from_secs(5)));
}

#[test]
fn indexes_fail() {
    let fail_index =
        value!({"rules": [{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [9]}}]});
    let strict = with(per_index(3, 5), &["spec", "podFailurePolicy"], fail_index);
    let known = status(per_index(5, 0), value!({"failedIndexes": "1,4"}));
    let cases = [
        ("tries are left", per_index(3, 2), vec![failed_pod(0, 1)], ""),
        ("no tries are left", per_index(3, 2), vec![failed_pod(0, 2)], "0"),
        ("no second try", per_index(3, 0), vec![failed_pod(0, 0), failed_pod(2, 0)], "0,2"),
        ("at once", strict.clone(), vec![exited(failed_pod(1, 0), 9)], "1"),
        ("not at once", strict, vec![exited(failed_pod(1, 0), 8)], ""),
        ("more and more", known, vec![failed_pod(0, 0)], "0,1,4"),
        ("deleted", per_index(3, 0), vec![going(of_index(1, "Running"))], "1"),
    ];
    for (why, job, pods, expected) in cases {
        let status = written(&concluded(&world(job, &pods)));
        assert_eq!(status.str_at(&["failedIndexes"]), Some(expected), "{why}");
    }
}

#[test]
fn failed_indexes_are_not_tried_again() {
    let known = status(per_index(3, 0), value!({"failedIndexes": "1", "completedIndexes": "0"}));
    assert_eq!(words(&plan(&world(known, &[]))), ["create sum-2-"]);
}

#[test]
fn jobs_fail_for_their_indexes() {
    let cases = [
        (
            "all are settled",
            per_index(2, 0),
            vec![failed_pod(0, 0), of_index(1, "Succeeded")],
            "FailedIndexes",
        ),
        (
            "too many failed",
            with(per_index(9, 0), &["spec", "maxFailedIndexes"], 1),
            vec![failed_pod(0, 0), failed_pod(1, 0), of_index(2, "Running")],
            "MaxFailedIndexesExceeded",
        ),
    ];
    for (why, job, pods, reason) in cases {
        let (job, _) = settle(job, pods);
        let expected = [format!("FailureTarget=True {reason}"), format!("Failed=True {reason}")];
        assert_eq!(conditions(job.get("status").unwrap()), expected, "{why}");
        assert_eq!(job.get("status").unwrap().get("uncountedTerminatedPods"), Some(&value!({})), "{why}");
    }
    let some = with(per_index(9, 0), &["spec", "maxFailedIndexes"], 1);
    let world = world(some, &[failed_pod(0, 0)]);
    assert_eq!(Review::of(world.job.as_ref().unwrap(), &world.pods, at(0)).ending, None);
}
