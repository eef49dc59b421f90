//! The rolling update: the pods of an old revision that are deleted now, and the status of the set.

use corten_api::{Value, meta};
use corten_reconcile::Action;
use jiff::Timestamp;

use super::work::Replica;
use super::{World, identity, revisions};
use crate::limits::{self, Round};
use crate::pods::{self, Pod};

pub(super) fn is_rolling(set: &Value) -> bool {
    matches!(set.str_at(&["spec", "updateStrategy", "type"]), None | Some("RollingUpdate"))
}

/// The partition: pods with lower ordinals keep the current revision.
pub(super) fn partition(set: &Value) -> Option<i64> {
    set.at(&["spec", "updateStrategy", "rollingUpdate"])
        .map(|rolling| rolling.int_at(&["partition"]).unwrap_or(0))
}

/// The number of pods that may be unavailable because of the update; at least one.
fn max_unavailable(set: &Value) -> usize {
    let limit = set.at(&["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"]);
    let number = limit.and_then(|limit| limits::scaled(limit, identity::replicas(set), Round::Down));
    usize::try_from(number.unwrap_or(1)).unwrap_or(1).max(1)
}

/// A replica, as the update sees it.
struct Candidate<'a> {
    pod: Option<&'a Pod>,
    is_old: bool,
    is_unavailable: bool,
}

/// Deletes the pods of an old revision that may be deleted now, the last first.
///
/// With parallel management, unavailable pods are deleted beyond the limit: waiting for them to become available could
/// take for ever.
pub(super) fn outdated(world: &World, replicas: &[Replica], now: Timestamp) -> Vec<Action> {
    let update = meta::name(&world.revisions.update);
    let candidates: Vec<Candidate> =
        replicas.iter().map(|replica| candidate(world, replica, update, now)).collect();
    let unavailable = candidates.iter().filter(|c| c.is_unavailable).count();
    let budget = max_unavailable(&world.set).saturating_sub(unavailable);
    let first = usize::try_from(partition(&world.set).unwrap_or(0)).unwrap_or(0).min(candidates.len());
    let goable: Vec<&Candidate> = candidates[first..]
        .iter()
        .rev()
        .filter(|c| c.is_old && c.pod.is_some_and(|pod| !pod.object.deleting))
        .collect();
    let going: Vec<&Candidate> = if is_parallel(&world.set) {
        let (broken, good): (Vec<_>, Vec<_>) = goable.into_iter().partition(|c| c.is_unavailable);
        broken.into_iter().chain(good.into_iter().take(budget)).collect()
    } else {
        goable.into_iter().take(budget).collect()
    };
    // Finished pods are deleted anyway.
    let pods = going.into_iter().filter_map(|candidate| candidate.pod);
    pods.filter(|pod| !pod.is_finished()).map(pods::delete).collect()
}

fn is_parallel(set: &Value) -> bool {
    set.str_at(&["spec", "podManagementPolicy"]) == Some("Parallel")
}

fn candidate<'a>(world: &World, replica: &'a Replica, update: &str, now: Timestamp) -> Candidate<'a> {
    match replica {
        Replica::Missing(_) => Candidate { pod: None, is_old: false, is_unavailable: true },
        Replica::There(_, pod) => Candidate {
            pod: Some(pod),
            is_old: identity::revision(&pod.object) != update,
            is_unavailable: pod.object.deleting || !world.is_available(pod, now),
        },
    }
}

/// The status of a set, after some pods of an old revision were deleted.
pub(super) fn status(world: &World, gone: usize, now: Timestamp) -> Value {
    let set = &world.set;
    let current = meta::name(&world.revisions.current);
    let update = meta::name(&world.revisions.update);
    let (replicas, condemned) = world.members();
    let there = replicas.into_iter().filter_map(|replica| match replica {
        Replica::There(_, pod) => Some(pod),
        Replica::Missing(_) => None,
    });
    let pods: Vec<Pod> = there.chain(condemned).collect();
    let count = |is: &dyn Fn(&Pod) -> bool| pods.iter().filter(|pod| is(pod)).count() as i64;
    let of = |pod: &Pod, revision: &str| !pod.object.deleting && identity::revision(&pod.object) == revision;
    let is_ready = |pod: &Pod| pod.view.phase == "Running" && pod.view.ready;
    let all = pods.len() as i64;
    let ready = count(&is_ready);
    let updated = count(&|pod| of(pod, update));
    let wanted = identity::replicas(set);
    let is_complete = [updated, ready, all].iter().all(|number| *number == wanted);
    let left = (count(&|pod| of(pod, current)) - gone as i64).max(0);
    let (current, left) = if is_complete { (update, updated) } else { (current, left) };

    let mut status = Value::object();
    if let Some(kept) = set.at(&["status", "conditions"]) {
        status.set(&["conditions"], kept.clone());
    }
    status.set(&["observedGeneration"], meta::generation(set));
    status.set(&["replicas"], all);
    status.set(&["availableReplicas"], count(&|pod| is_ready(pod) && world.is_available(pod, now)));
    // Zero counts are left out, as the API server encodes them.
    let counts = [("readyReplicas", ready), ("currentReplicas", left), ("updatedReplicas", updated)];
    for (key, number) in counts.into_iter().filter(|(_, number)| *number > 0) {
        status.set(&[key], number);
    }
    status.set(&["currentRevision"], current);
    status.set(&["updateRevision"], update);
    status.set(&["collisionCount"], revisions::collisions(set));
    status
}
