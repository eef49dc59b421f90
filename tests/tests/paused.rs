//! The controllers on a clock that the test moves: minutes or days of a cluster, in seconds, with exact
//! times.

use std::time::Duration;

use corten_api::{Value, time, value};
use corten_client::kinds;
use corten_testkit::Cluster;

const NAMESPACE: &str = "default";

fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn deployment(name: &str, replicas: i64, image: &str) -> Value {
    value!({
        "apiVersion": "apps/v1", "kind": "Deployment",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": {
            "replicas": replicas,
            "minReadySeconds": 30,
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {"containers": [{"name": "main", "image": image}]},
            },
        },
    })
}

fn is_rolled_out(cluster: &Cluster, name: &str, replicas: i64) -> bool {
    let Some(object) = cluster.get(&kinds::DEPLOYMENTS, NAMESPACE, name) else { return false };
    let status = |count: &str| object.int_at(&["status", count]).unwrap_or(0);
    status("observedGeneration") == object.int_at(&["metadata", "generation"]).unwrap_or(0)
        && ["replicas", "updatedReplicas", "availableReplicas"].iter().all(|count| status(count) == replicas)
}

#[test]
fn a_rollout_takes_as_long_as_its_pods_have_to_be_ready() {
    let cluster = Cluster::with_nodes(2);
    cluster.create(&kinds::DEPLOYMENTS, &deployment("web", 3, "registry.example/web:1"));
    let took = cluster.until("three replicas", seconds(600), |cluster| is_rolled_out(cluster, "web", 3));
    assert_eq!(took, seconds(30), "all at once, then ready for as long as it asks");
    let newer = value!({"spec": {"template": {"spec": {"containers": [
        {"name": "main", "image": "registry.example/web:2"},
    ]}}}});
    cluster.patch(&kinds::DEPLOYMENTS, NAMESPACE, "web", newer);
    let took = cluster.until("the new image", seconds(600), |cluster| is_rolled_out(cluster, "web", 3));
    assert_eq!(took, seconds(90), "one more than wanted at a time");
    cluster.advance(seconds(3600));
    assert!(is_rolled_out(&cluster, "web", 3));
    assert_eq!(cluster.list(&kinds::PODS, NAMESPACE).len(), 3);
}

#[test]
fn a_stuck_rollout_is_reported_after_ten_minutes() {
    let cluster = Cluster::with_nodes(0);
    cluster.create(&kinds::DEPLOYMENTS, &deployment("web", 1, "registry.example/web:1"));
    let says_so = |cluster: &Cluster| {
        let object = cluster.get(&kinds::DEPLOYMENTS, NAMESPACE, "web").unwrap_or_default();
        let conditions = object.items_at(&["status", "conditions"]);
        conditions.iter().any(|c| c.str_at(&["reason"]) == Some("ProgressDeadlineExceeded"))
    };
    let took = cluster.until("the deadline", seconds(3600), says_so);
    assert!((600..=601).contains(&took.as_secs()), "{took:?}");
}

/// A job whose pods run a second and then exit with a code.
fn job(name: &str, exit_code: i64, spec: Value) -> Value {
    let mut job = value!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": name, "namespace": NAMESPACE},
        "spec": (spec),
    });
    let code = exit_code.to_string();
    let template = value!({
        "metadata": {"annotations": {"simulator.corten.dev/exit-code": code}},
        "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "registry.example/job:1"}]},
    });
    job.set(&["spec", "template"], template);
    job
}

/// The reason of a job's end, once it has ended.
fn ended(cluster: &Cluster, name: &str) -> Option<String> {
    let job = cluster.get(&kinds::JOBS, NAMESPACE, name)?;
    let conditions = job.items_at(&["status", "conditions"]).iter();
    let mut last = conditions.filter(|c| matches!(c.str_at(&["type"]), Some("Complete" | "Failed")));
    last.next().and_then(|c| c.str_at(&["reason"])).map(str::to_owned)
}

/// The creation times of objects in seconds after a start, in order.
fn made(objects: &[Value], start: i64) -> Vec<i64> {
    let at = |object: &Value| {
        let text = object.str_at(&["metadata", "creationTimestamp"])?;
        time::parse(text).ok().map(|at| at.as_second() - start)
    };
    let mut times: Vec<_> = objects.iter().filter_map(at).collect();
    times.sort_unstable();
    times
}

#[test]
fn a_failing_job_is_retried_with_backoff() {
    let cluster = Cluster::with_nodes(1);
    let start = cluster.now().as_second();
    cluster.create(&kinds::JOBS, &job("bad", 3, value!({"backoffLimit": 3})));
    cluster.until("the last try", seconds(600), |cluster| ended(cluster, "bad").is_some());
    assert_eq!(ended(&cluster, "bad").as_deref(), Some("BackoffLimitExceeded"));
    let pods = cluster.list(&kinds::PODS, NAMESPACE);
    // Each runs for a second, and then 10, 20 and 40 pass.
    assert_eq!(made(&pods, start), [0, 11, 32, 73]);
    let status = cluster.get(&kinds::JOBS, NAMESPACE, "bad").unwrap_or_default();
    assert_eq!(status.int_at(&["status", "failed"]), Some(4));
}

#[test]
fn a_finished_job_is_deleted_after_its_ttl() {
    let cluster = Cluster::with_nodes(1);
    let spec = value!({"completions": 5, "parallelism": 2, "ttlSecondsAfterFinished": 600});
    cluster.create(&kinds::JOBS, &job("good", 0, spec));
    cluster.until("its end", seconds(60), |cluster| ended(cluster, "good").is_some());
    assert_eq!(cluster.list(&kinds::PODS, NAMESPACE).len(), 5, "none missing, none too many");
    let gone = |cluster: &Cluster| cluster.get(&kinds::JOBS, NAMESPACE, "good").is_none();
    let took = cluster.until("its removal", seconds(3600), gone);
    assert!((599..=601).contains(&took.as_secs()), "{took:?}");
    assert!(cluster.list(&kinds::PODS, NAMESPACE).is_empty());
}

#[test]
fn cron_jobs_for_a_month() {
    let cluster = Cluster::with_nodes(0);
    let template = job("", 0, value!({})).get("spec").cloned().unwrap_or_default();
    let cron = value!({
        "apiVersion": "batch/v1", "kind": "CronJob",
        "metadata": {"name": "nightly", "namespace": NAMESPACE},
        "spec": {
            "schedule": "30 2 * * *", "timeZone": "Europe/Berlin", "concurrencyPolicy": "Replace",
            "jobTemplate": {"spec": (template)},
        },
    });
    cluster.create(&kinds::CRON_JOBS, &cron);
    let mut started = Vec::new();
    for _ in 0..30 {
        cluster.advance(seconds(24 * 3600));
        let jobs = cluster.list(&kinds::JOBS, NAMESPACE);
        assert_eq!(jobs.len(), 1, "each makes room for the next");
        let at = ["metadata", "annotations", "batch.kubernetes.io/cronjob-scheduled-timestamp"];
        started.push(jobs[0].str_at(&at).unwrap_or_default().to_owned());
    }
    assert_eq!(started[0], "2026-03-02T02:30:00+01:00");
    assert_eq!(started[29], "2026-03-31T02:30:00+02:00");
    let leapt = "2026-03-29";
    assert!(started.iter().all(|at| !at.starts_with(leapt)), "there is no half past two on that day");
    started.dedup();
    assert_eq!(started.len(), 29, "and otherwise one a day");
}

/// All events of a rollout and the death of a node: time, reason and kind.
fn history() -> Vec<String> {
    let cluster = Cluster::with_nodes(2);
    cluster.create(&kinds::DEPLOYMENTS, &deployment("web", 4, "registry.example/web:1"));
    cluster.until("four replicas", seconds(600), |cluster| is_rolled_out(cluster, "web", 4));
    cluster.unplug("simulated-1");
    cluster.advance(seconds(900));
    let text = |event: &Value, path: &[&str]| event.str_at(path).unwrap_or_default().to_owned();
    let events = cluster.list(&kinds::EVENTS, "");
    let told = |event: &Value| {
        let (at, reason) = (text(event, &["firstTimestamp"]), text(event, &["reason"]));
        format!("{at} {reason} {}", text(event, &["involvedObject", "kind"]))
    };
    let mut history: Vec<String> = events.iter().map(told).collect();
    history.sort();
    history
}

#[test]
fn all_events_are_reproducible() {
    let history_once = history();
    assert!(history_once.iter().any(|told| told.ends_with("NodeNotReady Node")), "{history_once:#?}");
    assert_eq!(history_once, history());
}
