//! NodeVolumeLimits: limits the number of volumes of a CSI driver that are attached to a node.

use std::sync::Arc;

use corten_client::Key;

use super::volume_binding::missing;
use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, Plugin, PreFilter, Rejection};
use crate::pod::Pod;
use crate::snapshot::NodeIx;
use crate::storage::{Attachable, Claim, Storage};

pub(crate) const NAME: &str = "NodeVolumeLimits";
const REASON: Rejection = Rejection::unschedulable("node(s) exceed max volume count");

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::Filter],
    create: Some(|_| Ok(Arc::new(NodeVolumeLimits))),
};

pub(crate) struct NodeVolumeLimits;

/// The attachable volumes of a pod.
struct Brought(Vec<Attachable>);

/// Adds the attachable volumes of a pod. A volume that is not provisioned yet counts under its claim's name.
fn add_volumes(storage: &Storage, pod: &Pod, found: &mut Vec<Attachable>) {
    for key in pod.shape.volumes.all_claims() {
        let Some(claim) = storage.claim(key) else { continue };
        let volume = match storage.volume(&claim.volume) {
            Some(volume) => volume.attachable.clone(),
            None => yet_to_be_made(storage, key, claim),
        };
        add(volume, found);
    }
}

fn yet_to_be_made(storage: &Storage, key: &Key, claim: &Claim) -> Option<Attachable> {
    let driver = storage.class(&claim.class)?.provisioner.clone();
    (!driver.is_empty()).then(|| Attachable { driver, handle: key.to_string().into() })
}

/// Counts a volume once. A node has few enough for a linear search.
fn add(volume: Option<Attachable>, found: &mut Vec<Attachable>) {
    found.extend(volume.filter(|volume| !found.contains(volume)));
}

impl Filter for Brought {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let (storage, name) = (&cluster.storage, cluster.snapshot.name(at));
        let limits = storage.limits(name);
        if limits.is_empty() {
            return None;
        }
        let pods = &cluster.snapshot.place(at).pods;
        let claims: usize = pods.iter().map(|pod| pod.shape.volumes.all_claims().count()).sum();
        let at_most = self.0.len() + claims + storage.attached(name).count();
        if limits.iter().all(|(_, most)| at_most <= *most) {
            return None;
        }
        let mut attached = Vec::new();
        pods.iter().for_each(|pod| add_volumes(storage, pod, &mut attached));
        let used = attached.len();
        storage.attached(name).for_each(|volume| add(Some(volume), &mut attached));
        let exceeded = limits.iter().any(|(driver, most)| {
            let of_driver = |volume: &&Attachable| volume.driver == *driver;
            // An attached volume without pods is about to be detached.
            let new = |volume: &&Attachable| of_driver(volume) && !attached[..used].contains(volume);
            let new = self.0.iter().filter(new).count();
            new > 0 && new + attached.iter().filter(of_driver).count() > *most
        });
        exceeded.then_some(REASON)
    }

    fn outlasts_pods(&self) -> bool {
        true
    }
}

impl Plugin for NodeVolumeLimits {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, cluster: &mut Cluster) -> PreFilter {
        if let Some(key) = pod.shape.volumes.all_claims().find(|key| cluster.storage.claim(key).is_none()) {
            return PreFilter::Reject(missing(key));
        }
        let mut brought = Vec::new();
        add_volumes(&cluster.storage, pod, &mut brought);
        if brought.is_empty() { PreFilter::Skip } else { PreFilter::Filter(Box::new(Brought(brought))) }
    }

    fn queueing_hint(&self, _: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) | ClusterEvent::StorageChanged => true,
            ClusterEvent::PodGone(gone) => !gone.shape.volumes.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::Stored;
    use crate::testing::{Scene, node, pod};
    use corten_api::value;

    #[test]
    fn attach_limits_are_respected() {
        let mut scene = Scene::new([node("a"), node("unlimited")]);
        for name in ["one", "two", "three"] {
            let volume = value!({"spec": {"csi": {"driver": "d", "volumeHandle": (name)}}});
            scene.cluster.storage.set(Stored::Volume, &Key::new("", name), Some(&volume));
            let claim = value!({"spec": {"volumeName": (name)}});
            scene.cluster.storage.set(Stored::Claim, &Key::new("default", name), Some(&claim));
        }
        let limits = value!({"spec": {"drivers": [{"name": "d", "allocatable": {"count": 2}}]}});
        scene.cluster.storage.set(Stored::CsiNode, &Key::new("", "a"), Some(&limits));
        let using = |pod_name: &str, claim: &str| {
            pod(pod_name).spec("volumes", value!([{"persistentVolumeClaim": {"claimName": (claim)}}])).build()
        };
        scene.put(using("p1", "one"), "a");
        assert_eq!(scene.filter(&NodeVolumeLimits, &using("p", "two")), [None, None]);
        scene.put(using("p2", "two"), "a");
        assert_eq!(scene.filter(&NodeVolumeLimits, &using("p", "three")), [Some(REASON), None]);
        assert_eq!(scene.filter(&NodeVolumeLimits, &using("p", "two")), [None, None], "it is there already");
        assert_eq!(scene.filter(&NodeVolumeLimits, &pod("p").build()), [None, None]);
    }

    #[test]
    fn attached_volumes_count_until_they_are_detached() {
        let mut scene = Scene::new([node("a"), node("b")]);
        let storage = &mut scene.cluster.storage;
        for name in ["one", "two"] {
            let volume = value!({"spec": {"csi": {"driver": "d", "volumeHandle": (name)}}});
            storage.set(Stored::Volume, &Key::new("", name), Some(&volume));
        }
        storage.set(
            Stored::Claim,
            &Key::new("default", "two"),
            Some(&value!({"spec": {"volumeName": "two"}})),
        );
        let limits = value!({"spec": {"drivers": [{"name": "d", "allocatable": {"count": 1}}]}});
        storage.set(Stored::CsiNode, &Key::new("", "a"), Some(&limits));
        let attachment =
            value!({"spec": {"attacher": "d", "nodeName": "a", "source": {"persistentVolumeName": "one"}}});
        storage.set(Stored::Attachment, &Key::new("", "va"), Some(&attachment));
        let new = pod("p").spec("volumes", value!([{"persistentVolumeClaim": {"claimName": "two"}}])).build();
        assert_eq!(scene.filter(&NodeVolumeLimits, &new), [Some(REASON), None]);
        scene.cluster.storage.set(Stored::Attachment, &Key::new("", "va"), None);
        assert_eq!(scene.filter(&NodeVolumeLimits, &new), [None, None]);
    }
}
