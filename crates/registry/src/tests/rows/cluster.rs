//! Rows of cluster resources: nodes, networks, storage, access.

use corten_api::{Value, value};

use super::check;

#[test]
fn nodes() {
    let ready = |status: &str| value!([{"type": "Ready", "status": status}]);
    let node = value!({
        "metadata": {"labels": {
            "node-role.kubernetes.io/control-plane": "", "node-role.kubernetes.io/": "",
            "kubernetes.io/role": "edge", "other": "x",
        }},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": (ready("True")),
            "addresses": [
                {"type": "Hostname", "address": "h"}, {"type": "InternalIP", "address": "10.0.0.1"},
                {"type": "InternalIP", "address": "fd00::1"},
            ],
            "nodeInfo": {
                "kubeletVersion": "v1.37.0", "osImage": "Linux", "kernelVersion": "6.1",
                "architecture": "amd64", "containerRuntimeVersion": "containerd://2",
            },
        },
    });
    check(
        "",
        "nodes",
        &[
            (
                node,
                "x | Ready,SchedulingDisabled | control-plane,edge | 120m | v1.37.0 | 10.0.0.1 | <none> | Linux | 6.1 (amd64) | containerd://2",
            ),
            (
                value!({"status": {"conditions": (ready("Unknown"))}}),
                "x | NotReady | <none> | 120m |  | <none> | <none> | <unknown> | <unknown> | <unknown>",
            ),
            (
                value!({}),
                "x | Unknown | <none> | 120m |  | <none> | <none> | <unknown> | <unknown> | <unknown>",
            ),
        ],
    );
}

#[test]
fn services_and_endpoints() {
    let service = |spec: Value, balancers: Value| value!({"spec": spec, "status": {"loadBalancer": {"ingress": balancers}}});
    let ports = value!([
        {"port": 80, "protocol": "TCP"}, {"port": 443, "nodePort": 30443, "protocol": "TCP"},
    ]);
    let table = [
        (
            service(value!({"type": "ClusterIP", "clusterIPs": ["10.0.0.1", "fd00::1"]}), value!([])),
            "x | ClusterIP | 10.0.0.1 | <none> | <none> | 120m | <none>",
        ),
        (
            service(
                value!({"type": "ClusterIP", "clusterIPs": ["None"], "externalIPs": ["1.1.1.1", "2.2.2.2"]}),
                value!([]),
            ),
            "x | ClusterIP | None | 1.1.1.1,2.2.2.2 | <none> | 120m | <none>",
        ),
        (
            service(
                value!({"type": "NodePort", "ports": (ports.clone()), "selector": {"a": "b"}}),
                value!([]),
            ),
            "x | NodePort | <none> | <none> | 80/TCP,443:30443/TCP | 120m | a=b",
        ),
        (
            service(value!({"type": "LoadBalancer"}), value!([])),
            "x | LoadBalancer | <none> | <pending> | <none> | 120m | <none>",
        ),
        (
            service(
                value!({"type": "LoadBalancer"}),
                value!([{"ip": "9.9.9.9"}, {"hostname": "a.example"}, {"ip": "1.1.1.1"}, {"ip": "1.1.1.1"}]),
            ),
            "x | LoadBalancer | <none> | 1.1.1.1,9.9.9.9,a.example | <none> | 120m | <none>",
        ),
        (
            service(
                value!({"type": "LoadBalancer", "externalIPs": ["3.3.3.3"]}),
                value!([{"ip": "9.9.9.9"}]),
            ),
            "x | LoadBalancer | <none> | 9.9.9.9,3.3.3.3 | <none> | 120m | <none>",
        ),
        (
            service(value!({"type": "LoadBalancer", "externalIPs": ["3.3.3.3"]}), value!([])),
            "x | LoadBalancer | <none> | 3.3.3.3 | <none> | 120m | <none>",
        ),
        (
            service(value!({"type": "ExternalName", "externalName": "e.example"}), value!([])),
            "x | ExternalName | <none> | e.example | <none> | 120m | <none>",
        ),
        (value!({}), "x |  | <none> | <unknown> | <none> | 120m | <none>"),
    ];
    check("", "services", &table);

    let addresses = value!([{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]);
    check(
        "",
        "endpoints",
        &[
            (value!({}), "x | <none> | 120m"),
            (value!({"subsets": [{"addresses": (addresses.clone())}]}), "x | 10.0.0.1,fd00::1 | 120m"),
            (
                value!({"subsets": [{"addresses": (addresses.clone()), "ports": [{"port": 80}, {"port": 443}]}]}),
                "x | 10.0.0.1:80,[fd00::1]:80,10.0.0.1:443 + 1 more... | 120m",
            ),
            (value!({"subsets": [{"notReadyAddresses": [{}], "ports": [{"port": 80}]}]}), "x |  | 120m"),
        ],
    );
    let slice = value!({
        "addressType": "IPv4",
        "ports": [{"port": 80}, {"name": "any"}, {}, {"port": 1}, {"port": 2}],
        "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2"]}],
    });
    check(
        "discovery.k8s.io",
        "endpointslices",
        &[
            (slice, "x | IPv4 | 80,any,* + 2 more... | 10.0.0.1,10.0.0.2 | 120m"),
            (value!({}), "x |  | <unset> | <unset> | 120m"),
        ],
    );
}

#[test]
fn ingresses_and_addresses() {
    let rules = |hosts: &[&str]| hosts.iter().map(|h| value!({"host": (*h)})).collect::<Vec<_>>();
    let ingress = |hosts: &[&str]| value!({"spec": {"rules": (rules(hosts))}});
    let full = value!({
        "spec": {"ingressClassName": "nginx", "rules": [{"host": "a.example"}], "tls": [{}]},
        "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
    });
    check(
        "networking.k8s.io",
        "ingresses",
        &[
            (full, "x | nginx | a.example | 1.2.3.4 | 80, 443 | 120m"),
            (value!({}), "x | <none> | * |  | 80 | 120m"),
            (ingress(&["a", "", "b", "c"]), "x | <none> | a,b,c |  | 80 | 120m"),
            (ingress(&["a", "b", "c", "d", "e"]), "x | <none> | a,b,c + 2 more... |  | 80 | 120m"),
        ],
    );
    let default = value!({
        "metadata": {"annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
        "spec": {"controller": "c", "parameters": {"apiGroup": "k.io", "kind": "P", "name": "n"}},
    });
    check(
        "networking.k8s.io",
        "ingressclasses",
        &[(default, "x (default) | c | P.k.io/n | 120m"), (value!({}), "x |  | <none> | 120m")],
    );
    let parent = value!({"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}});
    let foreign = value!({"spec": {"parentRef": {"group": "g.io", "resource": "things", "name": "s"}}});
    check(
        "networking.k8s.io",
        "ipaddresses",
        &[
            (parent, "x | services/n/s | 120m"),
            (foreign, "x | things.g.io/s | 120m"),
            (value!({}), "x | <none> | 120m"),
        ],
    );
    let cidr = value!({"spec": {"cidrs": ["10.0.0.0/16", "fd00::/64"]}});
    check("networking.k8s.io", "servicecidrs", &[(cidr, "x | 10.0.0.0/16,fd00::/64 | 120m")]);
    check(
        "networking.k8s.io",
        "networkpolicies",
        &[(value!({"spec": {"podSelector": {}}}), "x | <none> | 120m")],
    );
}

#[test]
fn volumes() {
    let volume = value!({
        "spec": {
            "capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteMany", "ReadWriteOnce"],
            "persistentVolumeReclaimPolicy": "Retain", "claimRef": {"namespace": "n", "name": "c"},
            "storageClassName": "fast", "volumeMode": "Filesystem",
        },
        "status": {"phase": "Bound", "reason": "why"},
    });
    let old = value!({
        "metadata": {
            "deletionTimestamp": "2024-01-01T12:00:00Z",
            "annotations": {"volume.beta.kubernetes.io/storage-class": "beta"},
        },
    });
    check(
        "",
        "persistentvolumes",
        &[
            (volume, "x | 4Gi | RWO,RWX | Retain | Bound | n/c | fast | <unset> | why | 120m | Filesystem"),
            (old, "x | 0 |  |  | Terminating |  | beta | <unset> |  | 120m | <unset>"),
        ],
    );
    let claim = |name: &str| {
        value!({
            "spec": {"volumeName": name, "storageClassName": "fast", "volumeAttributesClassName": "gold"},
            "status": {"phase": "Bound", "capacity": {"storage": "4Gi"}, "accessModes": ["ReadWriteOncePod"]},
        })
    };
    check(
        "",
        "persistentvolumeclaims",
        &[
            (claim("pv"), "x | Bound | pv | 4Gi | RWOP | fast | gold | 120m | <unset>"),
            (claim(""), "x | Bound |  |  |  | fast | gold | 120m | <unset>"),
        ],
    );
    check(
        "storage.k8s.io",
        "csidrivers",
        &[
            (value!({}), "x | true | false | false | <unset> | false | <none> | 120m"),
            (
                value!({"spec": {
                    "attachRequired": false, "tokenRequests": [{"audience": "a"}, {"audience": "b"}],
                    "volumeLifecycleModes": ["Persistent", "Ephemeral"],
                }}),
                "x | false | false | false | a,b | false | Persistent,Ephemeral | 120m",
            ),
        ],
    );
    check(
        "storage.k8s.io",
        "storageclasses",
        &[(value!({"provisioner": "p"}), "x | p | Delete | Immediate | false | 120m")],
    );
    check(
        "",
        "resourcequotas",
        &[(
            value!({"status": {
                "hard": {"limits.cpu": "4", "pods": "10", "requests.cpu": "2"}, "used": {"pods": "3", "limits.cpu": "1"},
            }}),
            "x | pods: 3/10, requests.cpu: 0/2 | limits.cpu: 1/4 | 120m",
        )],
    );
}

#[test]
fn access() {
    let condition = |kind: &str| value!({"type": kind});
    let csr = |conditions: Vec<Value>, certificate: &str| {
        value!({
            "spec": {"signerName": "k.io/s", "username": "ann", "expirationSeconds": 3600},
            "status": {"conditions": conditions, "certificate": certificate},
        })
    };
    check(
        "certificates.k8s.io",
        "certificatesigningrequests",
        &[
            (value!({}), "x | 120m | <none> |  | <none> | Pending"),
            (csr(vec![condition("Approved")], ""), "x | 120m | k.io/s | ann | 60m | Approved"),
            (csr(vec![condition("Approved")], "Yw=="), "x | 120m | k.io/s | ann | 60m | Approved,Issued"),
            (
                csr(vec![condition("Approved"), condition("Denied")], ""),
                "x | 120m | k.io/s | ann | 60m | Denied",
            ),
            (
                csr(vec![condition("Approved"), condition("Failed")], ""),
                "x | 120m | k.io/s | ann | 60m | Approved,Failed",
            ),
        ],
    );
    let binding = value!({
        "roleRef": {"kind": "ClusterRole", "name": "view"},
        "subjects": [
            {"kind": "User", "name": "ann"}, {"kind": "Group", "name": "g"}, {"kind": "User", "name": "bob"},
            {"kind": "ServiceAccount", "namespace": "n", "name": "sa"},
        ],
    });
    let cells = "x | ClusterRole/view | 120m | ann, bob | g | n/sa";
    check("rbac.authorization.k8s.io", "rolebindings", &[(binding.clone(), cells)]);
    check("rbac.authorization.k8s.io", "clusterrolebindings", &[(binding, cells)]);
    check("rbac.authorization.k8s.io", "roles", &[(value!({}), "x | 2024-01-01T10:00:00Z")]);
    check(
        "",
        "secrets",
        &[(value!({"type": "Opaque", "data": {"a": "", "b": ""}}), "x | Opaque | 2 | 120m")],
    );
    check("", "configmaps", &[(value!({"data": {"a": ""}, "binaryData": {"b": ""}}), "x | 2 | 120m")]);
}

#[test]
fn events() {
    let event = value!({
        "metadata": {"name": "e"}, "type": "Warning", "reason": "Failed", "message": " it broke\n",
        "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
        "source": {"component": "kubelet", "host": "n1"},
        "firstTimestamp": "2024-01-01T11:00:00Z", "lastTimestamp": "2024-01-01T11:59:00Z", "count": 6,
    });
    let single = value!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod"}, "reportingComponent": "sched",
        "eventTime": "2024-01-01T11:59:30.000000Z",
    });
    let series = value!({
        "metadata": {"name": "e"}, "involvedObject": {"kind": "Pod", "name": "p"},
        "eventTime": "2024-01-01T11:00:00.000000Z",
        "series": {"count": 9, "lastObservedTime": "2024-01-01T11:58:00.000000Z"},
    });
    let table = [
        (event, "60s | Warning | Failed | pod/p | spec | kubelet, n1 | it broke | 60m | 6 | e"),
        (single, "30s |  |  | pod |  | sched |  | 30s | 1 | e"),
        (series, "2m |  |  | pod/p |  |  |  | 60m | 9 | e"),
        (value!({"metadata": {"name": "e"}}), "<unknown> |  |  |  |  |  |  | <unknown> | 1 | e"),
    ];
    check("", "events", &table);
    check("events.k8s.io", "events", &table);
}

#[test]
fn the_control_plane() {
    let available = |status: &str, reason: &str| {
        value!({
            "spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [{"type": "Available", "status": status, "reason": reason}]},
        })
    };
    check(
        "apiregistration.k8s.io",
        "apiservices",
        &[
            (value!({}), "x | Local | Unknown | 120m"),
            (available("True", "Passed"), "x | n/s | True | 120m"),
            (available("False", "MissingEndpoints"), "x | n/s | False (MissingEndpoints) | 120m"),
            (available("False", ""), "x | n/s | False | 120m"),
        ],
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "flowschemas",
        &[
            (value!({}), "x |  | 0 | <none> | 120m | ?"),
            (
                value!({
                    "spec": {
                        "priorityLevelConfiguration": {"name": "pl"}, "matchingPrecedence": 500,
                        "distinguisherMethod": {"type": "ByUser"},
                    },
                    "status": {"conditions": [{"type": "Dangling", "status": "False"}]},
                }),
                "x | pl | 500 | ByUser | 120m | False",
            ),
        ],
    );
    check(
        "flowcontrol.apiserver.k8s.io",
        "prioritylevelconfigurations",
        &[
            (value!({"spec": {"type": "Exempt"}}), "x | Exempt | <none> | <none> | <none> | <none> | 120m"),
            (
                value!({"spec": {"type": "Limited", "limited": {
                    "nominalConcurrencyShares": 30,
                    "limitResponse": {"type": "Queue", "queuing": {"queues": 64, "handSize": 6, "queueLengthLimit": 50}},
                }}}),
                "x | Limited | 30 | 64 | 6 | 50 | 120m",
            ),
        ],
    );
    check(
        "",
        "componentstatuses",
        &[
            (value!({}), "x | Unknown |  | "),
            (
                value!({"conditions": [{"type": "Healthy", "status": "False", "message": "m", "error": "e"}]}),
                "x | Unhealthy | m | e",
            ),
        ],
    );
    check(
        "storagemigration.k8s.io",
        "storageversionmigrations",
        &[(
            value!({
                "spec": {"resource": {"group": "apps", "resource": "deployments"}},
                "status": {"conditions": [
                    {"type": "Running", "status": "False"}, {"type": "Succeeded", "status": "True"},
                ]},
            }),
            "x | deployments.apps | Succeeded",
        )],
    );
    check(
        "internal.apiserver.k8s.io",
        "storageversions",
        &[(
            value!({"status": {"storageVersions": [{"apiServerID": "a", "encodingVersion": "v1"}]}}),
            "x | <unset> | a=v1 | 120m",
        )],
    );
}

#[test]
fn customresourcedefinitions() {
    let crd = value!({
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"kind": "Index", "shortNames": ["ix", "idx"]},
            "versions": [
                {"name": "v1beta1", "served": true}, {"name": "v1", "served": true, "storage": true},
                {"name": "v0", "served": false},
            ],
        },
        "status": {"conditions": [{"type": "Established", "status": "True"}]},
    });
    let row =
        "x | Cluster | v1(storage),v1beta1 | 2024-01-01T10:00:00Z | example.com | Index | ix,idx | true";
    check("apiextensions.k8s.io", "customresourcedefinitions", &[(crd, row)]);
}
