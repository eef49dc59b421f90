//! Tables of allowed and refused writes of nodes.

use corten_api::{json, value};

use super::*;

/// Holds a pod against what nodes may do, for the tests of what that costs.
pub(in crate::admission) fn check_pod(pod: &Value) {
    let mut mirror = pod.clone();
    mirror.set(&["metadata", "annotations", "kubernetes.io/config.mirror"], "x");
    mirror.set(&["spec", "nodeName"], "n");
    let owner = value!({"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true});
    mirror.set(&["metadata", "ownerReferences"], vec![owner]);
    let _ = pods::mirror("n", Some("u"), &mirror);
    let _ = pods::report("n", &mirror, &mirror);
}

/// The same of a node or a claim.
pub(in crate::admission) fn check_node(new: &Value, old: &Value) {
    let _ = nodes::register("n", new);
    let _ = nodes::change("n", new, old);
    let _ = nodes::resize_report("n", new, old);
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes()).unwrap()
}

fn why(outcome: Outcome) -> String {
    match outcome {
        Ok(()) => String::new(),
        Err(Refusal::Forbidden(why)) => why,
        Err(Refusal::Other(status)) => status.message,
    }
}

#[test]
fn nodes_are_recognized_by_name_and_group() {
    let user =
        |name: &str, group: &str| User { name: name.into(), groups: vec![group.into()], ..User::default() };
    assert_eq!(node_of(&user("system:node:n1", "system:nodes")), Some("n1"));
    assert_eq!(node_of(&user("system:node:n1", "others")), None);
    assert_eq!(node_of(&user("jane", "system:nodes")), None);
}

#[test]
fn only_own_mirror_pods_are_created() {
    let good = value!({
        "metadata": {
            "annotations": {"kubernetes.io/config.mirror": "x"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": true}],
        },
        "spec": {"nodeName": "n", "volumes": [{"name": "v", "emptyDir": {}}]},
    });
    assert_eq!(why(pods::mirror("n", Some("u"), &good)), "");
    assert_eq!(why(pods::mirror("n", Some("w"), &good)), "node n UID mismatch: expected u got w");
    assert_eq!(why(pods::mirror("n", None, &good)), "nodes \"n\" not found");
    let table: [(&[&str], &str, &str); 9] = [
        (
            &["metadata", "annotations"],
            "{}",
            r#"pod does not have "kubernetes.io/config.mirror" annotation, node "n" can only create mirror pods"#,
        ),
        (
            &["spec", "nodeName"],
            r#""m""#,
            r#"node "n" can only create pods with spec.nodeName set to itself"#,
        ),
        (
            &["metadata", "ownerReferences"],
            "[]",
            r#"node "n" can only create pods with an owner reference set to itself"#,
        ),
        (
            &["metadata", "ownerReferences"],
            r#"[{"apiVersion":"v1","kind":"Node","name":"n","uid":"u"}]"#,
            r#"node "n" can only create pods with a controller owner reference set to itself"#,
        ),
        (
            &["spec", "serviceAccountName"],
            r#""x""#,
            r#"node "n" can not create pods that reference serviceaccounts"#,
        ),
        (
            &["spec", "volumes"],
            r#"[{"name":"v","secret":{"secretName":"s"}}]"#,
            r#"node "n" can not create pods that reference secrets"#,
        ),
        (
            &["spec", "containers"],
            r#"[{"name":"c","envFrom":[{"configMapRef":{"name":"x"}}]}]"#,
            r#"node "n" can not create pods that reference configmaps"#,
        ),
        (
            &["spec", "volumes"],
            r#"[{"name":"v","persistentVolumeClaim":{"claimName":"x"}}]"#,
            r#"node "n" can not create pods that reference persistentvolumeclaims"#,
        ),
        (
            &["spec", "volumes"],
            r#"[{"name":"v","projected":{"sources":[{"clusterTrustBundle":{"path":"x"}}]}}]"#,
            r#"node "n" can not create pods that reference clustertrustbundles"#,
        ),
    ];
    for (path, bad, expected) in table {
        let mut pod = good.clone();
        pod.set(path, tree(bad));
        assert_eq!(why(pods::mirror("n", Some("u"), &pod)), expected, "{path:?} {bad}");
    }
}

#[test]
fn a_status_report_does_not_change_other_fields() {
    let old = value!({"metadata": {"labels": {"a": "b"}}, "spec": {"nodeName": "n"}});
    let mut new = old.clone();
    new.set(&["status", "phase"], "Running");
    new.set(&["status", "resourceClaimStatuses"], Vec::<Value>::new());
    assert_eq!(why(pods::report("n", &new, &old)), "");
    assert_eq!(
        why(pods::report("m", &new, &old)),
        r#"node "m" can only update pod status for pods with spec.nodeName set to itself"#
    );
    new.set(&["metadata", "labels", "a"], "c");
    assert_eq!(why(pods::report("n", &new, &old)), r#"node "n" cannot update labels through pod status"#);
}

#[test]
fn a_node_does_not_change_what_schedules_pods_to_it() {
    let old =
        value!({"metadata": {"labels": {"own.example/x": "1", "kubernetes.io/os": "linux"}}, "spec": {}});
    let table: [(&[&str], &str, &str); 10] = [
        (&["metadata", "labels", "own.example/x"], r#""2""#, ""),
        (&["metadata", "labels", "kubernetes.io/os"], r#""plan9""#, ""),
        (&["metadata", "labels", "sub.node.kubernetes.io/x"], r#""1""#, ""),
        (&["metadata", "labels", "notkubernetes.io/x"], r#""1""#, ""),
        (
            &["metadata", "labels", "foo.kubernetes.io/x"],
            r#""1""#,
            "is not allowed to modify labels: foo.kubernetes.io/x",
        ),
        (
            &["metadata", "labels", "node-restriction.kubernetes.io/x"],
            r#""1""#,
            "is not allowed to modify labels: node-restriction.kubernetes.io/x",
        ),
        (
            &["spec", "taints"],
            r#"[{"key":"x","effect":"NoSchedule"}]"#,
            r#"node "n" is not allowed to modify taints"#,
        ),
        (
            &["metadata", "ownerReferences"],
            r#"[{"name":"x"}]"#,
            r#"node "n" is not allowed to modify ownerReferences"#,
        ),
        (&["spec", "podCIDRs"], r#"["10.244.1.0/24"]"#, r#"node "n" is not allowed to modify podCIDRs"#),
        (&["spec", "podCIDR"], r#""10.244.1.0/24""#, r#"node "n" is not allowed to modify podCIDRs"#),
    ];
    for (path, value, expected) in table {
        let mut new = old.clone();
        new.set(path, tree(value));
        assert_eq!(why(nodes::change("n", &new, &old)), expected, "{path:?} {value}");
    }
    let mut new = old.clone();
    new.set(&["metadata", "labels", "k8s.io/role"], "master");
    let routed = value!({"metadata": {}, "spec": {"podCIDRs": ["192.0.2.1/32"]}});
    assert_eq!(why(nodes::register("n", &routed)), r#"node "n" is not allowed to set podCIDRs"#);
    assert_eq!(
        why(nodes::register("n", &new)),
        r#"node "n" is not allowed to set the following labels: k8s.io/role"#
    );
}

#[test]
fn a_node_reports_only_the_size_of_a_claim() {
    let old = value!({"metadata": {"name": "c"}, "spec": {"volumeName": "v"}, "status": {"phase": "Bound"}});
    let mut new = old.clone();
    new.set(&["status", "capacity", "storage"], "2Gi");
    assert_eq!(why(nodes::resize_report("n", &new, &old)), "");
    new.set(&["spec", "volumeName"], "w");
    assert!(
        why(nodes::resize_report("n", &new, &old)).contains("is not allowed to update fields other than")
    );
}

#[test]
fn a_node_requests_certificates_for_itself() {
    let request = value!({"spec": {"signerName": "kubernetes.io/kubelet-serving", "request": ""}});
    let expected = "unable to parse csr: PEM block type must be CERTIFICATE REQUEST";
    assert_eq!(why(signing_request("n", &request)), expected);
    assert_eq!(why(signing_request("n", &value!({"spec": {"signerName": "example.com/x"}}))), "");
}
