//! The objects that pods and persistent volumes reference, and that their node may read.

use corten_api::pods::{self, ReferenceKind};
use corten_api::{Str, Value};

use super::graph::{Vertex, VertexKind};

/// The fields of persistent volumes that reference a secret that nodes use.
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
/// The sources whose reference must have a namespace; the others default to the claim's.
const NO_DEFAULT_NAMESPACE: [&str; 3] = ["cinder", "csi", "storageos"];

/// The objects that a bound pod refers to. A mirror pod grants its node nothing, because the node creates it itself.
pub(super) fn of_pod(pod: &Value, namespace: &str, pod_name: &str) -> Vec<Vertex> {
    if pods::is_mirror(pod) {
        return Vec::new();
    }
    let vertex = |(kind, name): (ReferenceKind, Str)| Vertex::new(vertex_kind(kind), namespace, &name);
    pods::references(pod, pod_name).into_iter().map(vertex).collect()
}

fn vertex_kind(kind: ReferenceKind) -> VertexKind {
    match kind {
        ReferenceKind::ConfigMap => VertexKind::ConfigMap,
        ReferenceKind::PersistentVolumeClaim => VertexKind::PersistentVolumeClaim,
        ReferenceKind::ResourceClaim => VertexKind::ResourceClaim,
        ReferenceKind::Secret => VertexKind::Secret,
        ReferenceKind::ServiceAccount => VertexKind::ServiceAccount,
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
    fn a_mirror_pod_grants_nothing() {
        let mut pod = value!({"spec": {"imagePullSecrets": [{"name": "pull"}]}});
        assert_eq!(shown(&of_pod(&pod, "ns", "p")), ["Secret ns/pull"]);
        pod.set(&["metadata", "annotations", pods::MIRROR_ANNOTATION], "x");
        assert_eq!(of_pod(&pod, "ns", "p"), []);
    }

    #[test]
    fn secret_references_of_volumes() {
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
