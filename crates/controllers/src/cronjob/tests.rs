//! Tests of the cron job controller: starts, history limits, events.

use std::time::Duration;

use corten_api::{Status, value};

use super::*;
use crate::testing::{cached, done, failed};

/// A time on the day of the tests.
fn at(time: &str) -> Timestamp {
    format!("2026-05-19T{time}Z").parse().unwrap()
}

fn at_text(time: &str) -> String {
    format!("2026-05-19T{time}Z")
}

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

/// A cron job that is due at every full hour, created at half past nine.
fn cron() -> Value {
    value!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {
            "name": "report", "namespace": "default", "uid": "cron",
            "creationTimestamp": (at_text("09:30:00")),
        },
        "spec": {
            "schedule": "0 * * * *", "concurrencyPolicy": "Allow",
            "successfulJobsHistoryLimit": 3, "failedJobsHistoryLimit": 1,
            "jobTemplate": {
                "metadata": {"labels": {"app": "report"}, "annotations": {"why": "numbers"}},
                "spec": {"template": {"spec": {"containers": []}}},
            },
        },
    })
}

fn name_at(time: &str) -> String {
    format!("report-{}", at(time).as_second() / 60)
}

/// The running job of a time.
fn job(time: &str) -> Value {
    value!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {
            "name": (name_at(time)), "namespace": "default", "uid": (name_at(time)), "resourceVersion": "7",
            "ownerReferences": [(crate::claims::reference(&cron()))],
        },
        "status": {"startTime": (at_text(time))},
    })
}

fn finished(time: &str, how: &str) -> Value {
    let mut job = job(time);
    job.set(&["status", "conditions"], value!([{"type": how, "status": "True"}]));
    if how == "Complete" {
        job.set(&["status", "completionTime"], at_text(time));
    }
    job
}

/// The cron job with these jobs active, the last of them started last.
fn active(times: &[&str]) -> Value {
    let references: Vec<_> = times.iter().map(|time| reference(&job(time))).collect();
    let cron = with(cron(), &["status", "active"], references);
    match times.last() {
        Some(last) => with(cron, &["status", "lastScheduleTime"], at_text(last)),
        None => cron,
    }
}

fn world(cron: Value, jobs: &[Value]) -> World {
    let jobs = jobs.iter().map(|job| Child::from(cached(job))).collect();
    World { cron: Some(cron), jobs, ..World::default() }
}

fn controller() -> CronJobs {
    CronJobs::new(TimeZone::UTC, BatchOptions::default())
}

fn key() -> Key {
    Key::new("default", "report")
}

fn plan(world: &World, now: &str) -> Plan {
    controller().plan(&key(), world, at(now))
}

fn concluded(world: &World, now: &str) -> Plan {
    controller().conclude(&key(), world, &done(&plan(world, now)), at(now))
}

/// The actions of a plan.
fn words(plan: &Plan) -> Vec<String> {
    let word = |action: &Action| match action {
        Action::Create { object, .. } => format!("create {}", meta::name(object)),
        Action::Delete { key, .. } => format!("delete {}", key.name),
        other => format!("{other:?}"),
    };
    plan.actions().map(word).collect()
}

/// The reasons of a plan's events.
fn reasons(plan: &Plan) -> Vec<&str> {
    plan.events.iter().map(|event| event.reason.as_ref()).collect()
}

fn written(plan: &Plan) -> Option<Value> {
    plan.actions().find_map(|action| match action {
        Action::Update { object, subresource: "status", .. } => object.get("status").cloned(),
        _ => None,
    })
}

#[test]
fn jobs_are_started_when_they_are_due() {
    let policy = |cron: Value, policy: &str| with(cron, &["spec", "concurrencyPolicy"], policy);
    let deadline = |cron: Value, seconds: i64| with(cron, &["spec", "startingDeadlineSeconds"], seconds);
    let create = |time: &str| format!("create {}", name_at(time));
    let running = || vec![job("10:00:00")];
    let cases = [
        ("before the first time", cron(), vec![], "09:59:59", vec![], vec![]),
        ("at the first time", cron(), vec![], "10:00:00", vec![create("10:00:00")], vec![]),
        ("only the last of several", cron(), vec![], "12:30:00", vec![create("12:00:00")], vec![]),
        ("once for each time", active(&["10:00:00"]), running(), "10:30:00", vec![], vec![]),
        ("side by side", active(&["10:00:00"]), running(), "11:00:00", vec![create("11:00:00")], vec![]),
        (
            "one after the other",
            policy(active(&["10:00:00"]), "Forbid"),
            running(),
            "11:00:00",
            vec![],
            vec!["JobAlreadyActive"],
        ),
        (
            "one after the other, when the first has ended",
            policy(active(&["10:00:00"]), "Forbid"),
            vec![finished("10:00:00", "Complete")],
            "11:20:00",
            vec![create("11:00:00")],
            vec!["SawCompletedJob"],
        ),
        (
            "one instead of the other",
            policy(active(&["10:00:00"]), "Replace"),
            running(),
            "11:00:00",
            vec![format!("delete {}", name_at("10:00:00")), create("11:00:00")],
            vec![],
        ),
        ("in time", deadline(cron(), 600), vec![], "10:09:59", vec![create("10:00:00")], vec![]),
        ("too late", deadline(cron(), 600), vec![], "10:10:00", vec![], vec![]),
        ("paused", with(cron(), &["spec", "suspend"], true), vec![], "11:00:00", vec![], vec![]),
        (
            "going away",
            with(cron(), &["metadata", "deletionTimestamp"], at_text("09:00:00")),
            vec![],
            "11:00:00",
            vec![],
            vec![],
        ),
        (
            "no such zone",
            with(cron(), &["spec", "timeZone"], "Mars/Base"),
            vec![],
            "11:00:00",
            vec![],
            vec!["UnknownTimeZone"],
        ),
        (
            "no such schedule",
            with(cron(), &["spec", "schedule"], "when it rains"),
            vec![],
            "11:00:00",
            vec![],
            vec!["UnparseableSchedule"],
        ),
        (
            "never",
            with(cron(), &["spec", "schedule"], "59 23 31 2 *"),
            vec![],
            "11:00:00",
            vec![],
            vec!["InvalidSchedule"],
        ),
        (
            "a zone in the schedule",
            with(cron(), &["spec", "schedule"], "TZ=UTC 0 * * * *"),
            vec![],
            "11:00:00",
            vec![create("11:00:00")],
            vec!["UnsupportedSchedule"],
        ),
        (
            "very many times",
            with(cron(), &["metadata", "creationTimestamp"], "2026-05-01T00:00:00Z"),
            vec![],
            "11:00:00",
            vec![create("11:00:00")],
            vec!["TooManyMissedTimes"],
        ),
        ("made, but not noted", cron(), vec![job("10:00:00")], "10:00:10", vec![], vec!["UnexpectedJob"]),
        ("gone", active(&["10:00:00"]), vec![], "10:30:00", vec![], vec!["MissingJob"]),
    ];
    for (why, cron, jobs, now, expected, reported) in cases {
        let plan = plan(&world(cron, &jobs), now);
        assert_eq!(words(&plan), expected, "{why}");
        assert_eq!(reasons(&plan), reported, "{why}");
    }
}

#[test]
fn time_zones_count() {
    let berlin =
        with(with(cron(), &["spec", "timeZone"], "Europe/Berlin"), &["spec", "schedule"], "0 13 * * *");
    let plan = plan(&world(berlin, &[]), "11:00:00");
    let Some(Action::Create { object, .. }) = plan.actions().next() else { panic!("{plan:?}") };
    assert_eq!(meta::name(object), name_at("11:00:00"));
    let annotation =
        object.str_at(&["metadata", "annotations", "batch.kubernetes.io/cronjob-scheduled-timestamp"]);
    assert_eq!(annotation, Some("2026-05-19T13:00:00+02:00"));
}

#[test]
fn jobs_are_like_their_template() {
    let plan = plan(&world(cron(), &[]), "10:00:00");
    let Some(Action::Create { object, .. }) = plan.actions().next() else { panic!("{plan:?}") };
    let metadata = object.get("metadata").unwrap();
    assert_eq!(metadata.get("labels"), Some(&value!({"app": "report"})));
    let annotations = value!({
        "why": "numbers", "batch.kubernetes.io/cronjob-scheduled-timestamp": (at_text("10:00:00")),
    });
    assert_eq!(metadata.get("annotations"), Some(&annotations));
    assert_eq!(metadata.items_at(&["ownerReferences"]), [crate::claims::reference(&cron())]);
    assert_eq!(object.get("spec"), cron().at(&["spec", "jobTemplate", "spec"]));
}

#[test]
fn a_started_job_is_noted() {
    let world = world(cron(), &[]);
    let noted = concluded(&world, "10:00:05");
    let status = written(&noted).unwrap();
    assert_eq!(status.str_at(&["lastScheduleTime"]), Some(at_text("10:00:00").as_str()));
    assert_eq!(status.items_at(&["active"])[0].str_at(&["name"]), Some(name_at("10:00:00").as_str()));
    assert_eq!(noted.events[0].message, format!("Created job {}", name_at("10:00:00")));
    let refused = failed(&plan(&world, "10:00:05"), Status::internal("no"));
    let plan = controller().conclude(&key(), &world, &refused, at("10:00:05"));
    assert_eq!(written(&plan), None);
    assert!(plan.events[0].message.starts_with("Error creating job: "), "{:?}", plan.events);
}

#[test]
fn a_job_that_was_not_noted_is_noted_later() {
    let status = written(&concluded(&world(cron(), &[job("10:00:00")]), "10:00:10")).unwrap();
    assert_eq!(status.items_at(&["active"]), [reference(&job("10:00:00"))]);
    assert_eq!(status.str_at(&["lastScheduleTime"]), Some(at_text("10:00:00").as_str()));
}

#[test]
fn the_list_of_active_jobs_is_kept() {
    let cases = [
        ("still running", vec![job("10:00:00")], None),
        ("gone", vec![], Some(value!({"lastScheduleTime": (at_text("10:00:00"))}))),
        (
            "failed",
            vec![finished("10:00:00", "Failed")],
            Some(value!({"lastScheduleTime": (at_text("10:00:00"))})),
        ),
        (
            "complete",
            vec![finished("10:00:00", "Complete")],
            Some(value!({
                "lastScheduleTime": (at_text("10:00:00")), "lastSuccessfulTime": (at_text("10:00:00")),
            })),
        ),
    ];
    for (why, jobs, expected) in cases {
        assert_eq!(written(&concluded(&world(active(&["10:00:00"]), &jobs), "10:30:00")), expected, "{why}");
    }
    let replaced = with(active(&["10:00:00"]), &["spec", "concurrencyPolicy"], "Replace");
    let status = written(&concluded(&world(replaced, &[job("10:00:00")]), "11:00:00")).unwrap();
    let names: Vec<_> = status.items_at(&["active"]).iter().filter_map(|job| job.str_at(&["name"])).collect();
    assert_eq!(names, [name_at("11:00:00")]);
}

#[test]
fn a_job_is_gone_only_if_the_server_says_so() {
    let controller = controller();
    let mut world = world(active(&["10:00:00"]), &[]);
    let path = format!("/apis/batch/v1/namespaces/default/jobs/{}", name_at("10:00:00"));
    assert_eq!(controller.ask(&world), [path.as_str()]);
    controller.learn(&mut world, &path, Ok(job("10:00:00")));
    assert!(controller.ask(&world).is_empty());
    assert!(concluded(&world, "10:30:00").is_done());
    controller.learn(&mut world, &path, Err(Status::not_found("batch", "jobs", "x").into()));
    assert_eq!(reasons(&plan(&world, "10:30:00")), ["MissingJob"]);
}

#[test]
fn the_last_success_is_reported() {
    let known = with(active(&[]), &["status", "lastSuccessfulTime"], at_text("08:00:00"));
    let jobs =
        [finished("09:00:00", "Complete"), finished("07:00:00", "Complete"), finished("10:00:00", "Failed")];
    let status = written(&concluded(&world(known, &jobs), "09:40:00")).unwrap();
    assert_eq!(status.str_at(&["lastSuccessfulTime"]), Some(at_text("09:00:00").as_str()));
}

#[test]
fn old_jobs_go() {
    let complete =
        ["01:00:00", "02:00:00", "03:00:00", "04:00:00", "05:00:00"].map(|t| finished(t, "Complete"));
    let failed = ["01:30:00", "02:30:00"].map(|time| finished(time, "Failed"));
    let jobs = [&complete[..], &failed[..], &[job("06:00:00")]].concat();
    let limited = world(active(&["06:00:00"]), &jobs);
    let expected = ["01:00:00", "02:00:00", "01:30:00"].map(|time| format!("delete {}", name_at(time)));
    assert_eq!(words(&plan(&limited, "06:10:00")), expected);
    assert_eq!(reasons(&concluded(&limited, "06:10:00")), ["SuccessfulDelete"; 3]);
    let mut unlimited = active(&["06:00:00"]);
    unlimited.remove(&["spec", "successfulJobsHistoryLimit"]);
    unlimited.remove(&["spec", "failedJobsHistoryLimit"]);
    assert!(words(&plan(&world(unlimited, &jobs), "06:10:00")).is_empty());
}

#[test]
fn a_cron_job_is_requeued_for_its_next_time() {
    for (why, cron, now, seconds) in [
        ("before the first", cron(), "09:59:00", Some(60)),
        ("with the first", cron(), "10:00:00", Some(3600)),
        (
            "after one that was missed",
            with(cron(), &["spec", "startingDeadlineSeconds"], 5),
            "10:30:00",
            Some(1800),
        ),
        ("paused", with(cron(), &["spec", "suspend"], true), "10:30:00", None),
    ] {
        let expected = seconds.map(|seconds| Duration::from_secs(seconds) + Duration::from_millis(100));
        assert_eq!(plan(&world(cron, &[]), now).requeue_after, expected, "{why}");
    }
}

#[test]
fn a_new_schedule_begins_with_its_next_time() {
    let controller = controller();
    let often = with(cron(), &["spec", "schedule"], "*/5 * * * *");
    assert!(!controller.is_rescheduled(&key(), &cron()));
    assert!(!controller.is_rescheduled(&key(), &cron()));
    assert!(controller.is_rescheduled(&key(), &often));
    assert!(!controller.is_rescheduled(&key(), &often));
    let mut world = world(often, &[]);
    world.rescheduled = true;
    let plan = plan(&world, "10:01:00");
    assert!(words(&plan).is_empty());
    assert_eq!(plan.requeue_after, Some(Duration::from_millis(240_100)));
}

#[test]
fn a_status_that_is_right_is_not_written() {
    assert!(concluded(&world(active(&["10:00:00"]), &[job("10:00:00")]), "10:30:00").is_done());
    assert!(concluded(&world(cron(), &[]), "09:40:00").is_done());
}
