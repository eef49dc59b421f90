//! Tests of rolling updates and of the history.

use corten_api::value;

use corten_api::meta;

use super::super::*;
use super::cluster::{Cluster, parallel, set, with};

fn partition(set: Value, partition: i64) -> Value {
    with(set, &["spec", "updateStrategy", "rollingUpdate", "partition"], partition)
}

fn max_unavailable(set: Value, limit: impl Into<Value>) -> Value {
    with(set, &["spec", "updateStrategy", "rollingUpdate", "maxUnavailable"], limit)
}

/// A complete set that then gets a new image.
fn updated(set: Value) -> Cluster {
    let mut cluster = Cluster::new(set);
    cluster.settle();
    cluster.update_image("web:2");
    cluster
}

#[test]
fn the_last_is_updated_first() {
    let mut cluster = updated(set(3));
    assert_eq!(cluster.sync(), ["delete web-2"]);
    assert_eq!((cluster.status("currentReplicas"), cluster.status("updatedReplicas")), (2, 0));
    assert!(cluster.sync().is_empty());
    cluster.collect();
    assert_eq!(cluster.sync(), ["create web-2"]);
    assert!(cluster.sync().is_empty(), "it has to be ready before the next goes");
    assert_eq!((cluster.status("currentReplicas"), cluster.status("updatedReplicas")), (2, 1));
    let status = cluster.set.get("status").unwrap();
    assert_ne!(status.get("currentRevision"), status.get("updateRevision"));
    assert_eq!(cluster.settle(), ["delete web-1", "create web-1", "delete web-0", "create web-0"]);
    assert_eq!(cluster.images(), ["web:2", "web:2", "web:2"]);
    let status = cluster.set.get("status").unwrap();
    assert_eq!(status.get("currentRevision"), status.get("updateRevision"));
    assert_eq!((cluster.status("currentReplicas"), cluster.status("updatedReplicas")), (3, 3));
}

#[test]
fn a_partition_keeps_the_first() {
    let mut cluster = updated(partition(set(4), 2));
    assert_eq!(cluster.settle(), ["delete web-3", "create web-3", "delete web-2", "create web-2"]);
    assert_eq!(cluster.images(), ["web:1", "web:1", "web:2", "web:2"]);
    assert_eq!((cluster.status("currentReplicas"), cluster.status("updatedReplicas")), (2, 2));
    cluster.pods.remove("web-0");
    cluster.settle();
    assert_eq!(cluster.images()[0], "web:1", "what is made anew is made as it was");
    cluster.set.set(&["spec", "updateStrategy", "rollingUpdate", "partition"], 0);
    cluster.settle();
    assert_eq!(cluster.images(), ["web:2"; 4]);
}

#[test]
fn a_partition_counts_from_the_first_number() {
    let mut cluster = updated(partition(with(set(3), &["spec", "ordinals", "start"], 7), 2));
    assert_eq!(cluster.settle(), ["delete web-9", "create web-9"]);
    cluster.pods.remove("web-8");
    cluster.settle();
    assert_eq!(cluster.images(), ["web:1", "web:1", "web:2"]);
}

#[test]
fn a_partition_of_all_updates_nothing() {
    let mut cluster = updated(partition(set(2), 5));
    assert!(cluster.settle().is_empty());
    assert_eq!(cluster.revisions.len(), 2);
}

#[test]
fn on_delete_waits_for_people() {
    let mut cluster = updated(with(set(2), &["spec", "updateStrategy"], value!({"type": "OnDelete"})));
    assert!(cluster.settle().is_empty());
    cluster.pods.remove("web-0");
    assert_eq!(cluster.settle(), ["create web-0"]);
    assert_eq!(cluster.images(), ["web:2", "web:1"]);
}

#[test]
fn several_may_be_updated_at_a_time() {
    for (limit, first) in [
        (Value::from(2), vec!["delete web-4", "delete web-3"]),
        (Value::from("50%"), vec!["delete web-4", "delete web-3"]),
        (Value::from("10%"), vec!["delete web-4"]),
        (
            Value::from(9),
            vec!["delete web-4", "delete web-3", "delete web-2", "delete web-1", "delete web-0"],
        ),
    ] {
        for order in [set as fn(i64) -> Value, |replicas| parallel(set(replicas))] {
            let mut cluster = updated(max_unavailable(order(5), limit.clone()));
            assert_eq!(cluster.sync(), first, "{limit:?}");
            assert!(cluster.sync().is_empty(), "{limit:?}: not more at a time");
            cluster.settle();
            assert_eq!(cluster.images(), ["web:2"; 5]);
        }
    }
}

#[test]
fn a_broken_rollout_stands_still_in_order() {
    let mut cluster = updated(set(3));
    cluster.sync();
    cluster.collect();
    cluster.sync();
    cluster.phase("web-2", "Running");
    cluster.update_image("web:3");
    assert!(cluster.sync().is_empty(), "a pod that never gets ready is waited for, whatever comes next");
    cluster.pods.remove("web-2");
    cluster.settle();
    assert_eq!(cluster.images(), ["web:3"; 3]);
}

#[test]
fn a_broken_rollout_is_mended_without_order() {
    let mut cluster = updated(parallel(set(4)));
    cluster.sync();
    cluster.collect();
    cluster.sync();
    cluster.unready("web-1");
    cluster.update_image("web:3");
    assert_eq!(
        cluster.sync(),
        ["delete web-3", "delete web-1"],
        "unavailable pods are deleted at once, and no more"
    );
    assert!(cluster.sync().is_empty());
    cluster.settle();
    assert_eq!(cluster.images(), ["web:3"; 4]);
}

#[test]
fn scaling_comes_before_updating() {
    let mut cluster = updated(set(3));
    cluster.set.set(&["spec", "replicas"], 2);
    assert_eq!(cluster.sync(), ["delete web-2"]);
    cluster.collect();
    cluster.set.set(&["spec", "replicas"], 3);
    assert_eq!(cluster.settle()[..2], ["create web-2", "delete web-1"]);
}

#[test]
fn going_back_uses_the_old_revision() {
    let mut cluster = updated(set(1));
    cluster.settle();
    let old = cluster.pods["web-0"].str_at(&["metadata", "labels", history::HASH]).unwrap().to_owned();
    cluster.update_image("web:1");
    cluster.settle();
    assert_eq!(cluster.images(), ["web:1"]);
    assert_eq!(cluster.revisions.len(), 2);
    let name = cluster.set.str_at(&["status", "currentRevision"]).unwrap();
    assert_ne!(name, old);
    assert_eq!(history::number(&cluster.revisions[name]), 3, "it is the newest again");
}

#[test]
fn only_so_many_revisions_are_kept() {
    let mut cluster = Cluster::new(with(set(1), &["spec", "revisionHistoryLimit"], 2));
    for number in 0..6 {
        cluster.update_image(&format!("web:{number}"));
        cluster.settle();
    }
    let mut numbers: Vec<_> = cluster.revisions.values().map(history::number).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, [4, 5, 6]);
    cluster.set.set(&["spec", "revisionHistoryLimit"], 0);
    cluster.settle();
    assert_eq!(cluster.revisions.len(), 1);
}

#[test]
fn revisions_in_use_are_kept() {
    let mut cluster = Cluster::new(with(
        with(set(2), &["spec", "revisionHistoryLimit"], 0),
        &["spec", "updateStrategy"],
        value!({"type": "OnDelete"}),
    ));
    cluster.settle();
    cluster.update_image("web:2");
    cluster.settle();
    cluster.pods.remove("web-1");
    cluster.settle();
    cluster.update_image("web:3");
    cluster.settle();
    assert_eq!(cluster.revisions.len(), 3);
}

#[test]
fn revisions_have_labels_and_numbers() {
    let mut cluster = Cluster::new(with(set(1), &["metadata", "annotations", "why"], "because"));
    cluster.sync();
    let revision = cluster.revisions.values().next().unwrap();
    let hash = revision.str_at(&["metadata", "labels", "controller.kubernetes.io/hash"]).unwrap();
    assert_eq!(meta::name(revision), format!("web-{hash}"));
    assert_eq!(revision.str_at(&["metadata", "annotations", "why"]), Some("because"));
    assert_eq!(revision.str_at(&["data", "spec", "template", "$patch"]), Some("replace"));
    assert_eq!(history::number(revision), 1);
}

#[test]
fn orphaned_revisions_are_taken_in() {
    let mut cluster = Cluster::new(set(1));
    cluster.settle();
    let revision = cluster.revisions.values_mut().next().unwrap();
    revision.remove(&["metadata", "ownerReferences"]);
    cluster.sync();
    let revision = cluster.revisions.values().next().unwrap();
    assert_eq!(revision.items_at(&["metadata", "ownerReferences"]), [claims::reference(&cluster.set)]);
    assert_eq!(cluster.revisions.len(), 1);
}

#[test]
fn names_of_revisions_that_are_taken_are_counted() {
    let mut cluster = Cluster::new(set(1));
    let mut taken = cluster.world().revisions.update.clone();
    taken.remove(&["metadata", "ownerReferences"]);
    taken.set(&["metadata", "labels"], value!({"app": "other"}));
    cluster.revisions.insert(meta::name(&taken).to_owned(), taken.clone());
    assert!(cluster.sync().is_empty());
    assert_eq!(cluster.status("collisionCount"), 0, "the same content of an earlier set is about to go");
    taken.set(&["data"], value!({"spec": {}}));
    cluster.revisions.insert(meta::name(&taken).to_owned(), taken);
    assert!(cluster.sync().is_empty());
    assert_eq!(cluster.status("collisionCount"), 1);
    assert_eq!(cluster.sync(), ["create web-0"]);
    assert_eq!(cluster.status("collisionCount"), 1);
}

#[test]
fn others_may_spell_revisions_otherwise() {
    let mut cluster = Cluster::new(set(1));
    cluster.settle();
    let revision = cluster.revisions.values_mut().next().unwrap();
    revision.set(&["data", "spec", "template", "metadata", "creationTimestamp"], Value::Null);
    assert!(cluster.settle().is_empty());
    assert_eq!(cluster.revisions.len(), 1);
}
