//! Tests of claims.

use super::*;
use crate::storage::binder::claims::{ClaimWorld, default_class};

fn world(claim: Value) -> ClaimWorld {
    ClaimWorld { claim, ..ClaimWorld::default() }
}

fn of_class(name: &str) -> Value {
    with(claim(), &["spec", "storageClassName"], name)
}

fn class(provisioner: &str, mode: &str) -> Option<Value> {
    Some(value!({"metadata": {"name": "gold"}, "provisioner": provisioner, "volumeBindingMode": mode}))
}

fn planned(world: ClaimWorld) -> Plan {
    plan(&World::Claim(Box::new(world)))
}

/// The plan for a claim that names the volume `v`.
fn asking(claim: Value, volume: Option<&Value>) -> Plan {
    let claim = with(claim, &["spec", "volumeName"], "v");
    planned(ClaimWorld { volume: volume.map(cached), ..world(claim) })
}

fn message(plan: &Plan) -> &str {
    &plan.events[0].message
}

const BOUND: [&str; 4] = ["update v", "v is Bound", "update c", "c is Bound"];

#[test]
fn a_match_is_bound_on_both_sides() {
    let plan = planned(ClaimWorld { candidates: vec![cached(&volume("v"))], ..world(claim()) });
    assert_eq!(words(&plan), BOUND);
    let v = updated(&plan, "v");
    let reference = value!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "n", "name": "c",
        "uid": "claim", "resourceVersion": "5",
    });
    assert_eq!(v.at(&["spec", "claimRef"]), Some(&reference));
    assert_eq!(v.str_at(&["metadata", "annotations", BOUND_BY_CONTROLLER]), Some("yes"));
    let c = updated(&plan, "c");
    assert_eq!(c.str_at(&["spec", "volumeName"]), Some("v"));
    for key in [BIND_COMPLETED, BOUND_BY_CONTROLLER] {
        assert_eq!(c.str_at(&["metadata", "annotations", key]), Some("yes"), "{key}");
    }
    let Some(Action::Update { object, .. }) = plan.actions().last() else { panic!("no status") };
    let status = value!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}});
    assert_eq!(object.get("status"), Some(&status));
}

#[test]
fn an_interrupted_binding_is_completed() {
    let (bound_claim, bound_volume) = bound_pair();
    let half = phase(bound_volume.clone(), "Available");
    let candidates = |volume: &Value| ClaimWorld { candidates: vec![cached(volume)], ..world(claim()) };
    assert_eq!(words(&planned(candidates(&half))), ["v is Bound", "update c", "c is Bound"]);
    assert_eq!(words(&planned(candidates(&bound_volume))), ["update c", "c is Bound"]);
    let mut claim = bound_claim.clone();
    claim.set(&["status"], value!({"phase": "Pending"}));
    assert_eq!(words(&asking(claim, Some(&bound_volume))), ["c is Bound"]);
    assert!(asking(bound_claim, Some(&bound_volume)).is_done(), "what is bound stays");
}

#[test]
fn pre_bound_volumes_are_not_marked_as_bound_by_the_controller() {
    let meant = claimed(volume("v"), "");
    let plan = planned(ClaimWorld { candidates: vec![cached(&meant)], ..world(claim()) });
    assert_eq!(words(&plan), BOUND);
    assert_eq!(updated(&plan, "v").at(&["metadata", "annotations"]), None);
    let plan = asking(claim(), Some(&volume("v")));
    assert_eq!(words(&plan), BOUND);
    assert_eq!(updated(&plan, "c").str_at(&["metadata", "annotations", BOUND_BY_CONTROLLER]), None);
    assert_eq!(updated(&plan, "c").str_at(&["metadata", "annotations", BIND_COMPLETED]), Some("yes"));
}

#[test]
fn without_a_volume_or_a_class_a_claim_waits() {
    let plan = planned(world(claim()));
    assert_eq!(words(&plan), ["FailedBinding"]);
    assert_eq!(message(&plan), "no persistent volumes available for this claim and no storage class is set");
    assert!(plan.requeue_after.is_some(), "it is reported again");
    let mut was_bound = phase(claim(), "Bound");
    was_bound.set(&["status", "capacity"], value!({"storage": "1Gi"}));
    assert_eq!(words(&planned(world(was_bound))), ["c is Pending", "FailedBinding"]);
}

#[test]
fn a_claim_without_a_class_gets_the_default_one() {
    let classes = |specs: &[(&str, &str, &str)]| -> Vec<Value> {
        let of = |(name, created, default): &(&str, &str, &str)| {
            value!({"metadata": {
                "name": (*name), "creationTimestamp": (*created),
                "annotations": {"storageclass.kubernetes.io/is-default-class": (*default)},
            }})
        };
        specs.iter().map(of).collect()
    };
    let (old, new) = ("2026-01-01T00:00:00Z", "2026-02-01T00:00:00Z");
    for (specs, expected) in [
        (&[("a", old, "true"), ("b", new, "true")][..], Some("b")),
        (&[("b", old, "true"), ("a", old, "true")], Some("a")),
        (&[("a", old, "true"), ("b", new, "false")], Some("a")),
        (&[("b", new, "false")], None),
    ] {
        assert_eq!(default_class(&classes(specs)).as_deref(), expected, "{specs:?}");
    }
    let plan = planned(ClaimWorld { default_class: Some("std".into()), ..world(claim()) });
    assert_eq!(words(&plan), ["update c"]);
    assert_eq!(updated(&plan, "c").str_at(&["spec", "storageClassName"]), Some("std"));
    let explicit = ClaimWorld { default_class: None, ..world(of_class("")) };
    assert_eq!(words(&planned(explicit)), ["FailedBinding"], "no class is a choice, too");
}

#[test]
fn a_claim_may_wait_for_its_first_consumer() {
    let waits = |pods: &[&str]| ClaimWorld {
        class: class("example.com/disk", "WaitForFirstConsumer"),
        candidates: vec![cached(&with(volume("v"), &["spec", "storageClassName"], "gold"))],
        waiting_pods: pods.iter().map(Str::new).collect(),
        ..world(of_class("gold"))
    };
    for (pods, reason, reported) in [
        (&[][..], "WaitForFirstConsumer", "waiting for first consumer to be created before binding"),
        (&["p"], "WaitForPodScheduled", "waiting for pod p to be scheduled"),
        (&["p", "q"], "WaitForPodScheduled", "waiting for pods p,q to be scheduled"),
    ] {
        let plan = planned(waits(pods));
        assert_eq!((words(&plan), message(&plan)), (vec![reason.to_owned()], reported));
    }
    let mut chosen = waits(&["p"]);
    chosen.claim.set(&["metadata", "annotations", SELECTED_NODE], "one");
    assert_eq!(words(&planned(chosen)), ["update c"], "once a node is chosen a volume is asked for");
}

#[test]
fn volumes_are_requested_from_provisioners() {
    let asks =
        |provisioner: &str| ClaimWorld { class: class(provisioner, "Immediate"), ..world(of_class("gold")) };
    let first = planned(asks("example.com/disk"));
    assert_eq!(words(&first), ["update c"]);
    for key in [STORAGE_PROVISIONER, "volume.beta.kubernetes.io/storage-provisioner"] {
        let annotations = updated(&first, "c").at(&["metadata", "annotations", key]);
        assert_eq!(annotations.and_then(Value::as_str), Some("example.com/disk"));
    }
    let mut asked = asks("example.com/disk");
    asked.claim = updated(&first, "c").clone();
    let plan = planned(asked);
    assert_eq!(words(&plan), ["ExternalProvisioning"]);
    assert!(message(&plan).starts_with("Waiting for a volume to be created either by the external provisioner 'example.com/disk' or manually by the system administrator. If volume creation is delayed, "));

    let plan = planned(asks("kubernetes.io/no-provisioner"));
    assert_eq!(message(&plan), "no volume plugin matched name: kubernetes.io/no-provisioner");
    let plan = planned(world(of_class("gold")));
    assert_eq!(
        (words(&plan), message(&plan)),
        (vec!["ProvisioningFailed".to_owned()], "storageclass.storage.k8s.io \"gold\" not found")
    );
    let off = Binder { options: BinderOptions { enable_dynamic_provisioning: false } };
    assert!(off.plan(&Key::default(), &World::Claim(Box::new(asks("example.com/disk"))), at(0)).is_done());
}

#[test]
fn drivers_stand_in_for_plugins() {
    let asks = ClaimWorld { class: class("kubernetes.io/gce-pd", "Immediate"), ..world(of_class("gold")) };
    let plan = planned(asks);
    let annotations = updated(&plan, "c").at(&["metadata", "annotations", STORAGE_PROVISIONER]);
    assert_eq!(annotations.and_then(Value::as_str), Some("pd.csi.storage.gke.io"));
    let before = with(claim(), &["metadata", "annotations", STORAGE_PROVISIONER], "kubernetes.io/gce-pd");
    let plan = planned(world(before));
    assert_eq!(
        updated(&plan, "c").str_at(&["metadata", "annotations", MIGRATED_TO]),
        Some("pd.csi.storage.gke.io")
    );
}

#[test]
fn a_claim_may_ask_for_a_volume() {
    assert!(asking(claim(), None).is_done(), "one that is not there yet");
    let was_bound = phase(claim(), "Bound");
    assert_eq!(words(&asking(was_bound, None)), ["c is Pending"]);
    assert_eq!(words(&asking(claim(), Some(&claimed(volume("v"), "")))), BOUND);
    assert_eq!(
        words(&asking(claim(), Some(&claimed(volume("v"), "claim")))),
        ["v is Bound", "update c", "c is Bound"]
    );
    let selects = with(claim(), &["spec", "selector"], value!({"matchLabels": {"a": "b"}}));
    assert_eq!(
        words(&asking(selects, Some(&volume("v")))),
        BOUND,
        "what is asked for by name need not be selected"
    );
    let taken = claimed(volume("v"), "other");
    let plan = asking(claim(), Some(&taken));
    assert_eq!(
        (words(&plan), message(&plan)),
        (vec!["FailedBinding".to_owned()], "volume \"v\" already bound to a different claim.")
    );
}

#[test]
fn a_volume_that_does_not_fit_is_refused() {
    let going = with(volume("v"), &["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z");
    for (volume, why) in [
        (going, "the volume is marked for deletion \"v\""),
        (with(volume("v"), &["spec", "capacity", "storage"], "1Mi"), "requested PV is too small"),
        (with(volume("v"), &["spec", "storageClassName"], "gold"), "storageClassName does not match"),
        (
            with(volume("v"), &["spec", "volumeAttributesClassName"], "fast"),
            "volumeAttributesClassName does not match",
        ),
        (with(volume("v"), &["spec", "volumeMode"], "Block"), "incompatible volumeMode"),
        (with(volume("v"), &["spec", "accessModes"], value!(["ReadOnlyMany"])), "incompatible accessMode"),
    ] {
        let plan = asking(claim(), Some(&volume));
        assert_eq!(words(&plan), ["VolumeMismatch"], "{why}");
        assert_eq!(message(&plan), format!("Cannot bind to requested volume \"v\": {why}"));
    }
}

#[test]
fn a_bound_claim_may_lose_its_volume() {
    let (claim, volume) = bound_pair();
    let mut unnamed = claim.clone();
    unnamed.remove(&["spec", "volumeName"]);
    let plan = planned(world(unnamed));
    assert_eq!(words(&plan), ["c is Lost", "ClaimLost"]);
    assert_eq!(
        message(&plan),
        "Bound claim has lost reference to PersistentVolume. Data on the volume is lost!"
    );
    let plan = asking(claim.clone(), None);
    assert_eq!(words(&plan), ["c is Lost", "ClaimLost"]);
    assert_eq!(message(&plan), "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    assert!(asking(phase(claim.clone(), "Lost"), None).is_done(), "reported once");
    let plan = asking(claim.clone(), Some(&claimed(volume.clone(), "other")));
    assert_eq!(words(&plan), ["c is Lost", "ClaimMisbound"]);
    let mut unbound = volume.clone();
    unbound.remove(&["spec", "claimRef"]);
    assert_eq!(words(&asking(claim, Some(&phase(unbound, "Available")))), ["update v", "v is Bound"]);
}

#[test]
fn a_bound_claim_keeps_its_size() {
    let (claim, volume) = bound_pair();
    let grown = with(volume.clone(), &["spec", "capacity", "storage"], "2Gi");
    assert!(asking(claim.clone(), Some(&grown)).is_done());
    let key = "volume.alpha.kubernetes.io/pre-resize-capacity";
    let resized = with(grown, &["metadata", "annotations", key], "1Gi");
    let mut pending = phase(claim, "Pending");
    pending.remove(&["status", "capacity"]);
    let plan = asking(pending, Some(&resized));
    let Some(Action::Update { object, .. }) = plan.actions().last() else { panic!("no status") };
    assert_eq!(object.str_at(&["status", "capacity", "storage"]), Some("1Gi"));
}
