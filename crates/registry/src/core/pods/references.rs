//! References of pods to API objects, which the pods of nodes and of manifests may not have. Messages are upstream's.

use corten_api::Value;
use corten_api::pods::{VOLUME_SECRETS, containers};

/// A volume whose references are not known.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnknownVolume {
    #[error("unknown source for projected volume {0:?}")]
    Source(String),
    #[error("unknown volume type for volume  {0:?}")]
    Type(String),
}

/// Volume types without references to API objects.
const SELF_CONTAINED: [&str; 22] = [
    "awsElasticBlockStore",
    "azureDisk",
    "cephfs",
    "cinder",
    "downwardAPI",
    "emptyDir",
    "fc",
    "flexVolume",
    "flocker",
    "gcePersistentDisk",
    "gitRepo",
    "hostPath",
    "image",
    "iscsi",
    "nfs",
    "photonPersistentDisk",
    "portworxVolume",
    "quobyte",
    "rbd",
    "scaleIO",
    "storageos",
    "vsphereVolume",
];

/// Volume types that reference an API object, and its kind.
const REFERRING: [(&str, &str); 7] = [
    ("configMap", "configmaps (via configmap volumes)"),
    ("secret", "secrets (via secret volumes)"),
    ("csi", "csidrivers (via CSI volumes)"),
    ("glusterfs", "endpoints (via glusterFS volumes)"),
    ("persistentVolumeClaim", "persistentvolumeclaims"),
    ("ephemeral", "persistentvolumeclaims (via ephemeral volumes)"),
    ("azureFile", "secrets (via azureFile volumes)"),
];

const PROJECTED: [(&str, &str); 5] = [
    ("configMap", "configmaps (via projected volumes)"),
    ("secret", "secrets (via projected volumes)"),
    ("serviceAccountToken", "serviceaccounts (via projected volumes)"),
    ("clusterTrustBundle", "clustertrustbundles"),
    ("podCertificate", "podcertificates"),
];

/// The kind of API object that a pod references, if any.
pub fn api_reference(pod: &Value) -> Result<Option<&'static str>, UnknownVolume> {
    if pod.str_at(&["spec", "serviceAccountName"]).is_some_and(|name| !name.is_empty()) {
        return Ok(Some("serviceaccounts"));
    }
    if references_secrets(pod) {
        return Ok(Some("secrets"));
    }
    if references_config_maps(pod) {
        return Ok(Some("configmaps"));
    }
    if !pod.items_at(&["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        let is = |kind: &str| volume.get(kind).is_some();
        if SELF_CONTAINED.into_iter().any(is) {
            continue;
        }
        if let Some((_, what)) = REFERRING.into_iter().find(|(kind, _)| is(kind)) {
            return Ok(Some(what));
        }
        if !is("projected") {
            return Err(UnknownVolume::Type(name(volume)));
        }
        for source in projections(volume) {
            let referred = PROJECTED.into_iter().find(|(kind, _)| source.get(kind).is_some());
            match referred {
                Some((_, what)) => return Ok(Some(what)),
                None if source.get("downwardAPI").is_some() => {}
                None => return Err(UnknownVolume::Source(name(volume))),
            }
        }
    }
    Ok(None)
}

fn references_config_maps(pod: &Value) -> bool {
    let from_environment = |container: &Value| {
        container.items_at(&["envFrom"]).iter().any(|e| e.get("configMapRef").is_some())
            || container.items_at(&["env"]).iter().any(|e| e.at(&["valueFrom", "configMapKeyRef"]).is_some())
    };
    let from_volume = |volume: &Value| {
        volume.get("configMap").is_some() || projections(volume).any(|s| s.get("configMap").is_some())
    };
    pod.get("spec").is_some_and(|spec| containers(spec).any(from_environment))
        || pod.items_at(&["spec", "volumes"]).iter().any(from_volume)
}

/// True if a pod references any secret.
pub fn references_secrets(pod: &Value) -> bool {
    let Some(spec) = pod.get("spec") else { return false };
    let from_environment = |container: &Value| {
        container.items_at(&["envFrom"]).iter().any(|e| e.get("secretRef").is_some())
            || container.items_at(&["env"]).iter().any(|e| e.at(&["valueFrom", "secretKeyRef"]).is_some())
    };
    let from_volume = |volume: &Value| {
        VOLUME_SECRETS.iter().any(|path| volume.at(path).is_some())
            || volume.at(&["csi", "nodePublishSecretRef"]).is_some()
            || projections(volume).any(|source| source.get("secret").is_some())
    };
    !spec.items_at(&["imagePullSecrets"]).is_empty()
        || containers(spec).any(from_environment)
        || spec.items_at(&["volumes"]).iter().any(from_volume)
}

fn projections(volume: &Value) -> impl Iterator<Item = &Value> {
    volume.items_at(&["projected", "sources"]).iter()
}

fn name(volume: &Value) -> String {
    volume.str_at(&["name"]).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    #[track_caller]
    fn check(spec: &str, expected: Result<Option<&'static str>, &str>) {
        let pod = json::parse(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap();
        assert_eq!(
            api_reference(&pod).map_err(|err| err.to_string()),
            expected.map_err(str::to_owned),
            "{spec}"
        );
    }

    #[test]
    fn references_to_api_objects_are_found() {
        check("{}", Ok(None));
        check(r#"{"volumes":[{"name":"a","emptyDir":{}},{"name":"b","hostPath":{"path":"/"}}]}"#, Ok(None));
        check(r#"{"serviceAccountName":"a"}"#, Ok(Some("serviceaccounts")));
        check(r#"{"imagePullSecrets":[{"name":"a"}]}"#, Ok(Some("secrets")));
        check(r#"{"containers":[{"envFrom":[{"configMapRef":{"name":"a"}}]}]}"#, Ok(Some("configmaps")));
        check(r#"{"initContainers":[{"env":[{"valueFrom":{"secretKeyRef":{}}}]}]}"#, Ok(Some("secrets")));
        check(r#"{"volumes":[{"name":"a","secret":{"secretName":"a"}}]}"#, Ok(Some("secrets")));
        check(r#"{"volumes":[{"name":"a","secret":{}}]}"#, Ok(Some("secrets (via secret volumes)")));
        check(
            r#"{"volumes":[{"name":"a","projected":{"sources":[{"downwardAPI":{}},{"configMap":{}}]}}]}"#,
            Ok(Some("configmaps")),
        );
        check(r#"{"volumes":[{"name":"a"}]}"#, Err("unknown volume type for volume  \"a\""));
    }
}
