//! Jobs that continue: the number of running pods, deletions and the interim status.

use super::*;

#[test]
fn as_many_pods_run_as_are_still_needed() {
    let running = |count| pods(count, "Running");
    let failed = |count| pods(count, "Failed");
    let both = |a: Vec<Value>, b: Vec<Value>| [a, b].concat();
    let known = |job: Value, succeeded: i64| status(job, value!({"succeeded": succeeded}));
    let cases = [
        ("all at once", job(2, 5), vec![], vec!["2× create sum-"]),
        ("no more than needed", job(5, 2), vec![], vec!["2× create sum-"]),
        ("enough run", job(2, 5), running(2), vec![]),
        ("one has succeeded", known(job(2, 5), 1), running(1), vec!["create sum-"]),
        ("the last one runs", known(job(2, 5), 4), running(1), vec![]),
        ("too many run", job(1, 5), running(2), vec!["patch running1", "delete running1"]),
        ("one failed long ago", job(2, 5), both(running(1), failed(1)), vec!["create sum-"]),
        ("none are wanted", job(0, 5), running(1), vec!["patch running0", "delete running0"]),
        ("a queue of work", work_queue(3), running(1), vec!["2× create sum-"]),
        ("a queue that is empty", work_queue(3), both(running(1), pods(1, "Succeeded")), vec![]),
        ("at most 500", job(900, 900), vec![], vec!["500× create sum-"]),
        ("suspended", suspended(job(2, 5)), vec![], vec![]),
        (
            "suspended while running",
            suspended(job(2, 5)),
            running(2),
            vec!["patch running0", "patch running1", "delete running0", "delete running1"],
        ),
        ("on its way out", going(job(2, 5)), running(1), vec![]),
        (
            "pods on their way out are replaced",
            job(1, 5),
            vec![going(pod("x", "Running"))],
            vec!["create sum-"],
        ),
        (
            "pods on their way out are awaited",
            with(job(1, 5), &["spec", "podReplacementPolicy"], "Failed"),
            vec![going(pod("x", "Running"))],
            vec![],
        ),
        (
            "pods that have ended are replaced even so",
            with(job(1, 5), &["spec", "podReplacementPolicy"], "Failed"),
            vec![going(pod("x", "Failed"))],
            vec!["create sum-"],
        ),
    ];
    for (why, job, pods, expected) in cases {
        let mut found = words(&plan(&world(job, &pods)));
        found.sort_by_key(|word| (word.starts_with("delete"), word.clone()));
        assert_eq!(found, expected, "{why}");
    }
}

#[test]
fn the_least_worthy_pods_go_first() {
    let better = || {
        with(
            ready(pod("old", "Running")),
            &["status", "containerStatuses"],
            vec![value!({"restartCount": 1})],
        )
    };
    let restarted = vec![value!({"restartCount": 3})];
    let cases = [
        ("unassigned", with(better(), &["spec", "nodeName"], "")),
        ("pending", with(better(), &["status", "phase"], "Pending")),
        ("not ready", pod("x", "Running")),
        ("restarted", with(better(), &["status", "containerStatuses"], restarted)),
        ("younger", with(better(), &["metadata", "creationTimestamp"], at_text(-5))),
    ];
    for (why, worse) in cases {
        let world = world(job(1, 9), &[better(), named("x", worse)]);
        assert_eq!(words(&plan(&world)), ["patch x", "delete x"], "{why}");
    }
}

#[test]
fn pods_are_made_to_be_counted() {
    let plan = plan(&world(job(1, 1), &[]));
    let Some(Action::Create { object, .. }) = plan.actions().next() else { panic!("nothing is made") };
    assert_eq!(meta::finalizers(object).collect::<Vec<_>>(), [FINALIZER]);
    assert_eq!(meta::generate_name(object), "sum-");
    assert!(matches!(&plan.steps[..], [Step::SlowStart(_)]));
}

#[test]
fn pods_of_indexes_know_theirs() {
    let made: Vec<_> = plan(&world(indexed(2, 3), &[])).actions().cloned().collect();
    let Some(Action::Create { object, .. }) = made.get(1) else { panic!("{made:?}") };
    assert_eq!(meta::generate_name(object), "sum-1-");
    assert_eq!(object.str_at(&["spec", "hostname"]), Some("sum-1"));
    for place in ["labels", "annotations"] {
        assert_eq!(object.str_at(&["metadata", place, tracking::INDEX]), Some("1"));
    }
    let container = &object.items_at(&["spec", "containers"])[0];
    let path = "metadata.labels['batch.kubernetes.io/job-completion-index']";
    let variable = value!({"name": "JOB_COMPLETION_INDEX", "valueFrom": {"fieldRef": {"fieldPath": (path)}}});
    assert_eq!(container.items_at(&["env"]), [variable]);
    assert_eq!(object.at(&["metadata", "annotations", tracking::FAILURES]), None);
}

#[test]
fn long_names_are_cut_before_the_index() {
    let long = with(indexed(1, 99), &["metadata", "name"], "x".repeat(60));
    let plan = plan(&world(long, &[]));
    let Some(Action::Create { object, .. }) = plan.actions().next() else { panic!("nothing is made") };
    assert_eq!(meta::generate_name(object), format!("{}-0-", "x".repeat(55)));
}

#[test]
fn each_index_has_one_pod() {
    let at = |name: &str, index: i64| named(name, of_index(index, "Running"));
    let completed = |job: Value, indexes: &str| status(job, value!({"completedIndexes": indexes}));
    let cases = [
        ("the lowest first", indexed(2, 5), vec![], vec!["create sum-0-", "create sum-1-"]),
        (
            "gaps",
            completed(indexed(3, 5), "0,2"),
            vec![of_index(3, "Running")],
            vec!["create sum-1-", "create sum-4-"],
        ),
        (
            "new successes",
            indexed(2, 3),
            vec![of_index(0, "Succeeded")],
            vec!["create sum-1-", "create sum-2-"],
        ),
        ("twice the same", indexed(3, 3), vec![at("a", 1), at("b", 1)], vec!["patch b", "delete b"]),
        ("without an index", indexed(3, 3), vec![pod("a", "Running")], vec!["patch a", "delete a"]),
        ("beyond the end", indexed(1, 1), vec![at("a", 0), at("b", 7)], vec!["patch b", "delete b"]),
        ("fewer completions than before", completed(indexed(3, 3), "0-9"), vec![], vec![]),
        (
            "an index on its way out",
            indexed(1, 2),
            vec![going(of_index(0, "Running"))],
            vec!["create sum-0-"],
        ),
        (
            "an index that is awaited",
            with(indexed(2, 2), &["spec", "podReplacementPolicy"], "Failed"),
            vec![going(of_index(0, "Running"))],
            vec!["create sum-1-"],
        ),
    ];
    for (why, job, pods, expected) in cases {
        assert_eq!(words(&plan(&world(job, &pods))), expected, "{why}");
    }
}

#[test]
fn a_failure_is_followed_by_a_pause() {
    let failed_at = |seconds: i64| {
        let state = value!({"terminated": {"exitCode": 1, "finishedAt": (at_text(seconds))}});
        let statuses = vec![value!({"name": "main", "state": (state)})];
        with(pod("x", "Failed"), &["status", "containerStatuses"], statuses)
    };
    let recent = plan(&world(job(1, 1), &[failed_at(-4)]));
    assert_eq!(recent, Plan::done().requeue_after(Duration::from_secs(6)));
    assert_eq!(words(&plan(&world(job(1, 1), &[failed_at(-10)]))), ["create sum-"]);
    let two = [failed_at(-5), named("y", failed_at(-4))];
    assert_eq!(plan(&world(job(1, 1), &two)).requeue_after, Some(Duration::from_secs(16)));
}

#[test]
fn pauses_are_remembered_without_their_pods() {
    let jobs = Jobs::default();
    let look = |pods: &[Value]| {
        let world = world(job(1, 1), pods);
        jobs.memory.update(&key(), "job", world.job.as_ref().unwrap(), &world.pods).count
    };
    let failed = |name: &str| pod(name, "Failed");
    assert_eq!(look(&[failed("a")]), 1);
    assert_eq!(look(&[failed("a")]), 1, "it is known already");
    assert_eq!(look(&[counted(failed("a"))]), 1);
    assert_eq!(look(&[failed("b")]), 2);
    assert_eq!(look(&[]), 2);
    assert_eq!(look(&[pod("c", "Succeeded")]), 0);
    jobs.memory.forget(&key());
    assert_eq!(look(&[counted(failed("a")), counted(failed("b"))]), 2, "after a restart");
}

#[test]
fn pods_are_taken_in_and_let_go() {
    let orphan = |mut pod: Value| {
        pod.remove(&["metadata", "ownerReferences"]);
        counted(pod)
    };
    let strange = |pod: Value| with(pod, &["metadata", "labels", "job"], "other");
    let metadata = |plan: &Plan| match plan.actions().next() {
        Some(Action::Patch { patch: corten_client::Patch::Strategic(patch), .. }) => {
            patch.get("metadata").cloned().unwrap()
        }
        other => panic!("{other:?}"),
    };
    let taken = plan(&world(job(1, 1), &[orphan(pod("x", "Running"))]));
    assert_eq!(words(&taken), ["patch x"]);
    assert_eq!(metadata(&taken).items_at(&["finalizers"]), [Value::from(FINALIZER)]);
    let gone = plan(&world(job(1, 1), &[strange(pod("x", "Running"))]));
    assert_eq!(words(&gone), ["patch x", "create sum-"]);
    let finalizers = metadata(&gone).items_at(&["$deleteFromPrimitiveList/finalizers"]).to_vec();
    assert_eq!(finalizers, [Value::from(FINALIZER)]);
    // Without the ownership of the pods there is no status.
    let world = world(job(1, 1), &[orphan(pod("x", "Succeeded"))]);
    let refused = failed(&plan(&world), Status::internal("no"));
    assert!(Jobs::default().conclude(&key(), &world, &refused, at(0)).is_done());
}

#[test]
fn the_status_counts() {
    let pods = [
        ready(pod("a", "Running")),
        pod("b", "Pending"),
        pod("c", "Failed"),
        pod("d", "Succeeded"),
        going(pod("e", "Running")),
        counted(pod("f", "Succeeded")),
    ];
    let job = status(job(2, 9), value!({"succeeded": 1, "startTime": (at_text(-60))}));
    let plan = concluded(&world(job, &pods));
    let expected = value!({
        "active": 2, "ready": 1, "terminating": 1, "succeeded": 1, "startTime": (at_text(-60)),
        "uncountedTerminatedPods": {"succeeded": ["uid-d"], "failed": ["uid-c", "uid-e"]},
    });
    assert_eq!(written(&plan), expected);
    assert_eq!(
        words(&plan),
        ["status", "patch c", "patch d", "patch e"],
        "the status first, then the finalizers"
    );
}

#[test]
fn pods_that_were_let_go_are_counted_once() {
    let about = value!({"succeeded": ["uid-a", "uid-gone"], "failed": ["uid-b", "uid-c"]});
    let job = status(
        job(1, 9),
        value!({"succeeded": 2, "failed": 1, "ready": 0, "terminating": 0, "active": 1, "uncountedTerminatedPods": (about)}),
    );
    let pods = [
        counted(pod("a", "Succeeded")),
        counted(pod("b", "Failed")),
        pod("c", "Failed"),
        pod("d", "Running"),
    ];
    let plan = concluded(&world(job, &pods));
    let status = written(&plan);
    assert_eq!((status.int_at(&["succeeded"]), status.int_at(&["failed"])), (Some(4), Some(2)));
    assert_eq!(status.get("uncountedTerminatedPods"), Some(&value!({"failed": ["uid-c"]})));
    assert_eq!(words(&plan), ["status", "patch c"], "what could not be let go is tried again");
}

#[test]
fn only_so_many_pods_are_counted_at_a_time() {
    let plan = concluded(&world(job(1, 900), &pods(700, "Succeeded")));
    assert_eq!(written(&plan).items_at(&["uncountedTerminatedPods", "succeeded"]).len(), 500);
    assert_eq!(plan.actions().filter(|action| matches!(action, Action::Patch { .. })).count(), 500);
}

#[test]
fn a_status_that_is_right_is_not_written() {
    let first = world(job(1, 1), &[ready(pod("a", "Running"))]);
    let known = status(job(1, 1), written(&concluded(&first)));
    assert!(concluded(&world(known, &[ready(pod("a", "Running"))])).is_done());
}

#[test]
fn pods_made_and_deleted_are_in_the_status() {
    let more = world(job(3, 3), &[pod("a", "Running")]);
    assert_eq!(written(&concluded(&more)).int_at(&["active"]), Some(3));
    let refused = failed(&plan(&more), Status::forbidden("", "pods", "", "exceeded quota"));
    let plan = Jobs::default().conclude(&key(), &more, &refused, at(0));
    assert_eq!(written(&plan).int_at(&["active"]), Some(1));
    assert!(events(&plan)[0].starts_with("FailedCreate Error creating: "), "{:?}", events(&plan));
    let fewer = concluded(&world(job(1, 3), &[ready(pod("a", "Running")), ready(pod("b", "Running"))]));
    let status = written(&fewer);
    let counts = ["active", "ready", "terminating"].map(|key| status.int_at(&[key]));
    assert_eq!(counts, [Some(1), Some(1), Some(1)]);
    assert_eq!(status.get("failed"), None);
    assert_eq!(events(&fewer), ["SuccessfulDelete Deleted pod: b"]);
}

#[test]
fn completed_indexes_are_reported() {
    let job = status(indexed(3, 9), value!({"completedIndexes": "1"}));
    let pods = [
        of_index(4, "Succeeded"),
        of_index(2, "Succeeded"),
        of_index(3, "Succeeded"),
        of_index(0, "Running"),
    ];
    let plan = concluded(&world(job, &pods));
    let status = written(&plan);
    assert_eq!(status.str_at(&["completedIndexes"]), Some("1-4"));
    assert_eq!(status.int_at(&["succeeded"]), Some(4));
    assert_eq!(status.get("uncountedTerminatedPods"), Some(&value!({})));
    assert_eq!(words(&plan), ["status", "patch p2", "patch p3", "patch p4"]);
}

#[test]
fn pausing_and_going_on() {
    let plan = concluded(&world(
        suspended(status(job(1, 1), value!({"startTime": (at_text(-60))}))),
        &[pod("a", "Running")],
    ));
    let paused = written(&plan);
    assert_eq!(conditions(&paused), ["Suspended=True JobSuspended"]);
    assert_eq!(paused.get("startTime"), None);
    assert_eq!(paused.get("failed"), None);
    assert_eq!(events(&plan), ["SuccessfulDelete Deleted pod: a", "Suspended Job suspended"]);
    let again = concluded(&world(suspended(status(job(1, 1), paused.clone())), &[]));
    assert!(events(&again).is_empty(), "it is known");
    let resumed = concluded(&world(status(job(1, 1), paused), &[]));
    assert_eq!(conditions(&written(&resumed)), ["Suspended=False JobResumed"]);
    assert_eq!(written(&resumed).str_at(&["startTime"]), Some(at_text(0).as_str()));
    assert!(events(&resumed).contains(&"Resumed Job resumed".to_owned()));
    let never = concluded(&world(job(1, 1), &[]));
    assert!(conditions(&written(&never)).is_empty(), "one that never paused does not say so");
}

#[test]
fn a_job_is_requeued_for_its_deadline() {
    let job = with(
        status(job(1, 1), value!({"startTime": (at_text(-60))})),
        &["spec", "activeDeadlineSeconds"],
        100,
    );
    assert_eq!(
        plan(&world(job.clone(), &[pod("a", "Running")])).requeue_after,
        Some(Duration::from_secs(40))
    );
    assert_eq!(plan(&world(suspended(job), &[])).requeue_after, None, "time stands still");
}

#[test]
fn strange_modes_are_left_alone() {
    let strange = world(with(job(1, 1), &["spec", "completionMode"], "Backwards"), &[]);
    assert_eq!(
        events(&plan(&strange)),
        ["UnknownCompletionMode Skipped Job sync because completion mode is unknown"]
    );
    assert!(concluded(&strange).is_done());
}
