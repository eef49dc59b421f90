//! Tests of claims: creation before their pods, retention policies.

use corten_api::value;

use corten_api::meta;

use super::super::*;
use super::cluster::{Cluster, parallel, set, with, with_claims};
use crate::testing::at_text;

fn policy(set: Value, when_deleted: &str, when_scaled: &str) -> Value {
    let policy = value!({"whenDeleted": (when_deleted), "whenScaled": (when_scaled)});
    with(set, &["spec", "persistentVolumeClaimRetentionPolicy"], policy)
}

/// The owners of a claim: kind, name and whether it is the controller.
fn owners(cluster: &Cluster, claim: &str) -> Vec<String> {
    let word = |owner: &Value| {
        let text = |key: &str| owner.str_at(&[key]).unwrap_or_default();
        format!("{} {} {}", text("kind"), text("name"), owner.bool_at(&["controller"]).unwrap_or(false))
    };
    cluster.claims[claim].items_at(&["metadata", "ownerReferences"]).iter().map(word).collect()
}

#[test]
fn claims_are_made_before_their_pods() {
    let mut cluster = Cluster::new(with_claims(set(2)));
    assert_eq!(cluster.sync(), ["create data-web-0", "create web-0"]);
    let claim = &cluster.claims["data-web-0"];
    assert_eq!(claim.at(&["metadata", "labels"]), Some(&value!({"app": "web", "kind": "db"})));
    assert_eq!(claim.str_at(&["kind"]), Some("PersistentVolumeClaim"));
    let volumes = value!([{"name": "data", "persistentVolumeClaim": {"claimName": "data-web-0"}}, {"name": "tmp", "emptyDir": {}}]);
    assert_eq!(cluster.pods["web-0"].at(&["spec", "volumes"]), Some(&volumes));
    assert_eq!(
        cluster.events,
        [
            "SuccessfulCreate Create Claim data-web-0 Pod web-0 in StatefulSet web success",
            "SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
        ]
    );
    cluster.settle();
    cluster.set.set(&["spec", "replicas"], 1);
    cluster.settle();
    assert!(cluster.claims.contains_key("data-web-1"), "claims stay");
    cluster.set.set(&["spec", "replicas"], 2);
    assert_eq!(cluster.sync(), ["create web-1"], "and are used again");
}

#[test]
fn a_pod_without_its_claim_is_not_made() {
    for order in [set as fn(i64) -> Value, |replicas| parallel(set(replicas))] {
        let mut cluster = Cluster::new(with_claims(order(1)));
        cluster.refused = vec![("create", "data-web-0".to_owned())];
        assert!(cluster.sync().is_empty());
        let no = "Internal error occurred: no";
        assert_eq!(
            cluster.events,
            [
                format!(
                    "FailedCreate Create Claim data-web-0 for Pod web-0 in StatefulSet web failed error: {no}"
                ),
                format!(
                    "FailedCreate Create Pod web-0 in StatefulSet web failed error: failed to create PVC data-web-0: {no}"
                ),
            ]
        );
    }
}

#[test]
fn a_claim_that_goes_is_waited_for() {
    let mut cluster = Cluster::new(with_claims(set(1)));
    cluster.settle();
    cluster.pods.clear();
    cluster.claims.get_mut("data-web-0").unwrap().set(&["metadata", "deletionTimestamp"], at_text(0));
    assert!(cluster.sync().is_empty());
    assert_eq!(
        cluster.events.last().unwrap(),
        "FailedCreate Create Pod web-0 in StatefulSet web failed error: pvc data-web-0 is being deleted"
    );
    cluster.claims.clear();
    assert_eq!(cluster.sync(), ["create data-web-0", "create web-0"]);
}

#[test]
fn a_pending_pod_gets_its_claim_back() {
    let mut cluster = Cluster::new(with_claims(set(1)));
    cluster.sync();
    cluster.claims.clear();
    assert_eq!(cluster.sync(), ["create data-web-0"]);
}

#[test]
fn a_pod_gets_the_volumes_it_lacks() {
    let mut cluster = Cluster::new(set(1));
    cluster.settle();
    cluster.set = with_claims(std::mem::take(&mut cluster.set));
    assert_eq!(cluster.sync(), ["create data-web-0", "update web-0"]);
    assert!(cluster.sync().is_empty());
}

#[test]
fn retention_policies_set_the_owners_of_claims() {
    let set_owns = vec!["StatefulSet web true".to_owned()];
    let pod_owns = vec!["Pod web-1 true".to_owned()];
    let none: Vec<String> = Vec::new();
    for (deleted, scaled, wanted, surplus) in [
        ("Retain", "Retain", &none, &none),
        ("Delete", "Retain", &set_owns, &set_owns),
        ("Retain", "Delete", &none, &pod_owns),
        ("Delete", "Delete", &set_owns, &pod_owns),
    ] {
        for order in [set as fn(i64) -> Value, |replicas| parallel(set(replicas))] {
            let mut cluster = Cluster::new(with_claims(policy(order(2), deleted, scaled)));
            cluster.settle();
            assert_eq!(owners(&cluster, "data-web-1"), *wanted, "{deleted} {scaled}");
            cluster.set.set(&["spec", "replicas"], 1);
            cluster.sync();
            assert_eq!(owners(&cluster, "data-web-1"), *surplus, "{deleted} {scaled}");
            assert!(meta::is_deleting(&cluster.pods["web-1"]));
            cluster.settle();
            assert_eq!(cluster.claims.contains_key("data-web-1"), scaled == "Retain", "{deleted} {scaled}");
            cluster.set.set(&["spec", "replicas"], 2);
            cluster.settle();
            assert_eq!(owners(&cluster, "data-web-1"), *wanted, "{deleted} {scaled}");
        }
    }
}

#[test]
fn policies_may_change() {
    let mut cluster = Cluster::new(with_claims(policy(set(1), "Delete", "Delete")));
    cluster.settle();
    cluster.set = policy(std::mem::take(&mut cluster.set), "Retain", "Retain");
    assert_eq!(cluster.settle(), ["update data-web-0", "update web-0"]);
    assert!(owners(&cluster, "data-web-0").is_empty());
}

#[test]
fn a_claim_of_an_earlier_pod_is_waited_for() {
    let mut cluster = Cluster::new(with_claims(policy(set(2), "Retain", "Delete")));
    cluster.settle();
    cluster.set.set(&["spec", "replicas"], 1);
    cluster.sync();
    cluster.pods.remove("web-1");
    cluster.set.set(&["spec", "replicas"], 2);
    assert!(cluster.sync().is_empty(), "the claim goes with the earlier pod");
    cluster.collect();
    assert_eq!(cluster.sync(), ["create data-web-1", "create web-1"]);
}

#[test]
fn claims_of_others_are_left_alone() {
    let mut cluster = Cluster::new(with_claims(policy(set(1), "Delete", "Retain")));
    let other =
        value!({"apiVersion": "v1", "kind": "ConfigMap", "name": "boss", "uid": "boss", "controller": true});
    let claim = value!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data-web-0", "namespace": "default", "uid": "c", "ownerReferences": [(other)]},
    });
    cluster.claims.insert("data-web-0".to_owned(), claim);
    assert_eq!(cluster.sync(), ["create web-0"]);
    let expected = "ConflictingController PersistentVolumeClaim data-web-0 has a conflicting OwnerReference that acts as a manging controller, the retention policy is ignored for this claim";
    assert_eq!(cluster.events[0], expected);
    assert_eq!(owners(&cluster, "data-web-0"), ["ConfigMap boss true"]);
    let ours = claims::reference(&cluster.set);
    let claim = cluster.claims.get_mut("data-web-0").unwrap();
    claim.get_mut("metadata").unwrap().get_mut("ownerReferences").unwrap().make_array().push(ours);
    cluster.sync();
    assert_eq!(owners(&cluster, "data-web-0"), ["ConfigMap boss true"], "the set withdraws");
}

#[test]
fn claims_of_an_earlier_set_are_left_alone() {
    let mut cluster = Cluster::new(with_claims(policy(set(1), "Delete", "Retain")));
    cluster.settle();
    let claim = cluster.claims.get_mut("data-web-0").unwrap();
    let mut earlier = claims::reference(&cluster.set);
    earlier.set(&["uid"], "earlier");
    claim.set(&["metadata", "ownerReferences"], vec![earlier]);
    assert!(cluster.sync().is_empty());
}

#[test]
fn owners_that_do_not_manage_become_managers() {
    let mut cluster = Cluster::new(with_claims(policy(set(1), "Delete", "Retain")));
    cluster.settle();
    let claim = cluster.claims.get_mut("data-web-0").unwrap();
    let mut weak = claims::reference(&cluster.set);
    weak.set(&["controller"], false);
    claim.set(&["metadata", "ownerReferences"], vec![weak]);
    assert_eq!(cluster.sync(), ["update data-web-0", "update web-0"]);
    assert_eq!(owners(&cluster, "data-web-0"), ["StatefulSet web true"]);
}

#[test]
fn a_failed_update_of_claim_owners_is_reported() {
    let mut cluster = Cluster::new(with_claims(policy(set(1), "Delete", "Retain")));
    cluster.sync();
    cluster.refused = vec![("update", "data-web-0".to_owned())];
    cluster.sync();
    assert_eq!(
        cluster.events.last().unwrap(),
        "FailedUpdate Update Pod web-0 in StatefulSet web failed error: could not update claim data-web-0 for delete policy ownerRefs: Internal error occurred: no"
    );
}
