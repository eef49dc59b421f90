//! NodeVolumeLimits: a node can have only so many volumes of a driver attached.

use std::collections::HashSet;

use super::volume_binding::missing;
use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::{Filter, Plugin, PreFilter, Rejection};
use crate::pod::Pod;
use crate::snapshot::NodeIx;
use crate::storage::{Attachable, Storage};

pub(crate) const NAME: &str = "NodeVolumeLimits";
const REASON: Rejection = Rejection::unschedulable("node(s) exceed max volume count");

pub(crate) struct NodeVolumeLimits;

/// The volumes a pod brings along.
struct Brought(HashSet<Attachable>);

/// The volumes of a pod that have to be attached. One that is yet to be made counts under its claim's name.
fn attachable(storage: &Storage, pod: &Pod) -> HashSet<Attachable> {
    let mut found = HashSet::new();
    for key in pod.shape.volumes.all_claims() {
        let Some(claim) = storage.claim(key) else { continue };
        match storage.volume(&claim.volume) {
            Some(volume) => found.extend(volume.attachable.clone()),
            None => {
                let Some(class) = storage.class(&claim.class) else { continue };
                if !class.provisioner.is_empty() {
                    let driver = class.provisioner.clone();
                    found.insert(Attachable { driver, handle: key.to_string().into() });
                }
            }
        }
    }
    found
}

impl Filter for Brought {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let limits = cluster.storage.limits(cluster.snapshot.name(at));
        if limits.is_empty() {
            return None;
        }
        let mut attached: HashSet<Attachable> = HashSet::new();
        for pod in cluster.snapshot.place(at).pods.iter().filter(|pod| !pod.shape.volumes.is_empty()) {
            attached.extend(attachable(&cluster.storage, pod));
        }
        let exceeded = limits.iter().any(|(driver, most)| {
            let new = self.0.iter().filter(|volume| volume.driver == *driver && !attached.contains(volume));
            let new = new.count();
            new > 0 && new + attached.iter().filter(|volume| volume.driver == *driver).count() > *most
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
        let brought = attachable(&cluster.storage, pod);
        if brought.is_empty() { PreFilter::Skip } else { PreFilter::Filter(Box::new(Brought(brought))) }
    }

    fn may_help(&self, _: &Pod, event: &ClusterEvent<'_>) -> bool {
        match event {
            ClusterEvent::NodeAdded(_) | ClusterEvent::StorageChanged => true,
            ClusterEvent::PodGone(gone) => !gone.shape.volumes.is_empty(),
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;
    use corten_client::Key;

    use super::*;
    use crate::storage::Stored;
    use crate::testing::{Scene, node, pod};

    #[test]
    fn no_more_than_can_be_attached() {
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
}
