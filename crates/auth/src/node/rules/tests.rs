use super::*;
use crate::rbac::node_rules;
use crate::{User, node::NODES};
use corten_api::selector::FieldSelector;
use corten_api::value;

fn graph() -> Graph {
    let mut graph = Graph::default();
    let pod = value!({"spec": {
        "nodeName": "n1",
        "serviceAccountName": "sa",
        "volumes": [
            {"name": "s", "secret": {"secretName": "s1"}},
            {"name": "m", "configMap": {"name": "m1"}},
            {"name": "c", "persistentVolumeClaim": {"claimName": "c1"}},
        ],
        "resourceClaims": [{"name": "g", "resourceClaimName": "r1"}],
    }});
    graph.set_pod("ns", "p1", Some(&pod));
    graph.set_volume("v1", Some(&value!({"spec": {"claimRef": {"namespace": "ns", "name": "c1"}}})));
    let on_node = value!({"spec": {"nodeName": "n1"}});
    graph.set_placed(VertexKind::VolumeAttachment, "", "va1", Some(&on_node));
    graph.set_placed(VertexKind::ResourceSlice, "", "slice1", Some(&on_node));
    graph.set_placed(VertexKind::PodCertificateRequest, "ns", "pcr1", Some(&on_node));
    graph
}

fn ask(user: &User, asked: &str) -> Decision {
    // verb group namespace resource[/subresource] [name] [field=value]; "-" is nothing.
    let words: Vec<&str> = asked.split(' ').map(|word| if word == "-" { "" } else { word }).collect();
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let (resource, subresource) = word(3).split_once('/').unwrap_or((word(3), ""));
    let selector = FieldSelector::parse(word(5)).unwrap();
    let attributes = Attributes {
        namespace: word(2),
        subresource,
        name: word(4),
        field_selector: Some(&selector),
        ..Attributes::resource(user, word(0), word(1), resource)
    };
    let graph = graph();
    authorize(&attributes, &node_rules(), || &graph)
}

/// `-` for allowed, else the reason.
#[track_caller]
fn check(asked: &str, reason: &str) {
    let user = User { name: "system:node:n1".into(), groups: vec![NODES.into()], ..User::default() };
    let expected = match reason {
        "-" => Decision::Allow(String::new()),
        reason => Decision::NoOpinion(reason.to_owned()),
    };
    assert_eq!(ask(&user, asked), expected, "{asked}");
}

const UNRELATED: &str = "no relationship found between node 'n1' and this object";

#[test]
fn objects_of_pods() {
    for resource in ["secrets", "configmaps"] {
        let name = if resource == "secrets" { "s1" } else { "m1" };
        for verb in ["get", "list", "watch"] {
            check(&format!("{verb} - ns {resource} {name}"), "-");
        }
        check(&format!("get - ns {resource} other"), UNRELATED);
        check(&format!("get - elsewhere {resource} {name}"), UNRELATED);
        check(&format!("list - ns {resource}"), "No Object name found");
        check(&format!("list - - {resource} {name}"), "can only read namespaced object of this type");
        check(&format!("update - ns {resource} {name}"), "can only read resources of this type");
        check(&format!("get - ns {resource}/status {name}"), "cannot read subresource");
    }
    check("get - ns persistentvolumeclaims c1", "-");
    check("list - ns persistentvolumeclaims c1", "can only get individual resources of this type");
    check("patch - ns persistentvolumeclaims/status c1", "-");
    check("get - ns persistentvolumeclaims/status c1", "can only get/update/patch this type");
    check("patch - ns persistentvolumeclaims/status c2", UNRELATED);
    check("get - - persistentvolumes v1", "-");
    check("get - - persistentvolumes v2", UNRELATED);
    check("get resource.k8s.io ns resourceclaims r1", "-");
    check("get resource.k8s.io ns resourceclaims/status r1", "cannot get subresource");
    check("get storage.k8s.io - volumeattachments va1", "-");
    check("list storage.k8s.io - volumeattachments", "can only get individual resources of this type");
    check("get - ns serviceaccounts sa", "-");
    check("get - ns serviceaccounts other", UNRELATED);
    check("list - ns serviceaccounts", "can only create tokens for individual service accounts");
    check("create - ns serviceaccounts/token sa", "-");
    check("create - ns serviceaccounts/token other", UNRELATED);
    check("create - ns serviceaccounts sa", "can only create token subresource of serviceaccount");
}

#[test]
fn the_node_itself() {
    check("get - - nodes n1", "-");
    check("watch - - nodes n1", "-");
    check("get - - nodes n2", "node 'n1' cannot read 'n2', only its own Node object");
    check("list - - nodes", "node 'n1' cannot read all nodes, only its own Node object");
    check("create - - nodes", "-");
    check("patch - - nodes/status n2", "-");
    check("delete - - nodes n1", "");
    check("get - - nodes/proxy n1", "");
    check("update coordination.k8s.io kube-node-lease leases n1", "-");
    check("create coordination.k8s.io kube-node-lease leases", "-");
    check(
        "update coordination.k8s.io kube-node-lease leases n2",
        "can only access node lease with the same name as the requesting node",
    );
    check(
        "get coordination.k8s.io kube-system leases n1",
        "can only access leases in the \"kube-node-lease\" system namespace",
    );
    check(
        "list coordination.k8s.io kube-node-lease leases",
        "can only get, create, update, patch, or delete a node lease",
    );
    check("get storage.k8s.io - csinodes n1", "-");
    check(
        "get storage.k8s.io - csinodes n2",
        "can only access CSINode with the same name as the requesting node",
    );
    check(
        "update storage.k8s.io - csinodes/status n1",
        "CSINode status access requires CSIVolumeHealth feature",
    );
}

#[test]
fn pods_and_what_is_on_the_node() {
    check("get - ns pods p1", "-");
    check("get - ns pods p2", UNRELATED);
    check("list - - pods - spec.nodeName=n1", "-");
    check("watch - - pods - spec.nodeName=n1,status.phase!=Failed", "-");
    for limited in ["", "spec.nodeName=n2", "spec.nodeName!=n1", "metadata.name=n1"] {
        let reason = "can only list/watch pods with spec.nodeName field selector";
        check(&format!("list - - pods - {limited}"), reason);
    }
    check("list - ns pods p1 metadata.name=p1", "-");
    check("create - ns pods", "-");
    check("delete - ns pods p2", "-");
    check("patch - ns pods/status p2", "-");
    check("create - ns pods/eviction p2", "-");
    check("get - ns pods/log p1", "");
    check("create - ns pods/exec p1", "");
    check("update - ns pods p1", "");
    check("deletecollection - ns pods", "");
    check("create resource.k8s.io - resourceslices", "-");
    check("update resource.k8s.io - resourceslices slice1", "-");
    check("update resource.k8s.io - resourceslices slice2", UNRELATED);
    check("deletecollection resource.k8s.io - resourceslices - spec.nodeName=n1", "-");
    check(
        "list resource.k8s.io - resourceslices",
        "can only list/watch/deletecollection resourceslices with nodeName field selector",
    );
    check("get certificates.k8s.io ns podcertificaterequests pcr1", "-");
    check("list certificates.k8s.io - podcertificaterequests - spec.nodeName=n1", "-");
    check(
        "delete certificates.k8s.io ns podcertificaterequests pcr1",
        "nodes may not delete podcertificaterequests",
    );
    check(
        "update certificates.k8s.io ns podcertificaterequests/status pcr1",
        "nodes may not access the status subresource of PodCertificateRequests",
    );
}

#[test]
fn other_requests_are_decided_by_the_rules_of_all_nodes() {
    check("list - - services", "-");
    check("create events.k8s.io ns events", "-");
    check("create authentication.k8s.io - tokenreviews", "-");
    check("get node.k8s.io - runtimeclasses x", "-");
    check("list apps ns deployments", "");
    check("create rbac.authorization.k8s.io - clusterrolebindings", "");
}

#[test]
fn users_that_are_not_nodes_are_ignored() {
    let user =
        |name: &str, group: &str| User { name: name.into(), groups: vec![group.into()], ..User::default() };
    let asked = "get - - nodes n1";
    assert_eq!(ask(&user("system:node:n1", "others"), asked), Decision::NoOpinion(String::new()));
    assert_eq!(ask(&user("jane", NODES), asked), Decision::NoOpinion(String::new()));
    let reason = "unknown node for user \"system:node:\"";
    assert_eq!(ask(&user("system:node:", NODES), asked), Decision::NoOpinion(reason.into()));
}
