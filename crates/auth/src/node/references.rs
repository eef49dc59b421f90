//! What pods and persistent volumes name that a node has to read for them.

use std::collections::HashMap;

use corten_api::{Str, Value, meta};

use super::graph::{Vertex, VertexKind};

const MIRROR: [&str; 3] = ["metadata", "annotations", "kubernetes.io/config.mirror"];

/// Volumes that name a secret of the pod's namespace, and where.
const SECRET_VOLUMES: [&[&str]; 10] = [
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

/// Sources of persistent volumes that name a secret nodes use, and where.
const VOLUME_SECRETS: [&[&str]; 10] = [
    &["cephfs", "secretRef"],
    &["cinder", "secretRef"],
    &["csi", "nodeExpandSecretRef"],
    &["csi", "nodePublishSecretRef"],
    &["csi", "nodeStageSecretRef"],
    &["flexVolume", "secretRef"],
    &["iscsi", "secretRef"],
    &["rbd", "secretRef"],
    &["scaleIO", "secretRef"],
    &["storageos", "secretRef"],
];
/// Of these, the ones whose reference must say its namespace; the others' may leave it to the claim.
const NO_DEFAULT_NAMESPACE: [&str; 3] = ["cinder", "csi", "storageos"];

/// What a bound pod names. A mirror pod, which a node makes itself, must not open anything to that node.
pub(super) fn of_pod(pod: &Value, namespace: &str, pod_name: &str) -> Vec<Vertex> {
    if pod.at(&MIRROR).is_some() {
        return Vec::new();
    }
    named_by(pod, namespace, pod_name)
}

/// The names of the secrets that a pod uses.
pub fn secrets_of_pod(pod: &Value) -> Vec<Str> {
    let named = named_by(pod, meta::namespace(pod), meta::name(pod));
    named.into_iter().filter(|vertex| vertex.kind == VertexKind::Secret).map(|vertex| vertex.name).collect()
}

fn named_by(pod: &Value, namespace: &str, pod_name: &str) -> Vec<Vertex> {
    let mut found = Found { namespace, vertices: Vec::new() };
    found.add(VertexKind::ServiceAccount, pod.str_at(&["spec", "serviceAccountName"]));
    for secret in pod.items_at(&["spec", "imagePullSecrets"]) {
        found.add(VertexKind::Secret, secret.str_at(&["name"]));
    }
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        pod.items_at(&["spec", kind]).iter().for_each(|container| found.container(container));
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        found.volume(volume, pod_name);
    }
    found.resource_claims(pod);
    found.vertices
}

struct Found<'a> {
    namespace: &'a str,
    vertices: Vec<Vertex>,
}

impl Found<'_> {
    fn add(&mut self, kind: VertexKind, name: Option<&str>) {
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            self.vertices.push(Vertex::new(kind, self.namespace, name));
        }
    }

    fn container(&mut self, container: &Value) {
        for source in container.items_at(&["envFrom"]) {
            self.add(VertexKind::Secret, source.str_at(&["secretRef", "name"]));
            self.add(VertexKind::ConfigMap, source.str_at(&["configMapRef", "name"]));
        }
        for variable in container.items_at(&["env"]) {
            self.add(VertexKind::Secret, variable.str_at(&["valueFrom", "secretKeyRef", "name"]));
            self.add(VertexKind::ConfigMap, variable.str_at(&["valueFrom", "configMapKeyRef", "name"]));
        }
    }

    fn volume(&mut self, volume: &Value, pod_name: &str) {
        for path in SECRET_VOLUMES {
            self.add(VertexKind::Secret, volume.str_at(path));
        }
        self.add(VertexKind::ConfigMap, volume.str_at(&["configMap", "name"]));
        for source in volume.items_at(&["projected", "sources"]) {
            self.add(VertexKind::Secret, source.str_at(&["secret", "name"]));
            self.add(VertexKind::ConfigMap, source.str_at(&["configMap", "name"]));
        }
        let claim = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        self.add(VertexKind::PersistentVolumeClaim, claim);
        if volume.get("persistentVolumeClaim").is_none() && volume.get("ephemeral").is_some() {
            let made = format!("{pod_name}-{}", volume.str_at(&["name"]).unwrap_or_default());
            self.add(VertexKind::PersistentVolumeClaim, Some(&made));
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
            self.add(VertexKind::ResourceClaim, direct.or(made));
        }
        let extended = pod.str_at(&["status", "extendedResourceClaimStatus", "resourceClaimName"]);
        self.add(VertexKind::ResourceClaim, extended);
    }
}

/// The secrets a node needs to mount a volume.
pub(super) fn secrets_of_volume(volume: &Value, claim_namespace: &str) -> Vec<Vertex> {
    let mut secrets = Vec::new();
    let mut add = |namespace: Option<&str>, default: &str, name: Option<&str>| {
        let namespace = namespace.filter(|n| !n.is_empty()).unwrap_or(default);
        if let Some(name) = name.filter(|name| !name.is_empty()) {
            secrets.push(Vertex::new(VertexKind::Secret, namespace, name));
        }
    };
    let text = |path: &[&str]| volume.at(&["spec"])?.str_at(path);
    let azure = |field| text(&["azureFile", field]);
    add(azure("secretNamespace"), claim_namespace, azure("secretName"));
    for path in VOLUME_SECRETS {
        let [source, reference] = path else { continue };
        let default = if NO_DEFAULT_NAMESPACE.contains(source) { "" } else { claim_namespace };
        add(text(&[source, reference, "namespace"]), default, text(&[source, reference, "name"]));
    }
    secrets
}

#[cfg(test)]
mod tests {
    use super::*;
    use corten_api::value;

    fn shown(vertices: &[Vertex]) -> Vec<String> {
        let show = |v: &Vertex| format!("{:?} {}/{}", v.kind, v.namespace, v.name);
        let mut all: Vec<String> = vertices.iter().map(show).collect();
        all.sort();
        all
    }

    #[test]
    fn pods_name_what_they_use() {
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
        assert_eq!(
            shown(&of_pod(&pod, "ns", "p")),
            [
                "ConfigMap ns/debug",
                "ConfigMap ns/env",
                "ConfigMap ns/part",
                "PersistentVolumeClaim ns/p-scratch",
                "ResourceClaim ns/direct",
                "ResourceClaim ns/extended",
                "ResourceClaim ns/made",
                "Secret ns/csi",
                "Secret ns/env",
                "Secret ns/init",
                "Secret ns/part",
                "Secret ns/pull",
            ]
        );
    }

    #[test]
    fn volumes_name_secrets_here_and_there() {
        let volume = value!({"spec": {
            "rbd": {"secretRef": {"name": "local"}},
            "csi": {
                "nodeStageSecretRef": {"namespace": "vault", "name": "stage"},
                "controllerPublishSecretRef": {"namespace": "vault", "name": "controller"},
            },
            "azureFile": {"secretName": "azure", "secretNamespace": "cloud"},
        }});
        assert_eq!(
            shown(&secrets_of_volume(&volume, "ns")),
            ["Secret cloud/azure", "Secret ns/local", "Secret vault/stage"]
        );
    }
}
