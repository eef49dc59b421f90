//! Isolation that pods request and this kubelet cannot provide. Such a pod does not start: a field that promises
//! protection and does not provide it is worse than none.
//!
//! Admission in the API server refuses some of this too. It is checked here for static pods, for pods that were
//! stored before that admission existed, and for sandboxes of an earlier kubelet.

use std::path::{Component, Path};

use super::ConfigError;
use crate::pod::{Container, Pod};

/// Checks that a sandbox can be isolated as the pod requests.
///
/// A runtime may support user namespaces; but the kubelet allocates no ids for them and sends no mappings, so that
/// the pod's root would be the node's.
pub(crate) fn check_pod(pod: &Pod, handler: &str) -> Result<(), ConfigError> {
    if let Some(claim) = pod.tree().items_at(&["spec", "resourceClaims"]).first() {
        // A container without the device it claims must not run as if it had it.
        let name = claim.str_at(&["name"]).unwrap_or_default();
        return Err(ConfigError::DynamicResources(name.to_owned()));
    }
    if pod.tree().bool_at(&["spec", "hostUsers"]) != Some(false) {
        return Ok(());
    }
    let who = match handler {
        "" => "runtime".to_owned(),
        handler => format!("RuntimeClass handler {handler:?}"),
    };
    Err(ConfigError::UserNamespaces(who))
}

/// Checks that a container can be isolated as it requests. Privileged containers have an unmasked `/proc` anyway.
pub(super) fn check_container(pod: &Pod, container: &Container, privileged: bool) -> Result<(), ConfigError> {
    check_pod(pod, "")?;
    for setter in [container.tree.get("securityContext"), pod.tree().at(&["spec", "securityContext"])] {
        check_seccomp(setter.and_then(|setter| setter.str_at(&["seccompProfile", "localhostProfile"])))?;
    }
    let mut mounts = container.tree.items_at(&["volumeMounts"]).iter();
    if !privileged && mounts.any(|mount| mount.str_at(&["mountPropagation"]) == Some("Bidirectional")) {
        return Err(ConfigError::Bidirectional);
    }
    match container.tree.str_at(&["securityContext", "procMount"]) {
        None | Some("" | "Default") => Ok(()),
        Some("Unmasked") if privileged => Ok(()),
        Some("Unmasked") => Err(ConfigError::UnmaskedProc),
        Some(other) => Err(ConfigError::ProcMount(other.to_owned())),
    }
}

/// Checks that a seccomp profile is within the directory of profiles.
fn check_seccomp(name: Option<&str>) -> Result<(), ConfigError> {
    let stays = |name: &str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    match name.filter(|name| !stays(name)) {
        Some(name) => Err(ConfigError::SeccompProfile(name.to_owned())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::{Value, value};

    use super::*;
    use crate::pod::Source;

    fn pod(spec: Value) -> Pod {
        Pod::new(value!({"metadata": {"name": "p"}, "spec": (spec)}), Source::Api)
    }

    #[test]
    fn user_namespaces_are_refused() {
        assert_eq!(check_pod(&pod(value!({})), ""), Ok(()));
        assert_eq!(check_pod(&pod(value!({"hostUsers": true})), ""), Ok(()));
        let own = pod(value!({"hostUsers": false}));
        let why = "can't set `spec.hostUsers: false`, runtime does not support user namespaces";
        assert_eq!(check_pod(&own, "").unwrap_err().to_string(), why);
        let why = "can't set `spec.hostUsers: false`, RuntimeClass handler \"crun\" does not support user namespaces";
        assert_eq!(check_pod(&own, "crun").unwrap_err().to_string(), why);
    }

    #[test]
    fn resource_claims_are_refused() {
        let pod = pod(value!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}));
        let why =
            "failed to prepare dynamic resources: claim \"gpu\": no DRA driver is registered on this node";
        assert_eq!(check_pod(&pod, "").unwrap_err().to_string(), why);
    }

    #[test]
    fn proc_mount_needs_a_privileged_container() {
        let check = |mount: &str, users: bool, privileged: bool| {
            let container = value!({"name": "c", "securityContext": {"procMount": (mount)}});
            let pod = pod(value!({"hostUsers": (users), "containers": [(container)]}));
            check_container(&pod, &pod.containers()[0], privileged)
        };
        assert_eq!(check("Default", true, false), Ok(()));
        assert_eq!(check("Unmasked", true, true), Ok(()));
        assert!(check("Unmasked", true, false).is_err());
        assert!(check("Unmasked", false, false).is_err());
        assert!(check("Default", false, false).is_err());
        assert!(check("Half", true, false).is_err());
    }

    #[test]
    fn bidirectional_mounts_need_a_privileged_container() {
        let mount = value!({"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"});
        let pod = pod(value!({"containers": [{"name": "c", "volumeMounts": [(mount)]}]}));
        assert!(check_container(&pod, &pod.containers()[0], false).is_err());
        assert_eq!(check_container(&pod, &pod.containers()[0], true), Ok(()));
    }

    #[test]
    fn seccomp_profiles_stay_in_their_directory() {
        let check = |name: &str| check_seccomp(Some(name)).is_ok();
        assert!(check("profiles/audit.json") && check("..data.json") && check_seccomp(None).is_ok());
        assert!(!check("../../etc/shadow") && !check("/etc/shadow") && !check("a/../../b"));
    }
}
