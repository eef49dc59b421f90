use corten_api::{Value, value};

use super::*;
use crate::storage::Stored;
use crate::testing::{Scene, node, pod};

fn using(claims: &[&str]) -> Pod {
    let volume = |claim: &&str| value!({"persistentVolumeClaim": {"claimName": (*claim)}});
    pod("p").spec("volumes", Value::Array(claims.iter().map(volume).collect())).build()
}

fn scene() -> Scene {
    let mut scene = Scene::new([node("a").zone("z1"), node("b").zone("z2")]);
    let storage = &mut scene.cluster.storage;
    let waits = |provisioner: &str| value!({"provisioner": (provisioner), "volumeBindingMode": "WaitForFirstConsumer"});
    storage.set(Stored::Class, &Key::new("", "local"), Some(&waits("kubernetes.io/no-provisioner")));
    storage.set(Stored::Class, &Key::new("", "made"), Some(&waits("example.com/disks")));
    storage.set(Stored::Class, &Key::new("", "now"), Some(&value!({"provisioner": "example.com/disks"})));
    scene
}

fn volume(scene: &mut Scene, name: &str, size: &str, zone: &str) {
    let affinity = value!({"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "zone", "operator": "In", "values": [(zone)]}]}]});
    let volume = value!({
        "metadata": {"name": (name)},
        "spec": {"capacity": {"storage": (size)}, "accessModes": ["ReadWriteOnce"], "storageClassName": "local",
            "nodeAffinity": {"required": (affinity)}},
        "status": {"phase": "Available"},
    });
    scene.cluster.storage.set(Stored::Volume, &Key::new("", name), Some(&volume));
}

fn claim(scene: &mut Scene, name: &str, class: &str, size: &str, volume: &str) {
    let mut claim = value!({
        "metadata": {"name": (name), "namespace": "default", "uid": (name), "annotations": {}},
        "spec": {"accessModes": ["ReadWriteOnce"], "storageClassName": (class),
            "resources": {"requests": {"storage": (size)}}},
    });
    if !volume.is_empty() {
        claim.set(&["spec", "volumeName"], volume);
        claim.set(&["metadata", "annotations", "pv.kubernetes.io/bind-completed"], "yes");
    }
    scene.cluster.storage.set(Stored::Claim, &Key::new("default", name), Some(&claim));
}

fn reserve(pod: &Pod, cluster: &mut Cluster, at: NodeIx) -> Vec<VolumeStep> {
    VolumeBinding::default().reserve(pod, cluster, at).map(|volumes| volumes.steps).unwrap_or_default()
}

fn said(scene: &mut Scene, pod: &Pod) -> Vec<String> {
    let found = scene.filter(&VolumeBinding::default(), pod);
    found.iter().map(|rejection| rejection.as_ref().map(Rejection::message).unwrap_or_default()).collect()
}

#[test]
fn bound_volumes_restrict_nodes() {
    let mut scene = scene();
    volume(&mut scene, "v", "1Gi", "z2");
    claim(&mut scene, "c", "local", "1Gi", "v");
    assert_eq!(said(&mut scene, &using(&["c"])), [NODE_CONFLICT, ""]);
    scene.cluster.storage.set(Stored::Volume, &Key::new("", "v"), None);
    assert_eq!(said(&mut scene, &using(&["c"])), [VOLUME_GONE, VOLUME_GONE]);
}

#[test]
fn immediate_claims_must_be_bound() {
    let mut scene = scene();
    assert_eq!(said(&mut scene, &using(&["c"]))[0], "persistentvolumeclaim \"c\" not found");
    claim(&mut scene, "c", "now", "1Gi", "");
    assert_eq!(said(&mut scene, &using(&["c"]))[0], "pod has unbound immediate PersistentVolumeClaims");
}

#[test]
fn delayed_claims_get_the_smallest_matching_volume() {
    let mut scene = scene();
    volume(&mut scene, "large", "9Gi", "z1");
    volume(&mut scene, "small", "2Gi", "z1");
    volume(&mut scene, "tiny", "1Gi", "z2");
    claim(&mut scene, "c", "local", "2Gi", "");
    assert_eq!(said(&mut scene, &using(&["c"])), ["", NO_VOLUME]);
    let steps = reserve(&using(&["c"]), &mut scene.cluster, 0);
    let bind = |volume: &str, claim: &str| VolumeStep::Bind {
        volume: volume.into(),
        claim: Key::new("default", claim),
        uid: claim.into(),
    };
    assert_eq!(steps, [bind("small", "c")]);
    claim(&mut scene, "d", "local", "2Gi", "");
    claim(&mut scene, "e", "local", "2Gi", "");
    let steps = reserve(&using(&["d"]), &mut scene.cluster, 0);
    assert_eq!(steps, [bind("large", "d")], "the small one is taken");
    assert_eq!(said(&mut scene, &using(&["e"])), [NO_VOLUME, NO_VOLUME]);
    VolumeBinding::default().unreserve(&using(&["d"]), &mut scene.cluster);
    assert_eq!(said(&mut scene, &using(&["e"])), ["", NO_VOLUME]);
}

#[test]
fn volumes_are_provisioned_in_allowed_topologies() {
    let mut scene = scene();
    claim(&mut scene, "c", "made", "2Gi", "");
    assert_eq!(said(&mut scene, &using(&["c"])), ["", ""]);
    let steps = reserve(&using(&["c"]), &mut scene.cluster, 1);
    assert_eq!(steps, [VolumeStep::Provision { claim: Key::new("default", "c"), node: "b".into() }]);
    let only_z1 = value!({"provisioner": "example.com/disks", "volumeBindingMode": "WaitForFirstConsumer",
        "allowedTopologies": [{"matchLabelExpressions": [{"key": "zone", "values": ["z1"]}]}]});
    scene.cluster.storage.set(Stored::Class, &Key::new("", "made"), Some(&only_z1));
    assert_eq!(said(&mut scene, &using(&["c"])), ["", NO_VOLUME]);
}

#[test]
fn reported_storage_capacity_is_respected() {
    let mut scene = scene();
    claim(&mut scene, "c", "made", "2Gi", "");
    let storage = &mut scene.cluster.storage;
    let driver = value!({"spec": {"storageCapacity": true}});
    storage.set(Stored::CsiDriver, &Key::new("", "example.com/disks"), Some(&driver));
    assert_eq!(said(&mut scene, &using(&["c"])), [NO_ROOM, NO_ROOM], "nothing is known to be left");
    let mut left = |name: &str, zone: &str, field: &str, size: &str| {
        let mut capacity =
            value!({"storageClassName": "made", "nodeTopology": {"matchLabels": {"zone": (zone)}}});
        capacity.set(&["capacity"], "9Gi");
        capacity.set(&[field], size);
        scene.cluster.storage.set(Stored::Capacity, &Key::new("kube-system", name), Some(&capacity));
        said(&mut scene, &using(&["c"]))
    };
    assert_eq!(left("one", "z1", "capacity", "1Gi"), [NO_ROOM, NO_ROOM]);
    assert_eq!(left("one", "z1", "maximumVolumeSize", "1Gi"), [NO_ROOM, NO_ROOM], "more precise");
    assert_eq!(left("two", "z2", "capacity", "2Gi"), [NO_ROOM, ""]);
    let silent = value!({"spec": {"storageCapacity": false}});
    scene.cluster.storage.set(Stored::CsiDriver, &Key::new("", "example.com/disks"), Some(&silent));
    assert_eq!(said(&mut scene, &using(&["c"])), ["", ""]);
}
