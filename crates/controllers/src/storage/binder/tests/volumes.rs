//! Tests of volumes.

use corten_api::Status;

use super::*;
use crate::storage::binder::volumes::VolumeWorld;

fn world(volume: Value, claim: Option<Value>) -> VolumeWorld {
    let view = VolumeView::of(&volume);
    VolumeWorld { volume, view, claim, ..VolumeWorld::default() }
}

fn planned(volume: Value, claim: Option<Value>) -> Plan {
    plan(&World::Volume(Box::new(world(volume, claim))))
}

/// A volume whose claim is deleted, with a reclaim policy.
fn orphan(policy: &str) -> Value {
    with(bound_pair().1, &["spec", "persistentVolumeReclaimPolicy"], policy)
}

#[test]
fn an_unclaimed_volume_is_available() {
    for volume in [volume("v"), claimed(volume("v"), "")] {
        assert_eq!(words(&planned(phase(volume.clone(), "Pending"), None)), ["v is Available"]);
        assert!(planned(volume, None).is_done());
    }
    let mut fresh = volume("v");
    fresh.remove(&["status"]);
    assert_eq!(words(&planned(fresh, None)), ["v is Available"]);
}

#[test]
fn a_claimed_volume_is_bound() {
    let (claim, volume) = bound_pair();
    assert!(planned(volume.clone(), Some(claim.clone())).is_done());
    assert_eq!(words(&planned(phase(volume, "Pending"), Some(claim))), ["v is Bound"]);
}

#[test]
fn binding_is_finished_by_the_claim() {
    let (_, volume) = bound_pair();
    assert!(planned(volume.clone(), Some(claim())).is_done());
    let block = with(claim(), &["spec", "volumeMode"], "Block");
    let plan = planned(volume, Some(block));
    assert_eq!(words(&plan), ["VolumeMismatch", "VolumeMismatch"]);
    assert_eq!(
        plan.events[1].message,
        "Cannot bind PersistentVolume \"v\" to requested PersistentVolumeClaim due to incompatible volumeMode."
    );
}

#[test]
fn the_claim_is_read_before_a_volume_is_released() {
    let (claim, volume) = bound_pair();
    let asks = |volume: Value, claim: Option<Value>| {
        binder().ask(&World::Volume(Box::new(world(volume, claim)))).len()
    };
    assert_eq!(asks(volume.clone(), None), 1);
    assert_eq!(asks(volume.clone(), Some(with(claim.clone(), &["metadata", "uid"], "older"))), 1);
    assert_eq!(asks(volume.clone(), Some(claim.clone())), 0);
    assert_eq!(asks(phase(volume.clone(), "Released"), None), 0, "it was asked before");
    assert_eq!(asks(claimed(volume.clone(), ""), None), 0);
    let learned = |answer: Result<Value, Error>| {
        let mut seen = World::Volume(Box::new(world(volume.clone(), None)));
        binder().learn(&mut seen, "", answer);
        assert!(binder().ask(&seen).is_empty(), "it is asked once");
        plan(&seen)
    };
    assert!(learned(Ok(claim)).is_done(), "the cache was behind");
    assert_eq!(
        words(&learned(Err(Status::not_found("", "persistentvolumeclaims", "c").into()))),
        ["v is Released"]
    );
    let unknown = learned(Err(Status::internal("no").into()));
    assert!(unknown.retry && unknown.steps.is_empty(), "nothing is done without an answer");
}

#[test]
fn a_volume_without_its_claim_is_released() {
    assert_eq!(words(&planned(orphan("Retain"), None)), ["v is Released"]);
    assert!(planned(phase(orphan("Retain"), "Released"), None).is_done());
    let another = with(claim(), &["metadata", "uid"], "newer");
    assert_eq!(words(&planned(orphan("Retain"), Some(another))), ["v is Released"]);
}

#[test]
fn the_provisioner_deletes_its_volume() {
    let made = with(orphan("Delete"), &["metadata", "annotations", PROVISIONED_BY], "example.com/disk");
    assert_eq!(words(&planned(made, None)), ["v is Released"]);
    let csi = with(orphan("Delete"), &["spec", "csi"], value!({"driver": "d", "volumeHandle": "h"}));
    assert_eq!(words(&planned(csi, None)), ["v is Released"]);
}

#[test]
fn a_failed_reclaim_is_reported_once() {
    for (policy, reason, message) in [
        (
            "Delete",
            "VolumeFailedDelete",
            "error getting deleter volume plugin for volume \"v\": no deletable volume plugin matched",
        ),
        ("Recycle", "VolumeFailedRecycle", "No recycler plugin found for the volume!"),
        ("Burn", "VolumeUnknownReclaimPolicy", "Volume has unrecognized PersistentVolumeReclaimPolicy"),
    ] {
        let plan = planned(orphan(policy), None);
        assert_eq!(words(&plan), ["v is Released", "v is Failed", reason], "{policy}");
        assert_eq!(plan.events[0].message, message);
        let Some(Action::Update { object, .. }) = plan.actions().last() else { panic!("no status") };
        assert_eq!(object.str_at(&["status", "message"]), Some(message));
        assert!(planned(phase(orphan(policy), "Failed"), None).is_done(), "{policy}");
    }
}

#[test]
fn a_used_volume_is_not_recycled() {
    let world = VolumeWorld { users: vec!["n/b".into(), "n/a".into()], ..world(orphan("Recycle"), None) };
    let plan = plan(&World::Volume(Box::new(world)));
    assert_eq!(words(&plan), ["v is Released", "VolumeFailedRecycle"]);
    assert_eq!(plan.events[0].message, "Volume is used by pods: n/a,n/b");
}

#[test]
fn a_claim_with_another_volume_gives_this_one_back() {
    let elsewhere = || with(bound_pair().0, &["spec", "volumeName"], "other");
    let plan = planned(orphan("Retain"), Some(elsewhere()));
    assert_eq!(words(&plan), ["update v", "v is Available"]);
    assert_eq!(updated(&plan, "v").at(&["spec", "claimRef"]), None);
    assert_eq!(updated(&plan, "v").str_at(&["metadata", "annotations", BOUND_BY_CONTROLLER]), None);
    let meant = phase(claimed(volume("v"), "claim"), "Bound");
    let plan = planned(meant, Some(elsewhere()));
    assert_eq!(updated(&plan, "v").str_at(&["spec", "claimRef", "name"]), Some("c"), "it stays meant for it");
    assert_eq!(updated(&plan, "v").str_at(&["spec", "claimRef", "uid"]), None);
    let made = with(orphan("Delete"), &["metadata", "annotations", PROVISIONED_BY], "example.com/disk");
    assert_eq!(words(&planned(made, Some(elsewhere()))), ["v is Released"]);
}

#[test]
fn volumes_of_plugins_are_held_as_long_as_they_have_to_be() {
    let made = |by: &str, policy: &str, finalizers: Value| {
        let volume = with(bound_pair().1, &["metadata", "annotations", PROVISIONED_BY], by);
        let volume = with(volume, &["spec", "persistentVolumeReclaimPolicy"], policy);
        with(volume, &["metadata", "finalizers"], finalizers)
    };
    let (ours, theirs) =
        ("kubernetes.io/pv-controller", "external-provisioner.volume.kubernetes.io/finalizer");
    let (bound, _) = bound_pair();
    for (by, policy, before, after) in [
        ("kubernetes.io/test", "Delete", value!([]), value!([ours])),
        ("kubernetes.io/test", "Delete", value!([theirs]), value!([ours])),
        ("kubernetes.io/test", "Retain", value!(["x", ours]), value!(["x"])),
    ] {
        let plan = planned(made(by, policy, before.clone()), Some(bound.clone()));
        assert_eq!(
            updated(&plan, "v").at(&["metadata", "finalizers"]),
            Some(&after),
            "{by} {policy} {before:?}"
        );
    }
    assert!(planned(made("example.com/disk", "Delete", value!([theirs])), Some(bound.clone())).is_done());
    let plan = planned(made("kubernetes.io/gce-pd", "Delete", value!([ours, "x"])), Some(bound));
    assert_eq!(
        updated(&plan, "v").str_at(&["metadata", "annotations", MIGRATED_TO]),
        Some("pd.csi.storage.gke.io")
    );
    assert_eq!(updated(&plan, "v").at(&["metadata", "finalizers"]), Some(&value!(["x"])));
    let migrated = with(orphan("Delete"), &["metadata", "annotations", MIGRATED_TO], "pd.csi.storage.gke.io");
    let migrated = with(migrated, &["metadata", "annotations", PROVISIONED_BY], "kubernetes.io/gce-pd");
    assert_eq!(words(&planned(migrated, None)), ["v is Released"], "the driver does the rest");
}
