//! Prepares a pod's volumes before it is bound: binds volumes to claims, has others provisioned, and waits for both.

use std::sync::Arc;

use corten_api::{Value, value};
use corten_base::Clock;
use corten_client::{Cache, Caches, Client, Error, Key, Patch, kinds};

use crate::framework::{VolumeStep, Volumes};
use crate::pod::Pod;
use crate::storage::{Claim, SELECTED_NODE};

const BOUND_BY: &str = "pv.kubernetes.io/bound-by-controller";

#[derive(Debug, thiserror::Error)]
pub(super) enum VolumeError {
    #[error("binding volumes: {0}")]
    Request(#[from] Error),
    #[error("binding volumes: timed out waiting for the condition")]
    TimedOut,
}

pub(super) struct VolumePreparation {
    claims: Arc<Cache>,
    clock: Clock,
}

impl VolumePreparation {
    pub(super) fn new(caches: &Caches, clock: Clock) -> VolumePreparation {
        VolumePreparation { claims: caches.of(&kinds::PERSISTENT_VOLUME_CLAIMS), clock }
    }

    /// Carries out the writes and waits until every claim of the pod is bound.
    pub(super) async fn prepare(
        &self,
        client: &Client,
        pod: &Pod,
        volumes: &Volumes,
    ) -> Result<(), VolumeError> {
        for step in &volumes.steps {
            match step {
                VolumeStep::Bind { volume, claim, uid } => {
                    let patch = Patch::Strategic(given_to(claim, uid));
                    client
                        .patch(&kinds::PERSISTENT_VOLUMES, &Key::new("", volume.clone()), &patch, "")
                        .await?;
                }
                VolumeStep::Provision { claim, node } => {
                    let mut patch = Value::object();
                    patch.set(&["metadata", "annotations", SELECTED_NODE], node.clone());
                    client
                        .patch(&kinds::PERSISTENT_VOLUME_CLAIMS, claim, &Patch::Strategic(patch), "")
                        .await?;
                }
            }
        }
        let keys: Vec<Key> = pod.shape.volumes.all_claims().cloned().collect();
        let is_bound =
            |claims: &Cache, key: &Key| claims.get(key).is_some_and(|claim| Claim::of(&claim.tree()).bound);
        let all = self.claims.until(|claims| keys.iter().all(|key| is_bound(claims, key)));
        tokio::select! {
            () = all => Ok(()),
            () = self.clock.sleep(volumes.patience) => Err(VolumeError::TimedOut),
        }
    }
}

/// The patch that binds a volume to a claim.
fn given_to(claim: &Key, uid: &str) -> Value {
    let mut patch = value!({"spec": {"claimRef": {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": (claim.namespace.clone()),
        "name": (claim.name.clone()), "uid": (uid)}}});
    patch.set(&["metadata", "annotations", BOUND_BY], "yes");
    patch
}
