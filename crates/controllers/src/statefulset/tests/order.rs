//! Tests of the order in which pods are created and deleted.

use corten_api::value;

use corten_api::meta;

use super::super::*;
use super::cluster::{Cluster, parallel, set, with};
use crate::testing::at_text;

#[test]
fn pods_are_made_one_after_another() {
    let mut cluster = Cluster::new(set(3));
    assert_eq!(cluster.sync(), ["create web-0"]);
    assert!(cluster.sync().is_empty(), "a pending pod is waited for");
    cluster.phase("web-0", "Running");
    assert!(cluster.sync().is_empty(), "so is one that is not ready");
    cluster.ready("web-0");
    assert_eq!(cluster.sync(), ["create web-1"]);
    cluster.unready("web-0");
    cluster.ready("web-1");
    assert!(cluster.sync().is_empty(), "every one before counts");
    cluster.ready("web-0");
    assert_eq!(cluster.sync(), ["create web-2"]);
    cluster.ready("web-2");
    assert!(cluster.sync().is_empty());
    let status = value!({
        "observedGeneration": 1, "replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "currentReplicas": 3,
        "updatedReplicas": 3, "collisionCount": 0,
        "currentRevision": (cluster.revisions.keys().next().unwrap().as_str()),
        "updateRevision": (cluster.revisions.keys().next().unwrap().as_str()),
    });
    assert_eq!(cluster.set.get("status"), Some(&status));
    let world = Some(cluster.world());
    assert!(StatefulSets.plan(&Key::default(), &world, crate::testing::at(0)).is_done());
    assert!(
        StatefulSets.conclude(&Key::default(), &world, &Report::default(), crate::testing::at(0)).is_done()
    );
}

#[test]
fn or_all_at_once() {
    let mut cluster = Cluster::new(parallel(set(3)));
    assert_eq!(cluster.sync(), ["create web-0", "create web-1", "create web-2"]);
    assert!(cluster.sync().is_empty());
    cluster.settle();
    cluster.set.set(&["spec", "replicas"], 1);
    assert_eq!(cluster.sync(), ["delete web-2", "delete web-1"]);
    assert!(cluster.sync().is_empty(), "they go already");
    cluster.set.set(&["spec", "replicas"], 0);
    assert_eq!(cluster.sync(), ["delete web-0"], "parallel management does not wait");
}

#[test]
fn pods_have_an_identity() {
    let mut cluster = Cluster::new(with(set(1), &["spec", "ordinals", "start"], 5));
    cluster.sync();
    let pod = &cluster.pods["web-5"];
    let label = |key: &str| pod.str_at(&["metadata", "labels", key]);
    assert_eq!(label("app"), Some("web"));
    assert_eq!(label("statefulset.kubernetes.io/pod-name"), Some("web-5"));
    assert_eq!(label("apps.kubernetes.io/pod-index"), Some("5"));
    assert_eq!(label("controller-revision-hash"), cluster.revisions.keys().next().map(String::as_str));
    assert_eq!(pod.str_at(&["spec", "hostname"]), Some("web-5"));
    assert_eq!(pod.str_at(&["spec", "subdomain"]), Some("peers"));
    assert_eq!(meta::generate_name(pod), "web-");
    assert_eq!(pod.items_at(&["metadata", "ownerReferences"]), [claims::reference(&cluster.set)]);
}

#[test]
fn numbers_may_start_anywhere() {
    let mut cluster = Cluster::new(set(3));
    cluster.settle();
    cluster.set.set(&["spec", "ordinals", "start"], 2);
    assert_eq!(cluster.settle(), ["create web-3", "create web-4", "delete web-1", "delete web-0"]);
    assert_eq!(cluster.pods.keys().collect::<Vec<_>>(), ["web-2", "web-3", "web-4"]);
}

#[test]
fn the_last_goes_first() {
    let mut cluster = Cluster::new(set(4));
    cluster.settle();
    cluster.set.set(&["spec", "replicas"], 1);
    assert_eq!(cluster.sync(), ["delete web-3"]);
    assert!(cluster.sync().is_empty(), "it has to be gone before the next goes");
    cluster.collect();
    cluster.unready("web-2");
    cluster.unready("web-1");
    assert!(cluster.sync().is_empty(), "one that is not ready waits for those before it");
    cluster.ready("web-1");
    assert_eq!(cluster.sync(), ["delete web-2"], "if it is the first that is not ready, it may go");
    cluster.collect();
    assert_eq!(cluster.sync(), ["delete web-1"]);
}

#[test]
fn nothing_goes_while_one_that_should_be_is_not_ready() {
    let mut cluster = Cluster::new(set(3));
    cluster.settle();
    cluster.set.set(&["spec", "replicas"], 2);
    cluster.unready("web-0");
    assert!(cluster.sync().is_empty());
    cluster.pods.remove("web-0");
    assert_eq!(cluster.sync(), ["create web-0"]);
    cluster.ready("web-0");
    assert_eq!(cluster.sync(), ["delete web-2"]);
}

#[test]
fn lost_and_finished_pods_are_made_anew() {
    for phase in ["Failed", "Succeeded"] {
        for policy in ["OrderedReady", "Parallel"] {
            let mut cluster = Cluster::new(with(set(3), &["spec", "podManagementPolicy"], policy));
            cluster.settle();
            cluster.phase("web-1", phase);
            assert_eq!(cluster.sync(), ["delete web-1"], "{phase} {policy}");
            assert!(cluster.sync().is_empty(), "{phase} {policy}: it goes already");
            cluster.collect();
            assert_eq!(cluster.sync(), ["create web-1"], "{phase} {policy}");
            cluster.settle();
            cluster.pods.remove("web-0");
            assert_eq!(cluster.sync(), ["create web-0"], "{phase} {policy}");
        }
    }
}

#[test]
fn going_pods_are_waited_for() {
    let mut cluster = Cluster::new(set(2));
    cluster.settle();
    cluster.pods.get_mut("web-0").unwrap().set(&["metadata", "deletionTimestamp"], at_text(0));
    cluster.pods.remove("web-1");
    assert!(cluster.sync().is_empty());
    cluster.collect();
    assert_eq!(cluster.sync(), ["create web-0"]);
}

#[test]
fn pods_must_have_been_ready_for_long_enough() {
    let mut cluster = Cluster::new(with(set(2), &["spec", "minReadySeconds"], 30));
    cluster.sync();
    cluster.ready("web-0");
    cluster.now = 10;
    assert!(cluster.sync().is_empty());
    assert_eq!((cluster.status("readyReplicas"), cluster.status("availableReplicas")), (1, 0));
    assert_eq!(cluster.requeue_after, Some(Duration::from_secs(20)));
    cluster.now = 30;
    assert_eq!(cluster.sync(), ["create web-1"]);
    assert_eq!(cluster.status("availableReplicas"), 1);
    assert_eq!(cluster.requeue_after, None);
}

#[test]
fn a_deleted_set_only_tells() {
    let mut cluster = Cluster::new(set(2));
    cluster.settle();
    cluster.set.set(&["metadata", "deletionTimestamp"], at_text(0));
    cluster.set.set(&["spec", "replicas"], 5);
    cluster.pods.remove("web-1");
    assert!(cluster.sync().is_empty());
    assert_eq!(cluster.status("replicas"), 1);
}

#[test]
fn pods_are_taken_in_and_let_go() {
    let mut cluster = Cluster::new(set(2));
    cluster.settle();
    cluster.pods.get_mut("web-0").unwrap().remove(&["metadata", "ownerReferences"]);
    cluster.pods.get_mut("web-1").unwrap().set(&["metadata", "labels", "app"], "other");
    let mut stranger = cluster.pods["web-0"].clone();
    stranger.set(&["metadata", "name"], "stranger-0");
    cluster.pods.insert("stranger-0".to_owned(), stranger);
    assert_eq!(cluster.sync()[..2], ["patch web-0", "patch web-1"]);
    assert!(
        cluster.pods["stranger-0"].at(&["metadata", "ownerReferences"]).is_none(),
        "it is called otherwise"
    );
}

#[test]
fn pods_have_identity_labels() {
    let mut cluster = Cluster::new(set(1));
    cluster.settle();
    cluster.pods.get_mut("web-0").unwrap().remove(&[
        "metadata",
        "labels",
        "statefulset.kubernetes.io/pod-name",
    ]);
    assert_eq!(cluster.sync(), ["update web-0"]);
    assert!(cluster.sync().is_empty());
    assert_eq!(
        cluster.events.last().unwrap(),
        "SuccessfulUpdate Update Pod web-0 in StatefulSet web successful"
    );
}

#[test]
fn events_are_recorded() {
    let mut cluster = Cluster::new(set(2));
    cluster.refused = vec![("create", "web-1".to_owned()), ("delete", "web-0".to_owned())];
    cluster.sync();
    cluster.ready("web-0");
    cluster.sync();
    cluster.set.set(&["spec", "replicas"], 0);
    cluster.sync();
    cluster.refused.clear();
    cluster.sync();
    assert_eq!(
        cluster.events,
        [
            "SuccessfulCreate Create Pod web-0 in StatefulSet web successful",
            "FailedCreate Create Pod web-1 in StatefulSet web failed error: Internal error occurred: no",
            "FailedDelete Delete Pod web-0 in StatefulSet web failed error: Internal error occurred: no",
            "SuccessfulDelete Delete Pod web-0 in StatefulSet web successful",
        ]
    );
}
