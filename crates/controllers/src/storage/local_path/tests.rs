//! Tests of provisioning and reclaiming.

use super::*;
use crate::testing::{at, done};

fn class() -> Value {
    value!({
        "metadata": {"name": "local-path"}, "provisioner": PROVISIONER,
        "reclaimPolicy": "Delete", "volumeBindingMode": "WaitForFirstConsumer",
    })
}

/// A claim that the binder has annotated, with a selected node.
fn claim() -> Value {
    value!({
        "metadata": {
            "name": "data", "namespace": "n", "uid": "1234", "resourceVersion": "5",
            "annotations": {
                "volume.kubernetes.io/storage-provisioner": PROVISIONER,
                "volume.kubernetes.io/selected-node": "one",
            },
        },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": "local-path",
            "resources": {"requests": {"storage": "1Gi"}},
        },
    })
}

fn world(claim: Value) -> World {
    World { claim: Some(claim), class: Some(class()), hostname: Some("host-one".into()), volume: None }
}

fn with(mut object: Value, path: &[&str], value: impl Into<Value>) -> Value {
    object.set(path, value);
    object
}

fn without(mut object: Value, path: &[&str]) -> Value {
    object.remove(path);
    object
}

fn provisioner() -> LocalPath {
    LocalPath { options: LocalPathOptions { directory: "/srv/volumes/".into() } }
}

fn plan(world: &World) -> Plan {
    provisioner().plan(&Key::new("n", "data"), world, at(0))
}

fn made(plan: &Plan) -> &Value {
    match plan.actions().collect::<Vec<_>>()[..] {
        [Action::Create { object, .. }] => object,
        _ => panic!("{plan:?}"),
    }
}

#[test]
fn a_claim_gets_a_directory_on_its_node() {
    let asked = world(claim());
    let plan = plan(&asked);
    let volume = made(&plan);
    assert_eq!(meta::name(volume), "pvc-1234");
    assert_eq!(annotation(volume, PROVISIONED_BY), Some(PROVISIONER));
    let spec = value!({
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "volumeMode": "Filesystem",
        "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "local-path",
        "claimRef": {
            "apiVersion": "v1", "kind": "PersistentVolumeClaim",
            "namespace": "n", "name": "data", "uid": "1234", "resourceVersion": "5",
        },
        "hostPath": {"path": "/srv/volumes/pvc-1234_n_data", "type": "DirectoryOrCreate"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [
            {"key": "kubernetes.io/hostname", "operator": "In", "values": ["host-one"]},
        ]}]}},
    });
    assert_eq!(volume.get("spec"), Some(&spec));
    assert_eq!(plan.events[0].message, "External provisioner is provisioning volume for claim \"n/data\"");
    let concluded = provisioner().conclude(&Key::new("n", "data"), &asked, &done(&plan), at(0));
    assert_eq!(concluded.events[0].message, "Successfully provisioned volume pvc-1234");
}

#[test]
fn a_claim_may_choose_how_it_is_mounted() {
    let plan = plan(&world(with(claim(), &["metadata", "annotations", "volumeType"], "local")));
    let path = made(&plan).at(&["spec", "local"]);
    assert_eq!(path, Some(&value!({"path": "/srv/volumes/pvc-1234_n_data"})));
}

#[test]
fn others_are_left_alone() {
    let there = value!({"metadata": {"name": "pvc-1234"}});
    let other = with(class(), &["provisioner"], "example.com/disk");
    let node = ["metadata", "annotations", SELECTED_NODE];
    for (why, world) in [
        ("no node yet", world(without(claim(), &node))),
        ("not asked", world(without(claim(), &["metadata", "annotations", STORAGE_PROVISIONER]))),
        ("bound", world(with(claim(), &["spec", "volumeName"], "v"))),
        ("made already", World { volume: Some(there), ..world(claim()) }),
        ("another's class", World { class: Some(other), ..world(claim()) }),
        ("no class", World { class: None, ..world(claim()) }),
        ("gone", World::default()),
    ] {
        assert!(plan(&world).is_done(), "{why}");
    }
}

#[test]
fn unsupported_claims_are_reported() {
    let immediate = World {
        class: Some(with(class(), &["volumeBindingMode"], "Immediate")),
        ..world(without(claim(), &["metadata", "annotations", SELECTED_NODE]))
    };
    let many = with(claim(), &["spec", "accessModes"], value!(["ReadWriteMany"]));
    for (world, why) in [
        (immediate, "configuration error, no node was specified"),
        (world(many), "NodePath only supports ReadWriteOnce and ReadWriteOncePod (1.22+) access modes"),
        (world(with(claim(), &["spec", "volumeMode"], "Block")), "block volumes are not supported"),
        (world(with(claim(), &["spec", "selector"], value!({}))), "claim.Spec.Selector is not supported"),
    ] {
        let plan = plan(&world);
        let message = format!("failed to provision volume with StorageClass \"local-path\": {why}");
        assert_eq!(
            (plan.events[0].reason.as_ref(), plan.events[0].message.as_str()),
            ("ProvisioningFailed", &*message)
        );
        assert!(plan.actions().next().is_none());
    }
}

#[test]
fn another_node_is_chosen_when_the_first_is_gone() {
    let plan = plan(&World { hostname: None, ..world(claim()) });
    let [Action::Update { object, .. }] = plan.actions().collect::<Vec<_>>()[..] else { panic!("{plan:?}") };
    assert_eq!(annotation(object, SELECTED_NODE), None);
    assert!(plan.events[0].message.ends_with("failed to get target node: node \"one\" not found"));
}

#[test]
fn released_volumes_of_ours_are_deleted() {
    let volume = |provisioner: &str, phase: &str, policy: &str| {
        let mut volume = value!({
            "metadata": {"name": "v", "uid": "u"}, "status": {"phase": phase},
            "spec": {"persistentVolumeReclaimPolicy": policy},
        });
        volume.set(&["metadata", "annotations", PROVISIONED_BY], provisioner);
        World { volume: Some(volume), ..World::default() }
    };
    let plan_of = |world: World| provisioner().plan(&Key::new("", "v"), &world, at(0));
    let due = plan_of(volume(PROVISIONER, "Released", "Delete"));
    let [Action::Delete { key, options, .. }] = due.actions().collect::<Vec<_>>()[..] else {
        panic!("{due:?}")
    };
    assert_eq!((key.name.as_str(), options.uid.as_deref()), ("v", Some("u")));
    assert!(plan_of(volume(PROVISIONER, "Bound", "Delete")).is_done());
    assert!(plan_of(volume(PROVISIONER, "Released", "Retain")).is_done());
    assert!(plan_of(volume("example.com/disk", "Released", "Delete")).is_done());
}
