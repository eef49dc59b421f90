//! The use of claims by pods.

use corten_api::{Value, meta};

use crate::pods;

/// True if a pod uses a claim: one that it names, or one that was created for it.
pub(super) fn refers_to(pod: &Value, claim: &Value) -> bool {
    pod.items_at(&["spec", "volumes"]).iter().any(|volume| {
        pods::claim_of_volume(pod, volume).is_some_and(|name| name == meta::name(claim))
            && (volume.get("ephemeral").is_none() || is_made_for(claim, pod))
    })
}

/// True if a claim is of one of a pod's ephemeral volumes.
pub(super) fn is_made_for(claim: &Value, pod: &Value) -> bool {
    let mut owners = claim.items_at(&["metadata", "ownerReferences"]).iter();
    owners.any(|o| o.bool_at(&["controller"]) == Some(true) && o.str_at(&["uid"]) == Some(meta::uid(pod)))
}

/// True if no container of a pod runs, or will again.
pub(super) fn is_terminated(pod: &Value) -> bool {
    let runs =
        |status: &Value| ["terminated", "waiting"].iter().all(|state| status.at(&["state", state]).is_none());
    match pod.str_at(&["status", "phase"]) {
        Some("Succeeded" | "Failed") => true,
        _ => meta::is_deleting(pod) && !pod.items_at(&["status", "containerStatuses"]).iter().any(runs),
    }
}
