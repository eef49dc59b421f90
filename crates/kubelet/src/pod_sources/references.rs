//! References to API objects, which static pods may not have. Pure.

use corten_api::Value;

/// Volumes without references to API objects.
const OWN: [&str; 6] = ["emptyDir", "hostPath", "downwardAPI", "image", "nfs", "iscsi"];
/// Volumes with references, and the resource they refer to.
const FOREIGN: [(&str, &str); 7] = [
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

/// A volume whose references are not known; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum UnknownVolume {
    #[error("unknown source for projected volume {0:?}")]
    Source(String),
    #[error("unknown volume type for volume  {0:?}")]
    Type(String),
}

/// The first resource that a pod refers to.
pub(super) fn first_reference(pod: &Value) -> Result<Option<&'static str>, UnknownVolume> {
    if pod.str_at(&["spec", "serviceAccountName"]).is_some_and(|name| !name.is_empty()) {
        return Ok(Some("serviceaccounts"));
    }
    if has_reference(pod, "secretRef", "secretKeyRef")
        || !pod.items_at(&["spec", "imagePullSecrets"]).is_empty()
    {
        return Ok(Some("secrets"));
    }
    if has_reference(pod, "configMapRef", "configMapKeyRef") {
        return Ok(Some("configmaps"));
    }
    if !pod.items_at(&["spec", "resourceClaims"]).is_empty() {
        return Ok(Some("resourceclaims"));
    }
    for volume in pod.items_at(&["spec", "volumes"]) {
        if let Some(found) = of_volume(volume)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns true if a container's variables refer to such an object.
fn has_reference(pod: &Value, from: &str, key: &str) -> bool {
    let lists = ["initContainers", "containers", "ephemeralContainers"];
    let mut containers = lists.iter().flat_map(|list| pod.items_at(&["spec", list]));
    containers.any(|container| {
        let whole = container.items_at(&["envFrom"]).iter().any(|source| source.get(from).is_some());
        whole
            || container.items_at(&["env"]).iter().any(|variable| variable.at(&["valueFrom", key]).is_some())
    })
}

fn of_volume(volume: &Value) -> Result<Option<&'static str>, UnknownVolume> {
    let has = |kind: &str| volume.get(kind).is_some_and(|source| !source.is_null());
    let name = volume.str_at(&["name"]).unwrap_or_default();
    if let Some((_, what)) = FOREIGN.iter().find(|(kind, _)| has(kind)) {
        return Ok(Some(what));
    }
    for source in volume.items_at(&["projected", "sources"]) {
        if let Some((_, what)) = PROJECTED.iter().find(|(kind, _)| source.get(kind).is_some()) {
            return Ok(Some(what));
        }
        if source.get("downwardAPI").is_none() {
            return Err(UnknownVolume::Source(name.to_owned()));
        }
    }
    match has("projected") || OWN.iter().any(|kind| has(kind)) {
        true => Ok(None),
        false => Err(UnknownVolume::Type(name.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    #[track_caller]
    fn check(spec: &str, expected: Result<Option<&'static str>, &str>) {
        let pod = json::parse(format!(r#"{{"spec":{spec}}}"#).as_bytes()).unwrap();
        assert_eq!(
            first_reference(&pod).map_err(|err| err.to_string()),
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
        check(r#"{"volumes":[{"name":"a","secret":{}}]}"#, Ok(Some("secrets (via secret volumes)")));
        check(
            r#"{"volumes":[{"name":"a","projected":{"sources":[{"downwardAPI":{}},{"configMap":{}}]}}]}"#,
            Ok(Some("configmaps (via projected volumes)")),
        );
        check(r#"{"volumes":[{"name":"a"}]}"#, Err("unknown volume type for volume  \"a\""));
    }
}
