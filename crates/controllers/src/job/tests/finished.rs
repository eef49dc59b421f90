//! Jobs that finish: reasons, conditions and what has to happen first.

use super::*;

#[test]
fn jobs_end_for_these_reasons() {
    let running = |count| pods(count, "Running");
    let late = with(
        status(job(1, 1), value!({"startTime": (at_text(-60))})),
        &["spec", "activeDeadlineSeconds"],
        60,
    );
    let limited = |limit: i64| with(job(2, 9), &["spec", "backoffLimit"], limit);
    let in_place =
        |limit: i64| with(limited(limit), &["spec", "template", "spec", "restartPolicy"], "OnFailure");
    let restarted = |count: i64| {
        with(pod("a", "Running"), &["status", "containerStatuses"], vec![value!({"restartCount": count})])
    };
    let policy = value!({"rules": [
        {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
        {"action": "FailJob", "onExitCodes": {"operator": "In", "values": [42]}},
    ]});
    let strict = with(job(1, 1), &["spec", "podFailurePolicy"], policy);
    let disrupted = |name: &str| {
        let condition = value!({"type": "DisruptionTarget", "status": "True"});
        with(pod(name, "Failed"), &["status", "conditions"], vec![condition])
    };
    let lenient = with(strict.clone(), &["spec", "backoffLimit"], 0);
    let indexed_policy =
        with(indexed(3, 9), &["spec", "successPolicy"], value!({"rules": [{"succeededCount": 1}]}));
    let cases = [
        ("failures", limited(1), pods(2, "Failed"), Some("BackoffLimitExceeded")),
        ("not too many failures", limited(2), pods(2, "Failed"), None),
        (
            "known failures",
            status(limited(2), value!({"failed": 2})),
            pods(1, "Failed"),
            Some("BackoffLimitExceeded"),
        ),
        (
            "failures that are about to be counted",
            status(limited(1), value!({"uncountedTerminatedPods": {"failed": ["gone", "uid-failed0"]}})),
            pods(1, "Failed"),
            Some("BackoffLimitExceeded"),
        ),
        (
            "pods deleted by others",
            limited(0),
            vec![going(pod("a", "Running"))],
            Some("BackoffLimitExceeded"),
        ),
        ("restarts", in_place(3), vec![restarted(3)], Some("BackoffLimitExceeded")),
        ("a few restarts", in_place(3), vec![restarted(2)], None),
        ("no restart allowed", in_place(0), vec![restarted(1)], Some("BackoffLimitExceeded")),
        ("no restart", in_place(0), vec![restarted(0)], None),
        ("time", late.clone(), running(1), Some("DeadlineExceeded")),
        ("no time while suspended", suspended(late), vec![], None),
        ("an exit code", strict.clone(), vec![exited(pod("a", "Failed"), 42)], Some("PodFailurePolicy")),
        ("another exit code", strict, vec![exited(pod("a", "Failed"), 1)], None),
        ("ignored failures", lenient, vec![disrupted("a"), disrupted("b")], None),
        ("success enough", indexed_policy, vec![of_index(4, "Succeeded")], Some("SuccessPolicy")),
    ];
    for (why, job, pods, expected) in cases {
        let world = world(job, &pods);
        let found = Review::of(world.job.as_ref().unwrap(), &world.pods, at(0)).ending;
        assert_eq!(found.as_ref().map(|ending| ending.reason.as_str()), expected, "{why}");
    }
}

#[test]
fn a_failing_job_has_the_interim_condition_and_counts_running_pods() {
    let pods = [pod("a", "Failed"), ready(pod("b", "Running"))];
    let world = world(with(job(2, 9), &["spec", "backoffLimit"], 0), &pods);
    assert_eq!(words(&plan(&world)), ["delete b"], "with its finalizer");
    let plan = concluded(&world);
    let status = written(&plan);
    assert_eq!(conditions(&status), ["FailureTarget=True BackoffLimitExceeded"]);
    let message = status.items_at(&["conditions"])[0].str_at(&["message"]);
    assert_eq!(message, Some("Job has reached the specified backoff limit"));
    assert_eq!(status.items_at(&["uncountedTerminatedPods", "failed"]).len(), 2);
    let counts = ["active", "ready", "terminating"].map(|key| status.int_at(&[key]));
    assert_eq!(counts, [None, Some(0), Some(1)]);
    assert_eq!(words(&plan), ["status", "patch a", "patch b"]);
}

#[test]
fn a_job_has_not_ended_while_pods_still_end() {
    let target = value!({"conditions": [(condition("FailureTarget", "DeadlineExceeded"))], "ready": 0});
    let failing = status(job(1, 1), target);
    let ending = |pods: &[Value]| conditions(&written(&concluded(&world(failing.clone(), pods))));
    assert_eq!(ending(&[counted(going(pod("a", "Running")))]), ["FailureTarget=True DeadlineExceeded"]);
    assert_eq!(ending(&[pod("a", "Failed")]), ["FailureTarget=True DeadlineExceeded"]);
    let last = ["FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"];
    assert_eq!(ending(&[counted(pod("a", "Failed"))]), last);
    assert_eq!(ending(&[]), last);
}

#[test]
fn a_pod_that_cannot_be_deleted_keeps_the_job_from_ending() {
    let world =
        world(with(job(1, 1), &["spec", "backoffLimit"], 0), &[pod("a", "Failed"), pod("b", "Running")]);
    let refused = failed(&plan(&world), Status::internal("no"));
    let plan = Jobs::default().conclude(&key(), &world, &refused, at(0));
    assert!(conditions(&written(&plan)).is_empty());
    assert!(events(&plan)[0].starts_with("FailedDelete Error deleting: "), "{:?}", events(&plan));
}

#[test]
fn an_ending_is_never_changed() {
    let met = value!({"conditions": [(condition("SuccessCriteriaMet", "SuccessPolicy"))]});
    let world = world(
        with(status(indexed(2, 9), met), &["spec", "backoffLimit"], 0),
        &[of_index(0, "Succeeded"), of_index(1, "Running"), of_index(2, "Failed")],
    );
    assert_eq!(words(&plan(&world)), ["delete p1"]);
    let status = written(&concluded(&world));
    assert_eq!(conditions(&status), ["SuccessCriteriaMet=True SuccessPolicy"]);
    let failed = status.items_at(&["uncountedTerminatedPods", "failed"]);
    assert_eq!(failed, [Value::from("uid-p2")], "what is stopped after a success has not failed");
}

#[test]
fn jobs_complete() {
    let cases = [
        ("all", job(2, 2), pods(2, "Succeeded"), 2, "CompletionsReached"),
        ("nothing to do", job(2, 0), vec![], 0, "CompletionsReached"),
        ("a queue", work_queue(2), pods(2, "Succeeded"), 2, "CompletionsReached"),
        (
            "indexes",
            indexed(2, 2),
            vec![of_index(0, "Succeeded"), of_index(1, "Succeeded")],
            2,
            "CompletionsReached",
        ),
        (
            "a policy",
            with(indexed(2, 2), &["spec", "successPolicy"], value!({"rules": [{"succeededIndexes": "1"}]})),
            vec![of_index(0, "Running"), of_index(1, "Succeeded")],
            1,
            "SuccessPolicy",
        ),
    ];
    for (why, job, pods, succeeded, reason) in cases {
        let (job, events) = settle(job, pods);
        let status = job.get("status").unwrap();
        let expected = [format!("SuccessCriteriaMet=True {reason}"), format!("Complete=True {reason}")];
        assert_eq!(conditions(status), expected, "{why}");
        assert_eq!(status.int_at(&["succeeded"]).unwrap_or(0), succeeded, "{why}");
        assert_eq!(status.str_at(&["completionTime"]), Some(at_text(0).as_str()), "{why}");
        assert_eq!(status.get("uncountedTerminatedPods"), Some(&value!({})), "{why}");
        assert_eq!(status.get("failed"), None, "{why}");
        assert_eq!(events.last().map(String::as_str), Some("Completed Job completed"), "{why}");
    }
}

#[test]
fn too_many_succeeded_pods_are_reported() {
    let (job, events) = settle(job(2, 1), pods(2, "Succeeded"));
    assert_eq!(job.int_at(&["status", "succeeded"]), Some(2));
    assert_eq!(
        events,
        [
            "TooManySucceededPods Too many succeeded pods running after completion count reached",
            "Completed Job completed"
        ]
    );
}

#[test]
fn jobs_fail() {
    let late =
        with(status(job(1, 1), value!({"startTime": (at_text(-60))})), &["spec", "activeDeadlineSeconds"], 9);
    let (job, events) = settle(late, pods(1, "Running"));
    let status = job.get("status").unwrap();
    assert_eq!(conditions(status), ["FailureTarget=True DeadlineExceeded", "Failed=True DeadlineExceeded"]);
    assert_eq!(status.int_at(&["failed"]), Some(1));
    assert_eq!(status.get("completionTime"), None);
    assert_eq!(
        events,
        [
            "SuccessfulDelete Deleted pod: running0",
            "DeadlineExceeded Job was active longer than specified deadline"
        ]
    );
}

#[test]
fn a_job_on_its_way_out_lets_its_pods_go() {
    let plan = concluded(&world(going(job(2, 2)), &[pod("a", "Running"), pod("b", "Failed")]));
    assert_eq!(words(&plan), ["status", "patch a", "patch b"]);
    assert_eq!(written(&plan).get("uncountedTerminatedPods"), Some(&value!({"failed": ["uid-b"]})));
}
