//! The status of a deployment and its conditions: progress and availability.

use std::time::Duration;

use corten_api::{Value, meta, time};
use jiff::{SignedDuration, Timestamp};

use super::rollout::Rollout;
use super::sets::Set;
use super::spec;
use crate::conditions;

const PROGRESSING: &str = "Progressing";
const AVAILABLE: &str = "Available";
const FAILURE: &str = "ReplicaFailure";
const COMPLETE: &str = "NewReplicaSetAvailable";
const TIMED_OUT: &str = "ProgressDeadlineExceeded";
const PAUSED: &str = "DeploymentPaused";

/// Records in the Progressing condition that a deployment was paused or resumed, so that the paused time does not
/// count.
pub(super) fn note_pause(deployment: &mut Value, now: Timestamp) {
    let noted = reason(deployment);
    if spec::progress_deadline(deployment).is_none() || noted == Some(TIMED_OUT) {
        return;
    }
    let was_paused = noted == Some(PAUSED);
    match spec::is_paused(deployment) {
        true if !was_paused => note(deployment, "Unknown", PAUSED, "Deployment is paused", now),
        false if was_paused => {
            note(deployment, "Unknown", "DeploymentResumed", "Deployment is resumed", now);
        }
        _ => {}
    }
}

/// Records that a replica set for the template already existed, if there is no Progressing condition yet.
pub(super) fn note_found(deployment: &mut Value, set: &str, now: Timestamp) {
    if spec::progress_deadline(deployment).is_some() && reason(deployment).is_none() {
        note(deployment, "True", "FoundNewReplicaSet", &format!("Found new replica set {set:?}"), now);
    }
}

pub(super) fn note_created(deployment: &mut Value, set: &str, now: Timestamp) {
    if spec::progress_deadline(deployment).is_some() {
        note(deployment, "True", "NewReplicaSetCreated", &format!("Created new replica set {set:?}"), now);
    }
}

/// Records that the replica set for the template could not be created.
pub(super) fn note_failed(deployment: &mut Value, message: &str, now: Timestamp) {
    if spec::progress_deadline(deployment).is_some() {
        note(deployment, "False", "ReplicaSetCreateError", message, now);
    }
}

fn note(deployment: &mut Value, status: &str, reason: &str, message: &str, now: Timestamp) {
    let condition = condition(PROGRESSING, status, reason, message, now);
    conditions::set(deployment.make_object().entry("status"), condition);
}

/// The reason of the Progressing condition.
fn reason(deployment: &Value) -> Option<&str> {
    conditions::condition(deployment, PROGRESSING)?.str_at(&["reason"])
}

/// A condition with the time of its last update, which conditions of deployments have.
fn condition(kind: &str, status: &str, reason: &str, message: &str, now: Timestamp) -> Value {
    let mut condition = conditions::new(kind, status, reason, message, now);
    condition.set(&["lastUpdateTime"], time::format(now));
    condition
}

fn count(status: &Value, field: &str) -> i64 {
    status.int_at(&[field]).unwrap_or(0)
}

/// True if the rollout is complete by its status.
pub(super) fn is_complete(deployment: &Value) -> bool {
    deployment.get("status").is_some_and(|status| reaches(deployment, status))
}

fn reaches(deployment: &Value, status: &Value) -> bool {
    let wanted = spec::replicas(deployment);
    ["updatedReplicas", "replicas", "availableReplicas"].iter().all(|field| count(status, field) == wanted)
        && count(status, "observedGeneration") >= meta::generation(deployment)
}

/// The status of a deployment with these replica sets. Progress is judged only during a rollout.
pub(super) fn status(rollout: &Rollout, estimate: bool, now: Timestamp) -> Value {
    let deployment = &rollout.deployment;
    let mut status = counts(rollout);
    let least = spec::replicas(deployment) - spec::max_unavailable(deployment);
    let available = if count(&status, "availableReplicas") >= least {
        ("True", "MinimumReplicasAvailable", "Deployment has minimum availability.")
    } else {
        ("False", "MinimumReplicasUnavailable", "Deployment does not have minimum availability.")
    };
    conditions::set(&mut status, condition(AVAILABLE, available.0, available.1, available.2, now));
    if estimate {
        judge(rollout, &mut status, now);
        // A failure of the new replica set takes precedence over those of the old ones.
        let failed =
            rollout.new.iter().chain(&rollout.old).find_map(|set| conditions::condition(&set.tree, FAILURE));
        match failed {
            Some(failure) => {
                let mut failure = failure.clone();
                if let Some(at) = failure.get("lastTransitionTime").cloned() {
                    failure.set(&["lastUpdateTime"], at);
                }
                conditions::set(&mut status, failure);
            }
            None => conditions::remove(&mut status, FAILURE),
        }
    }
    status
}

fn counts(rollout: &Rollout) -> Value {
    let deployment = &rollout.deployment;
    let sum = |field: &str| rollout.all().map(|set| set.count(field)).sum::<i64>();
    // Existing replica sets count with the size before this reconcile.
    let before = |set: &Set| {
        let tree = set.was.as_ref().unwrap_or(&set.tree);
        tree.int_at(&["spec", "replicas"]).unwrap_or(1)
    };
    let total: i64 = rollout.all().map(before).sum();
    let mut status = Value::object();
    for (field, count) in [
        ("observedGeneration", meta::generation(deployment)),
        ("replicas", sum("replicas")),
        ("updatedReplicas", rollout.new.as_ref().map_or(0, |set| set.count("replicas"))),
        ("readyReplicas", sum("readyReplicas")),
        ("availableReplicas", sum("availableReplicas")),
        ("unavailableReplicas", (total - sum("availableReplicas")).max(0)),
    ] {
        // Zero counts are left out, as the API server encodes them.
        if count != 0 {
            status.set(&[field], count);
        }
    }
    if let Some(terminating) = terminating(rollout) {
        status.set(&["terminatingReplicas"], terminating);
    }
    for field in ["collisionCount", "conditions"] {
        if let Some(kept) = deployment.at(&["status", field]) {
            status.set(&[field], kept.clone());
        }
    }
    status
}

/// The number of terminating pods, if all observed replica sets report it.
fn terminating(rollout: &Rollout) -> Option<i64> {
    let known = |set: &Set| match set.tree.int_at(&["status", "terminatingReplicas"]) {
        None if set.count("observedGeneration") == 0 => Some(0),
        said => said,
    };
    rollout.all().map(known).sum()
}

/// Updates the Progressing condition: complete, progressing, or past its deadline.
fn judge(rollout: &Rollout, status: &mut Value, now: Timestamp) {
    let deployment = &rollout.deployment;
    if spec::progress_deadline(deployment).is_none() {
        return conditions::remove(status, PROGRESSING);
    }
    if count(status, "replicas") == count(status, "updatedReplicas") && reason(deployment) == Some(COMPLETE) {
        return;
    }
    let what = match &rollout.new {
        Some(set) => format!("ReplicaSet {:?}", set.name()),
        None => format!("Deployment {:?}", meta::name(deployment)),
    };
    if reaches(deployment, status) {
        let message = format!("{what} has successfully progressed.");
        conditions::set(status, condition(PROGRESSING, "True", COMPLETE, &message, now));
    } else if has_moved(deployment, status) {
        let message = format!("{what} is progressing.");
        let mut moved = condition(PROGRESSING, "True", "ReplicaSetUpdated", &message, now);
        // Updated each time, so that the deadline counts from here.
        if let Some(said) = conditions::condition(deployment, PROGRESSING)
            && said.str_at(&["status"]) == Some("True")
            && let Some(since) = said.get("lastTransitionTime")
        {
            moved.set(&["lastTransitionTime"], since.clone());
        }
        conditions::remove(status, PROGRESSING);
        conditions::set(status, moved);
    } else if has_timed_out(deployment, now) {
        let message = format!("{what} has timed out progressing.");
        conditions::set(status, condition(PROGRESSING, "False", TIMED_OUT, &message, now));
    }
}

/// True if there are more new or ready pods, or fewer old ones, than before.
fn has_moved(deployment: &Value, status: &Value) -> bool {
    let empty = Value::object();
    let before = deployment.get("status").unwrap_or(&empty);
    let old = |status: &Value| count(status, "replicas") - count(status, "updatedReplicas");
    let more = |field: &str| count(status, field) > count(before, field);
    more("updatedReplicas") || more("readyReplicas") || more("availableReplicas") || old(status) < old(before)
}

fn has_timed_out(deployment: &Value, now: Timestamp) -> bool {
    match reason(deployment) {
        None | Some(COMPLETE) => false,
        Some(TIMED_OUT) => true,
        Some(_) => deadline(deployment).is_some_and(|deadline| deadline < now),
    }
}

/// The time at which the progress deadline is exceeded.
fn deadline(deployment: &Value) -> Option<Timestamp> {
    let seconds = spec::progress_deadline(deployment)?;
    let said = conditions::condition(deployment, PROGRESSING)?.str_at(&["lastUpdateTime"])?;
    time::parse(said).ok()?.checked_add(SignedDuration::from_secs(seconds)).ok()
}

/// The delay until progress has to be judged again. `None` for a rollout that is complete or paused.
pub(super) fn judge_again_after(deployment: &Value, now: Timestamp) -> Option<Duration> {
    if spec::is_paused(deployment) || is_complete(deployment) {
        return None;
    }
    if matches!(reason(deployment)?, COMPLETE | TIMED_OUT) {
        return None;
    }
    let left = Duration::try_from(deadline(deployment)?.duration_since(now)).unwrap_or_default();
    // Timestamps have whole seconds.
    Some(left + Duration::from_secs(1))
}
