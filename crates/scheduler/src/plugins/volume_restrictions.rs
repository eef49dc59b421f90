//! VolumeRestrictions: disks that only one pod on a node can use, and ReadWriteOncePod claims.

use std::sync::Arc;

use corten_client::Key;

use super::volume_binding::missing;
use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, Plugin, PreFilter, Rejection};
use crate::pod::Pod;
use crate::pod::volumes::Disk;
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "VolumeRestrictions";
const DISK: Rejection = Rejection::unschedulable("node(s) had no available disk");
const IN_USE: Rejection = Rejection::unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod",
);

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::Filter],
    create: Some(|_| Ok(Arc::new(VolumeRestrictions))),
};

pub(crate) struct VolumeRestrictions;

struct Restricted {
    disks: Vec<Disk>,
    /// Claims that no other pod may use.
    claims: Vec<Key>,
}

impl Filter for Restricted {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let mut used = cluster.snapshot.place(at).pods.iter().flat_map(|pod| &pod.shape.volumes.disks);
        if !self.disks.is_empty() && used.any(|used| self.disks.iter().any(|disk| disk.conflicts(used))) {
            return Some(DISK);
        }
        self.claims.iter().any(|claim| cluster.snapshot.uses_claim(claim)).then_some(IN_USE)
    }

    fn outlasts_pods(&self) -> bool {
        true
    }
}

impl Plugin for VolumeRestrictions {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, cluster: &mut Cluster) -> PreFilter {
        let volumes = &pod.shape.volumes;
        let mut claims = Vec::new();
        for key in volumes.all_claims() {
            match cluster.storage.claim(key) {
                None => return PreFilter::Reject(missing(key)),
                Some(claim) if claim.is_for_one_pod() => claims.push(key.clone()),
                Some(_) => {}
            }
        }
        if claims.is_empty() && volumes.disks.is_empty() {
            return PreFilter::Skip;
        }
        PreFilter::Filter(Box::new(Restricted { disks: volumes.disks.clone(), claims }))
    }

    fn queueing_hint(&self, pod: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) | ClusterEvent::StorageChanged => true,
            ClusterEvent::PodGone(gone) => {
                let (ours, theirs) = (&pod.shape.volumes, &gone.shape.volumes);
                ours.disks.iter().any(|disk| theirs.disks.iter().any(|other| other.conflicts(disk)))
                    || ours.all_claims().any(|claim| theirs.all_claims().any(|other| other == claim))
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::storage::Stored;
    use crate::testing::{PodBuilder, Scene, node, pod};

    fn with_disk(name: &str, disk: &str, read_only: bool) -> PodBuilder {
        pod(name)
            .spec("volumes", value!([{"gcePersistentDisk": {"pdName": (disk), "readOnly": (read_only)}}]))
    }

    #[test]
    fn disks_are_exclusive_unless_read_only() {
        let mut scene = Scene::new([node("a"), node("b")]);
        scene.put(with_disk("there", "d", true).build(), "a");
        let mut check = |pod: PodBuilder, expected: [Option<Rejection>; 2]| {
            assert_eq!(scene.filter(&VolumeRestrictions, &pod.build()), expected);
        };
        check(with_disk("p", "other", false), [None, None]);
        check(with_disk("p", "d", false), [Some(DISK), None]);
        check(with_disk("p", "d", true), [None, None]);
    }

    #[test]
    fn read_write_once_pod_claims_are_exclusive() {
        let mut scene = Scene::new([node("a"), node("b")]);
        let claim = value!({"metadata": {"name": "c", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOncePod"]}});
        let using =
            |name| pod(name).spec("volumes", value!([{"persistentVolumeClaim": {"claimName": "c"}}])).build();
        let said = scene.filter(&VolumeRestrictions, &using("p"));
        assert_eq!(said[0].as_ref().unwrap().message(), "persistentvolumeclaim \"c\" not found");
        scene.cluster.storage.set(Stored::Claim, &Key::new("default", "c"), Some(&claim));
        assert_eq!(scene.fits(&VolumeRestrictions, &using("p")), [true, true]);
        scene.put(using("there"), "a");
        assert_eq!(scene.filter(&VolumeRestrictions, &using("p")), [Some(IN_USE), Some(IN_USE)]);
        scene.cluster.snapshot.remove_pod("there");
        assert_eq!(scene.fits(&VolumeRestrictions, &using("p")), [true, true]);
    }
}
