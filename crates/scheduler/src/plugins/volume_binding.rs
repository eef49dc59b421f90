//! VolumeBinding: a pod's volumes must be available on the node. Claims with delayed binding get an existing volume or
//! one that is provisioned for the node.

use std::sync::Arc;
use std::time::Duration;

use corten_api::{Str, Value};
use corten_client::Key;

use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, Plugin, PreFilter, Reasons, Rejection, VolumeStep, Volumes};
use crate::node::Node;
use crate::pod::Pod;
use crate::snapshot::NodeIx;
use crate::storage::{Claim, Storage, Volume};

pub(crate) const NAME: &str = "VolumeBinding";
const NODE_CONFLICT: &str = "node(s) didn't match PersistentVolume's node affinity";
const NO_VOLUME: &str = "node(s) didn't find available persistent volumes to bind";
const NO_ROOM: &str = "node(s) did not have enough free storage";
const VOLUME_GONE: &str = "node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)";
const UNBOUND: Rejection = Rejection::unresolvable("pod has unbound immediate PersistentVolumeClaims");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::Filter, Point::Reserve, Point::PreBind],
    create: Some(|args| Ok(Arc::new(VolumeBinding::with_args(args)?))),
};

pub(crate) struct VolumeBinding {
    /// The timeout of binding.
    pub(crate) patience: Duration,
}

impl Default for VolumeBinding {
    fn default() -> VolumeBinding {
        VolumeBinding { patience: Duration::from_secs(600) }
    }
}

fn refuse(reason: String) -> Rejection {
    Rejection { unresolvable: true, reasons: Reasons::One(reason.into()) }
}

/// The rejection for a missing claim.
pub(crate) fn missing(key: &Key) -> Rejection {
    refuse(format!("persistentvolumeclaim {:?} not found", key.name))
}

/// A pod's claims: bound ones, and those with delayed binding.
#[derive(Default)]
struct Claims {
    bound: Vec<Key>,
    waiting: Vec<Key>,
}

impl Claims {
    fn of(pod: &Pod, storage: &Storage) -> Result<Claims, Rejection> {
        let mut claims = Claims::default();
        let volumes = &pod.shape.volumes;
        for key in volumes.all_claims() {
            let ephemeral = volumes.ephemeral.contains(key);
            let Some(claim) = storage.claim(key) else {
                let name = &key.name;
                let awaited = format!(
                    "waiting for ephemeral volume controller to create the persistentvolumeclaim {name:?}"
                );
                return Err(if ephemeral { refuse(awaited) } else { missing(key) });
            };
            if ephemeral && claim.owner != pod.uid {
                let name = &key.name;
                return Err(refuse(format!("PVC {:?} was not created for pod {name:?}", key.name)));
            }
            if claim.lost {
                let reason = "bound to non-existent persistentvolume";
                return Err(refuse(format!(
                    "persistentvolumeclaim {:?} {reason} {:?}",
                    key.name, claim.volume
                )));
            }
            if claim.deleting {
                return Err(refuse(format!("persistentvolumeclaim {:?} is being deleted", key.name)));
            }
            let waits = storage.class(&claim.class).is_some_and(|class| class.waits);
            match (claim.bound, waits && claim.volume.is_empty()) {
                (true, _) => claims.bound.push(key.clone()),
                (false, true) => claims.waiting.push(key.clone()),
                (false, false) => return Err(UNBOUND),
            }
        }
        // The smallest first, so that each gets the smallest sufficient volume.
        claims.waiting.sort_by_key(|key| storage.claim(key).map_or(0, Claim::size));
        Ok(claims)
    }

    /// True if all claims are bound to volumes without node affinity.
    fn are_everywhere(&self, storage: &Storage) -> bool {
        let volume = |key: &Key| storage.claim(key).and_then(|claim| storage.volume(&claim.volume));
        self.waiting.is_empty()
            && self.bound.iter().all(|key| volume(key).is_some_and(Volume::is_available_everywhere))
    }

    /// The writes that the volumes need on a node, or the reasons why they are not available there.
    fn on(&self, storage: &Storage, node: &Node) -> Result<Vec<VolumeStep>, Vec<&'static str>> {
        let mut reasons = Vec::new();
        for key in &self.bound {
            let volume = storage.claim(key).and_then(|claim| storage.volume(&claim.volume));
            match volume {
                None => reasons.push(VOLUME_GONE),
                Some(volume) if !volume.is_available_on(node) => reasons.push(NODE_CONFLICT),
                Some(_) => continue,
            }
            break;
        }
        let (mut steps, mut taken): (Vec<VolumeStep>, Vec<Str>) = (Vec::new(), Vec::new());
        for key in &self.waiting {
            let Some(claim) = storage.claim(key) else { continue };
            let selected = !claim.selected_node.is_empty();
            if selected && claim.selected_node != node.name {
                reasons.push(NO_VOLUME);
                break;
            }
            let found = if selected { None } else { storage.matching(key, claim, node, &taken) };
            if let Some(volume) = found {
                taken.push(volume.clone());
                let (claim, uid) = (key.clone(), claim.uid.clone());
                steps.push(VolumeStep::Bind { volume: volume.clone(), claim, uid });
                continue;
            }
            let class = storage.class(&claim.class).filter(|class| class.provisions_for(node));
            let reason = match class {
                None => Some(NO_VOLUME),
                Some(class) if !storage.has_room(claim, class, node) => Some(NO_ROOM),
                Some(_) => None,
            };
            if let Some(reason) = reason {
                reasons.push(reason);
                break;
            }
            steps.push(VolumeStep::Provision { claim: key.clone(), node: node.name.clone() });
        }
        if reasons.is_empty() { Ok(steps) } else { Err(reasons) }
    }
}

impl Filter for Claims {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let reasons = self.on(&cluster.storage, cluster.snapshot.node(at)).err()?;
        let reasons = reasons.into_iter().map(Str::new_static).collect();
        Some(Rejection { unresolvable: true, reasons: Reasons::Many(reasons) })
    }

    fn outlasts_pods(&self) -> bool {
        true
    }
}

impl VolumeBinding {
    /// Reads the plugin's arguments from a profile.
    fn with_args(args: &Value) -> Result<VolumeBinding, String> {
        let Some(seconds) = args.int_at(&["bindTimeoutSeconds"]) else { return Ok(VolumeBinding::default()) };
        let refused = || {
            format!(
                "bindTimeoutSeconds: Invalid value: {seconds}: invalid BindTimeoutSeconds, should not be a negative value"
            )
        };
        let seconds = u64::try_from(seconds).map_err(|_| refused())?;
        Ok(VolumeBinding { patience: Duration::from_secs(seconds) })
    }
}

impl Plugin for VolumeBinding {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, cluster: &mut Cluster) -> PreFilter {
        if pod.shape.volumes.all_claims().next().is_none() {
            return PreFilter::Skip;
        }
        match Claims::of(pod, &cluster.storage) {
            Ok(claims) if claims.are_everywhere(&cluster.storage) => PreFilter::Skip,
            Ok(claims) => PreFilter::Filter(Box::new(claims)),
            Err(rejection) => PreFilter::Reject(rejection),
        }
    }

    fn reserve(&self, pod: &Pod, cluster: &mut Cluster, at: NodeIx) -> Option<Volumes> {
        let claims = Claims::of(pod, &cluster.storage).ok()?;
        let steps = claims.on(&cluster.storage, cluster.snapshot.node(at)).ok()?;
        if steps.is_empty() {
            return None;
        }
        for step in &steps {
            if let VolumeStep::Bind { volume, claim, .. } = step {
                cluster.storage.assume(volume, claim);
            }
        }
        Some(Volumes { steps, patience: self.patience })
    }

    fn unreserve(&self, pod: &Pod, cluster: &mut Cluster) {
        cluster.storage.forget(pod.shape.volumes.all_claims());
    }

    fn queueing_hint(&self, _: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) | ClusterEvent::StorageChanged => true,
            ClusterEvent::NodeChanged { old, new } => old.labels != new.labels,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests;
