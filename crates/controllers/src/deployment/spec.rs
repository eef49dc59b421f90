//! The spec of a deployment.

use corten_api::{Str, Value};

use crate::limits::{self, Round};

/// The value of `progressDeadlineSeconds` and `revisionHistoryLimit` that stands for none.
const NEVER: i64 = i32::MAX as i64;

pub(super) fn replicas(deployment: &Value) -> i64 {
    deployment.int_at(&["spec", "replicas"]).unwrap_or(1)
}

pub(super) fn is_rolling(deployment: &Value) -> bool {
    deployment.str_at(&["spec", "strategy", "type"]) != Some("Recreate")
}

pub(super) fn is_paused(deployment: &Value) -> bool {
    deployment.bool_at(&["spec", "paused"]) == Some(true)
}

/// The surge, and the number of pods that may be unavailable.
fn fenceposts(deployment: &Value) -> (i64, i64) {
    let limit = |name: &str, round: Round| {
        let value = deployment.at(&["spec", "strategy", "rollingUpdate", name])?;
        limits::scaled(value, replicas(deployment), round)
    };
    let surge = limit("maxSurge", Round::Up).unwrap_or(0);
    let unavailable = limit("maxUnavailable", Round::Down).unwrap_or(0);
    // With both zero, a rollout could not proceed.
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

pub(super) fn max_surge(deployment: &Value) -> i64 {
    if is_rolling(deployment) { fenceposts(deployment).0 } else { 0 }
}

pub(super) fn max_unavailable(deployment: &Value) -> i64 {
    if !is_rolling(deployment) {
        return 0;
    }
    fenceposts(deployment).1.min(replicas(deployment))
}

pub(super) fn progress_deadline(deployment: &Value) -> Option<i64> {
    deployment.int_at(&["spec", "progressDeadlineSeconds"]).filter(|seconds| *seconds != NEVER)
}

pub(super) fn history_limit(deployment: &Value) -> Option<usize> {
    let limit = deployment.int_at(&["spec", "revisionHistoryLimit"]).filter(|limit| *limit != NEVER)?;
    usize::try_from(limit).ok()
}

/// The revision to roll back to by the deprecated annotation; zero is the last one.
pub(super) fn rollback_to(deployment: &Value) -> Option<i64> {
    deployment.str_at(&["metadata", "annotations", super::sets::ROLLBACK_TO])?.parse().ok()
}

pub(super) fn collisions(deployment: &Value) -> Option<i64> {
    deployment.int_at(&["status", "collisionCount"])
}

/// The name of the replica set of a template.
pub(super) fn set_name(deployment: &str, hash: &str) -> Str {
    let room = 253usize.saturating_sub(1 + hash.len());
    let name = deployment.get(..room).unwrap_or(deployment);
    Str::from(format!("{name}-{hash}"))
}
