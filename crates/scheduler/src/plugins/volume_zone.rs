//! VolumeZone: volumes with zone labels can only be used in their zones.

use std::sync::Arc;

use corten_api::{Str, Value};

use super::volume_binding::missing;
use crate::cluster::Cluster;
use crate::framework::event::ClusterEvent;
use crate::framework::registration::{Point, Registration};
use crate::framework::{Filter, Plugin, PreFilter, Reasons, Rejection};
use crate::node::{Node, OLD_REGION, OLD_ZONE, REGION, ZONE};
use crate::pod::Pod;
use crate::snapshot::NodeIx;

pub(crate) const NAME: &str = "VolumeZone";
const REASON: Rejection = Rejection::unresolvable("node(s) had no available volume zone");
const LABELS: [&str; 4] = [OLD_ZONE, OLD_REGION, ZONE, REGION];

pub(crate) const REGISTRATION: Registration = Registration {
    name: NAME,
    weight: 0,
    points: &[Point::Filter],
    create: Some(|_| Ok(Arc::new(VolumeZone))),
};
/// The separator of the zones of a volume in several.
const SEPARATOR: &str = "__";

pub(crate) struct VolumeZone;

/// Labels that a node must have, each with one of these values.
struct Zones(Vec<(&'static str, Vec<Str>)>);

/// A node's label; the GA name if the beta one is missing.
fn label<'n>(node: &'n Node, key: &str) -> Option<&'n str> {
    let newer = match key {
        OLD_ZONE => ZONE,
        OLD_REGION => REGION,
        key => key,
    };
    node.label(key).or_else(|| node.label(newer))
}

impl Filter for Zones {
    fn check(&self, cluster: &Cluster, at: NodeIx) -> Option<Rejection> {
        let node = cluster.snapshot.node(at);
        // Nodes without zone labels can use all volumes.
        if LABELS.iter().all(|key| node.label(key).is_none()) {
            return None;
        }
        let there = |(key, values): &(&str, Vec<Str>)| {
            label(node, key).is_some_and(|found| values.iter().any(|value| value == found))
        };
        (!self.0.iter().all(there)).then_some(REASON)
    }

    fn outlasts_pods(&self) -> bool {
        true
    }
}

fn refuse(reason: String) -> PreFilter {
    PreFilter::Reject(Rejection { unresolvable: true, reasons: Reasons::One(reason.into()) })
}

impl Plugin for VolumeZone {
    fn name(&self) -> &'static str {
        NAME
    }

    fn pre_filter(&self, pod: &Pod, cluster: &mut Cluster) -> PreFilter {
        let mut zones = Vec::new();
        for key in &pod.shape.volumes.claims {
            let Some(claim) = cluster.storage.claim(key) else { return PreFilter::Reject(missing(key)) };
            if claim.volume.is_empty() {
                if claim.class.is_empty() {
                    let reason = "PersistentVolumeClaim had no pv name and storageClass name";
                    return refuse(reason.to_owned());
                }
                match cluster.storage.class(&claim.class) {
                    None => {
                        return refuse(format!("storageclass.storage.k8s.io {:?} not found", claim.class));
                    }
                    Some(class) if class.waits => continue,
                    Some(_) => return refuse("PersistentVolume had no name".to_owned()),
                }
            }
            let Some(volume) = cluster.storage.volume(&claim.volume) else {
                return refuse(format!("persistentvolume {:?} not found", claim.volume));
            };
            for key in LABELS {
                if let Some(value) = volume.labels.get(key).and_then(Value::as_str) {
                    zones.push((key, value.split(SEPARATOR).map(Str::new).collect()));
                }
            }
        }
        if zones.is_empty() { PreFilter::Skip } else { PreFilter::Filter(Box::new(Zones(zones))) }
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
mod tests {
    use corten_api::value;
    use corten_client::Key;

    use super::*;
    use crate::storage::Stored;
    use crate::testing::{Scene, node, pod};

    #[test]
    fn volumes_stay_in_their_zone() {
        let mut scene =
            Scene::new([node("a").label(ZONE, "z1"), node("b").label(ZONE, "z2"), node("nowhere")]);
        let volume = |zones: &str| {
            let mut volume = value!({"metadata": {"name": "v", "labels": {}}});
            volume.set(&["metadata", "labels", OLD_ZONE], zones);
            volume
        };
        let claim = value!({"metadata": {"name": "c", "namespace": "default"}, "spec": {"volumeName": "v"}});
        scene.cluster.storage.set(Stored::Claim, &Key::new("default", "c"), Some(&claim));
        let using = pod("p").spec("volumes", value!([{"persistentVolumeClaim": {"claimName": "c"}}])).build();
        let said = scene.filter(&VolumeZone, &using)[0].clone().unwrap();
        assert_eq!(said.message(), "persistentvolume \"v\" not found");
        for (zones, expected) in [
            ("z1", [None, Some(REASON), None]),
            ("z1__z2", [None, None, None]),
            ("z3", [Some(REASON), Some(REASON), None]),
        ] {
            scene.cluster.storage.set(Stored::Volume, &Key::new("", "v"), Some(&volume(zones)));
            assert_eq!(scene.filter(&VolumeZone, &using), expected, "{zones}");
        }
    }
}
