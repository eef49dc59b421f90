//! Tests of jobs: the actions on their pods, and their status.

use corten_api::{Status, Value, meta, value};

use super::*;
use crate::selectors;
use crate::testing::{at, at_text, cached, done, failed};

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

/// A job that runs some pods at a time until so many have succeeded.
fn job(parallelism: i64, completions: i64) -> Value {
    value!({
        "apiVersion": "batch/v1", "kind": "Job",
        "metadata": {"name": "sum", "namespace": "default", "uid": "job"},
        "spec": {
            "parallelism": parallelism, "completions": completions, "backoffLimit": 6,
            "selector": {"matchLabels": {"job": "sum"}},
            "template": {
                "metadata": {"labels": {"job": "sum"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "main", "image": "i"}]},
            },
        },
    })
}

fn work_queue(parallelism: i64) -> Value {
    let mut job = job(parallelism, 0);
    job.remove(&["spec", "completions"]);
    job
}

fn indexed(parallelism: i64, completions: i64) -> Value {
    with(job(parallelism, completions), &["spec", "completionMode"], "Indexed")
}

/// An indexed job with a backoff limit per index.
fn per_index(completions: i64, limit: i64) -> Value {
    let job = with(indexed(completions, completions), &["spec", "backoffLimitPerIndex"], limit);
    with(job, &["spec", "backoffLimit"], i64::from(i32::MAX))
}

fn suspended(job: Value) -> Value {
    with(job, &["spec", "suspend"], true)
}

fn status(job: Value, status: Value) -> Value {
    with(job, &["status"], status)
}

/// An uncounted pod of the job in a phase.
fn pod(name: &str, phase: &str) -> Value {
    let uid = format!("uid-{name}");
    value!({
        "apiVersion": "v1", "kind": "Pod",
        "metadata": {
            "name": name, "namespace": "default", "uid": uid, "finalizers": [(FINALIZER)],
            "labels": {"job": "sum"},
            "creationTimestamp": (at_text(-1000)),
            "ownerReferences": [(claims::reference(&job(0, 0)))],
        },
        "spec": {"nodeName": "one"},
        "status": {"phase": phase},
    })
}

/// The same for an index.
fn of_index(index: i64, phase: &str) -> Value {
    let name = format!("p{index}");
    with(pod(&name, phase), &["metadata", "annotations", tracking::INDEX], index.to_string())
}

fn named(name: &str, pod: Value) -> Value {
    let pod = with(pod, &["metadata", "name"], name);
    with(pod, &["metadata", "uid"], format!("uid-{name}"))
}

/// The pod with the number of earlier failures of its index.
fn after_failures(count: i64, pod: Value) -> Value {
    with(pod, &["metadata", "annotations", tracking::FAILURES], count.to_string())
}

fn counted(mut pod: Value) -> Value {
    pod.remove(&["metadata", "finalizers"]);
    pod
}

fn going(pod: Value) -> Value {
    with(pod, &["metadata", "deletionTimestamp"], at_text(-1000))
}

fn ready(pod: Value) -> Value {
    let condition = crate::conditions::new("Ready", "True", "", "", at(-900));
    with(pod, &["status", "conditions"], vec![condition])
}

fn exited(pod: Value, code: i64) -> Value {
    let state = value!({"terminated": {"exitCode": code, "finishedAt": (at_text(-1000))}});
    with(pod, &["status", "containerStatuses"], vec![value!({"name": "main", "state": (state)})])
}

fn pods(count: usize, phase: &str) -> Vec<Value> {
    (0..count).map(|at| pod(&format!("{}{at}", phase.to_lowercase()), phase)).collect()
}

fn condition(kind: &str, reason: &str) -> Value {
    value!({"type": kind, "status": "True", "reason": reason, "message": "set before"})
}

fn world(job: Value, pods: &[Value]) -> World {
    let selector = selectors::of(&job).unwrap();
    let pods: Vec<_> = pods.iter().map(cached).collect();
    let job = Job(job);
    let mut world = World::of(job, &selector, &pods);
    if let Some(job) = &world.job {
        world.failures = Memory::default().update(&key(), "job", job, &world.pods);
    }
    world
}

fn key() -> Key {
    Key::new("default", "sum")
}

fn plan(world: &World) -> Plan {
    Jobs::default().plan(&key(), world, at(0))
}

fn word(action: &Action) -> String {
    match action {
        Action::Create { object, .. } => format!("create {}", meta::generate_name(object)),
        Action::Delete { key, .. } => format!("delete {}", key.name),
        Action::Patch { key, .. } => format!("patch {}", key.name),
        Action::Update { .. } => "status".to_owned(),
        Action::Post { .. } | Action::Scale { .. } => unreachable!("jobs do not"),
    }
}

/// The actions of a plan; repeated ones are listed once.
fn words(plan: &Plan) -> Vec<String> {
    let all: Vec<_> = plan.actions().map(word).collect();
    let runs = all.chunk_by(|a, b| a == b);
    runs.map(|run| if run.len() > 1 { format!("{}× {}", run.len(), run[0]) } else { run[0].clone() })
        .collect()
}

/// The conclusion after all requests succeeded.
fn concluded(world: &World) -> Plan {
    Jobs::default().conclude(&key(), world, &done(&plan(world)), at(0))
}

/// The status that is written.
fn written(plan: &Plan) -> Value {
    let update = plan.actions().find_map(|action| match action {
        Action::Update { object, subresource: "status", .. } => object.get("status").cloned(),
        _ => None,
    });
    update.unwrap_or_else(|| panic!("no status in {:?}", words(plan)))
}

/// Conditions as `type=status reason`.
fn conditions(status: &Value) -> Vec<String> {
    let text = |c: &Value, key: &str| c.str_at(&[key]).unwrap_or_default().to_owned();
    let conditions = status.items_at(&["conditions"]).iter();
    conditions.map(|c| format!("{}={} {}", text(c, "type"), text(c, "status"), text(c, "reason"))).collect()
}

fn events(plan: &Plan) -> Vec<String> {
    plan.events.iter().map(|e| format!("{} {}", e.reason, e.message)).collect()
}

/// Reconciles until nothing is left to do, as if every request succeeded and pods were deleted as soon as they have no
/// finalizer. Returns the job in the end, and all events.
fn settle(mut job: Value, mut pods: Vec<Value>) -> (Value, Vec<String>) {
    let mut reported = Vec::new();
    for _ in 0..10 {
        let world = world(job.clone(), &pods);
        if crate::jobs::finished(&job).is_some() {
            return (job, reported);
        }
        let plan = plan(&world);
        let conclusion = Jobs::default().conclude(&key(), &world, &done(&plan), at(0));
        reported.extend(events(&conclusion));
        for action in plan.actions().chain(conclusion.actions()) {
            let at = |key: &Key, pods: &[Value]| pods.iter().position(|pod| meta::name(pod) == key.name);
            match action {
                Action::Update { object, .. } => job = object.clone(),
                Action::Patch { key, .. } => {
                    if let Some(at) = at(key, &pods) {
                        pods[at] = counted(pods[at].clone());
                    }
                }
                Action::Delete { key, .. } => {
                    if let Some(at) = at(key, &pods) {
                        pods[at] = going(pods[at].clone());
                    }
                }
                _ => {}
            }
        }
        pods.retain(|pod| !meta::is_deleting(pod) || meta::finalizers(pod).next().is_some());
    }
    (job, reported)
}

mod finished;
mod per_index;
mod running;
