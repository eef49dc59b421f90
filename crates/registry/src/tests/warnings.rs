//! Warnings about accepted objects, as an upstream API server returns them.

use corten_api::{Value, value};

use crate::rules;

fn warnings(group: &str, resource: &str, mut object: Value) -> Vec<String> {
    let rules = rules(group, resource).expect("every resource has rules");
    (rules.default)(&mut object);
    (rules.warnings)(&object, None)
}

#[test]
fn of_services() {
    let of = |object: Value| warnings("", "services", object);
    assert_eq!(
        of(value!({"spec": {
            "ports": [{"port": 80}], "externalIPs": ["2001:DB8::1"], "externalName": "x",
            "trafficDistribution": "PreferClose", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
        }})),
        [
            "spec.externalIPs[0]: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")",
            "spec.externalIPs is deprecated and may no longer be implemented in some clusters",
            "spec.externalName is ignored when spec.type is not \"ExternalName\"",
            "spec.trafficDistribution: \"PreferClose\" is deprecated; use \"PreferSameZone\"",
        ]
    );
    assert_eq!(
        of(value!({"spec": {
            "clusterIP": "None", "clusterIPs": ["None"], "externalIPs": ["1.2.3.4"],
            "sessionAffinity": "ClientIP", "loadBalancerIP": "1.2.3.4",
        }})),
        [
            "spec.loadBalancerIP is ignored for headless services",
            "spec.externalIPs is ignored for headless services",
            "spec.SessionAffinity is ignored for headless services",
        ]
    );
    assert_eq!(
        of(value!({"spec": {"type": "ExternalName", "externalName": "a.b", "externalIPs": ["1.2.3.4"]}})),
        ["spec.externalIPs is ignored when spec.type is \"ExternalName\""]
    );
    assert_eq!(
        of(value!({"spec": {
            "type": "LoadBalancer", "loadBalancerIP": "01.2.3.4", "loadBalancerSourceRanges": ["2001:DB8::/64"],
        }})),
        [
            "spec.loadBalancerIP: non-standard IP address \"01.2.3.4\" is invalid: use \"1.2.3.4\"",
            "spec.loadBalancerSourceRanges[0]: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
        ]
    );
    assert_eq!(
        of(value!({"metadata": {"annotations": {"service.kubernetes.io/topology-aware-hints": "Auto"}}})),
        [
            "annotation service.kubernetes.io/topology-aware-hints is deprecated, please use service.kubernetes.io/topology-mode instead"
        ]
    );
}

#[test]
fn of_endpoints_and_nodes() {
    assert_eq!(
        warnings("", "endpoints", value!({"subsets": [{"addresses": [{"ip": "2001:DB8::1"}]}]})),
        [
            "subsets[0].addresses[0].ip: IPv6 address \"2001:DB8::1\" should be in RFC 5952 canonical format (\"2001:db8::1\")"
        ]
    );
    let slice = value!({"addressType": "FQDN", "endpoints": [{"addresses": ["a.b"]}]});
    assert_eq!(
        warnings("discovery.k8s.io", "endpointslices", slice),
        ["spec.addressType: FQDN endpoints are deprecated"]
    );
    assert_eq!(
        warnings("", "nodes", value!({"spec": {"externalID": "x", "podCIDRs": ["2001:DB8::/64"]}})),
        [
            "spec.externalID: this field is deprecated, and is unused by Kubernetes",
            "spec.podCIDRs[0]: IPv6 CIDR value \"2001:DB8::/64\" should be in RFC 5952 canonical format (\"2001:db8::/64\")",
        ]
    );
}

#[test]
fn of_volumes_and_claims() {
    let volume = value!({
        "metadata": {"annotations": {
            "volume.beta.kubernetes.io/storage-class": "x", "volume.beta.kubernetes.io/mount-options": "ro",
        }},
        "spec": {
            "persistentVolumeReclaimPolicy": "Recycle", "rbd": {"monitors": ["a"], "image": "b"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "beta.kubernetes.io/os", "operator": "Exists"}]},
            ]}},
        },
    });
    assert_eq!(
        warnings("", "persistentvolumes", volume),
        [
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
            "metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use \"mountOptions\" attribute instead",
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.",
            "spec.nodeAffinity.required.nodeSelectorTerms[0].matchExpressions[0].key: beta.kubernetes.io/os is deprecated since v1.14; use \"kubernetes.io/os\" instead",
            "spec.rbd: deprecated in v1.28, non-functional in v1.31+",
        ]
    );
    let claim = value!({
        "metadata": {"annotations": {"volume.beta.kubernetes.io/storage-class": "x"}},
        "spec": {"resources": {"requests": {"storage": "1500m"}, "limits": {"storage": "2500m"}}},
    });
    assert_eq!(
        warnings("", "persistentvolumeclaims", claim),
        [
            "metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use \"storageClassName\" attribute instead",
            "spec.resources.requests[storage]: fractional byte value \"1500m\" is invalid, must be an integer",
            "spec.resources.limits[storage]: fractional byte value \"2500m\" is invalid, must be an integer",
        ]
    );
}

#[test]
fn of_changed_workloads() {
    let changed = |group: &str, resource: &str, mut object: Value, mut old: Value| {
        let rules = rules(group, resource).expect("every resource has rules");
        (rules.default)(&mut object);
        (rules.default)(&mut old);
        old.set(&["metadata", "generation"], 1);
        object.set(&["metadata", "generation"], 2);
        (rules.warnings)(&object, Some(&old))
    };
    let set = || value!({"spec": {"volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "1500m"}}}}]}});
    let fractional = "fractional byte value \"1500m\" is invalid, must be an integer";
    assert_eq!(
        warnings("apps", "statefulsets", set()),
        [format!("spec.volumeClaimTemplates[0].resources.requests[storage]: {fractional}")]
    );
    assert_eq!(
        changed("apps", "statefulsets", set(), set()),
        [format!("spec.volumeClaimTemplates[0].Spec.resources.requests[storage]: {fractional}")]
    );
    // Upstream warns about the template that is replaced.
    let controller =
        |grace: i64| value!({"spec": {"template": {"spec": {"terminationGracePeriodSeconds": (grace)}}}});
    let negative = "spec.template.spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1";
    assert_eq!(changed("", "replicationcontrollers", controller(-5), controller(30)), [""; 0]);
    assert_eq!(changed("", "replicationcontrollers", controller(30), controller(-5)), [negative]);
}

#[test]
fn of_classes_and_drivers() {
    let storage = |resource: &str, object: Value| warnings("storage.k8s.io", resource, object);
    let zone = "failure-domain.beta.kubernetes.io/zone";
    assert_eq!(
        storage(
            "storageclasses",
            value!({"allowedTopologies": [{"matchLabelExpressions": [{"key": zone, "values": ["a"]}]}]})
        ),
        [
            "allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use \"topology.kubernetes.io/zone\" instead"
        ]
    );
    assert_eq!(
        storage(
            "csistoragecapacities",
            value!({"nodeTopology": {
                "matchLabels": {"beta.kubernetes.io/os": "a"},
                "matchExpressions": [{"key": "beta.kubernetes.io/arch", "operator": "Exists"}],
            }})
        ),
        [
            "nodeTopology.matchExpressions[0].key: beta.kubernetes.io/arch is deprecated since v1.14; use \"kubernetes.io/arch\" instead",
            "nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        ]
    );
    assert_eq!(
        storage("csidrivers", value!({"spec": {"tokenRequests": [{"audience": "a"}]}})),
        [
            "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes"
        ]
    );
}

#[test]
fn of_quotas_accounts_and_secrets() {
    assert_eq!(
        warnings(
            "",
            "resourcequotas",
            value!({"spec": {"hard": {
                "cpu": "2", "limits.cpu": "1", "requests.memory": "1Gi", "limits.memory": "1Mi",
            }}})
        ),
        [
            "ResourceQuota cpu (2) should be less than limits.cpu (1)",
            "ResourceQuota requests.memory (1Gi) should be less than limits.memory (1Mi)",
        ]
    );
    let annotations = value!({"kubernetes.io/enforce-mountable-secrets": "true"});
    assert_eq!(
        warnings("", "serviceaccounts", value!({"metadata": {"annotations": annotations}})),
        [
            "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
        ]
    );
    assert_eq!(
        warnings(
            "",
            "secrets",
            value!({"type": "kubernetes.io/tls", "data": {"tls.crt": "", "tls.key": ""}})
        ),
        ["tls: failed to find any PEM data in certificate input"]
    );
}
