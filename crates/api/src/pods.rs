//! Pods as several components read them: their lists of containers, their references to other objects, and the mirror
//! annotation.

use std::collections::HashMap;

use crate::{Str, Value};

/// The annotation of mirror pods: the kubelet creates them in the API for its static pods.
pub const MIRROR_ANNOTATION: &str = "kubernetes.io/config.mirror";

/// The fields of a pod spec that list containers, in the order in which they start.
pub const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// The fields of a volume that name a secret of the pod's namespace, apart from projections.
pub const VOLUME_SECRETS: [&[&str]; 10] = [
    &["azureFile", "secretName"],
    &["cephfs", "secretRef", "name"],
    &["cinder", "secretRef", "name"],
    &["csi", "nodePublishSecretRef", "name"],
    &["flexVolume", "secretRef", "name"],
    &["iscsi", "secretRef", "name"],
    &["rbd", "secretRef", "name"],
    &["scaleIO", "secretRef", "name"],
    &["secret", "secretName"],
    &["storageos", "secretRef", "name"],
];

/// True for a mirror pod.
pub fn is_mirror(pod: &Value) -> bool {
    pod.at(&["metadata", "annotations", MIRROR_ANNOTATION]).is_some()
}

/// All containers of a pod spec: init containers, regular ones, ephemeral ones.
pub fn containers(spec: &Value) -> impl Iterator<Item = &Value> {
    CONTAINER_LISTS.into_iter().flat_map(|list| spec.items_at(&[list]))
}

/// The kind of an object that a pod refers to by name, in its own namespace.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReferenceKind {
    ConfigMap,
    PersistentVolumeClaim,
    ResourceClaim,
    Secret,
    ServiceAccount,
}

/// A reference of a pod to another object of its namespace.
pub type Reference = (ReferenceKind, Str);

/// Every object that a pod refers to. `pod_name` is part of the names of claims that are created for ephemeral volumes.
pub fn references(pod: &Value, pod_name: &str) -> Vec<Reference> {
    let mut found = References(Vec::new());
    found.add(ReferenceKind::ServiceAccount, pod.str_at(&["spec", "serviceAccountName"]));
    for secret in pod.items_at(&["spec", "imagePullSecrets"]) {
        found.add(ReferenceKind::Secret, secret.str_at(&["name"]));
    }
    for container in pod.get("spec").into_iter().flat_map(containers) {
        found.container(container);
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        found.volume(volume, pod_name);
    }
    found.resource_claims(pod);
    found.0
}

/// The names of the secrets that a pod refers to.
pub fn secrets(pod: &Value) -> Vec<Str> {
    let references = references(pod, crate::meta::name(pod)).into_iter();
    references.filter(|(kind, _)| *kind == ReferenceKind::Secret).map(|(_, name)| name).collect()
}

struct References(Vec<Reference>);

impl References {
    fn add(&mut self, kind: ReferenceKind, name: Option<&str>) {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.0.push((kind, Str::new(name)));
        }
    }

    fn container(&mut self, container: &Value) {
        for source in container.items_at(&["envFrom"]) {
            self.add(ReferenceKind::Secret, source.str_at(&["secretRef", "name"]));
            self.add(ReferenceKind::ConfigMap, source.str_at(&["configMapRef", "name"]));
        }
        for variable in container.items_at(&["env"]) {
            self.add(ReferenceKind::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
            self.add(ReferenceKind::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
        }
    }

    fn volume(&mut self, volume: &Value, pod_name: &str) {
        for path in VOLUME_SECRETS {
            self.add(ReferenceKind::Secret, volume.str_at(path));
        }
        self.add(ReferenceKind::ConfigMap, volume.str_at(&["configMap", "name"]));
        for source in volume.items_at(&["projected", "sources"]) {
            self.add(ReferenceKind::Secret, source.str_at(&["secret", "name"]));
            self.add(ReferenceKind::ConfigMap, source.str_at(&["configMap", "name"]));
        }
        let claim = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        self.add(ReferenceKind::PersistentVolumeClaim, claim);
        if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_some() {
            let made = format!("{pod_name}-{}", volume.str_at(&["name"]).unwrap_or_default());
            self.add(ReferenceKind::PersistentVolumeClaim, Some(&made));
        }
    }

    /// A claim is named by the pod, or by the status once it was made from a template.
    fn resource_claims(&mut self, pod: &Value) {
        let mut made_for: HashMap<Option<&str>, Option<&str>> = HashMap::new();
        for status in pod.items_at(&["status", "resourceClaimStatuses"]) {
            made_for.entry(status.str_at(&["name"])).or_insert(status.str_at(&["resourceClaimName"]));
        }
        for claim in pod.items_at(&["spec", "resourceClaims"]) {
            let direct = claim.str_at(&["resourceClaimName"]);
            let made = made_for.get(&claim.str_at(&["name"])).copied().flatten();
            self.add(ReferenceKind::ResourceClaim, direct.or(made));
        }
        let extended = pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
        self.add(ReferenceKind::ResourceClaim, extended);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value;

    #[test]
    fn every_reference_of_a_pod_is_found() {
        let pod = value!({
            "spec": {
                "imagePullSecrets": [{"name": "pull"}, {"name": ""}],
                "initContainers": [{"envFrom": [{"secretRef": {"name": "init"}}]}],
                "containers": [{"env": [
                    {"name": "a", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}},
                    {"name": "b", "valueFrom": {"configMapKeyRef": {"name": "env", "key": "k"}}},
                ]}],
                "ephemeralContainers": [{"envFrom": [{"configMapRef": {"name": "debug"}}]}],
                "volumes": [
                    {"name": "csi", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
                    {"name": "all", "projected": {"sources": [
                        {"secret": {"name": "part"}}, {"configMap": {"name": "part"}},
                    ]}},
                    {"name": "scratch", "ephemeral": {}},
                ],
                "resourceClaims": [
                    {"name": "gpu", "resourceClaimName": "direct"},
                    {"name": "nic", "resourceClaimTemplateName": "t"},
                    {"name": "unmade", "resourceClaimTemplateName": "t"},
                ],
            },
            "status": {
                "resourceClaimStatuses": [{"name": "nic", "resourceClaimName": "made"}],
                "extendedResourceClaimStatus": {"resourceClaimName": "extended"},
            },
        });
        let mut found: Vec<String> =
            references(&pod, "p").iter().map(|(kind, name)| format!("{kind:?} {name}")).collect();
        found.sort();
        let expected = [
            "ConfigMap debug",
            "ConfigMap env",
            "ConfigMap part",
            "PersistentVolumeClaim p-scratch",
            "ResourceClaim direct",
            "ResourceClaim extended",
            "ResourceClaim made",
            "Secret csi",
            "Secret env",
            "Secret init",
            "Secret part",
            "Secret pull",
        ];
        assert_eq!(found, expected);
        assert_eq!(secrets(&pod), ["pull", "init", "env", "csi", "part"]);
    }

    #[test]
    fn containers_of_all_lists_come_in_order() {
        let spec = value!({
            "containers": [{"name": "b"}], "ephemeralContainers": [{"name": "c"}],
            "initContainers": [{"name": "a"}],
        });
        let names: Vec<_> = containers(&spec).filter_map(|container| container.str_at(&["name"])).collect();
        assert_eq!(names, ["a", "b", "c"]);
    }
}
