//! What a pod asks of its isolation and this kubelet cannot give. Such a pod does not start: a field that looks as if it
//! protected and does not is worse than none.
//!
//! Admission refuses some of this too. It is checked here for static pods, for pods that were stored before admission
//! knew of it, and for sandboxes that an earlier kubelet made.

use std::path::{Component, Path};

use crate::pod::{Container, Pod};

/// Whether a sandbox can be as the pod asks, in upstream's words.
///
/// A runtime may well have user namespaces; but the kubelet allots no ids for them and sends no mappings, so that the pod's
/// root would be the node's.
pub(crate) fn check_pod(pod: &Pod, handler: &str) -> Result<(), String> {
    if let Some(claim) = pod.tree().items_at(&["spec", "resourceClaims"]).first() {
        // A container without the device it claims must not run as if it had it.
        let name = claim.str_at(&["name"]).unwrap_or_default();
        return Err(format!(
            "failed to prepare dynamic resources: claim {name:?}: no DRA driver is registered on this node"
        ));
    }
    if pod.tree().bool_at(&["spec", "hostUsers"]) != Some(false) {
        return Ok(());
    }
    let who = match handler {
        "" => "runtime".to_owned(),
        handler => format!("RuntimeClass handler {handler:?}"),
    };
    Err(format!("can't set `spec.hostUsers: false`, {who} does not support user namespaces"))
}

/// Whether a container can be as it asks. `privileged` ones have an unmasked `/proc` anyway.
pub(super) fn check_container(pod: &Pod, container: &Container, privileged: bool) -> Result<(), String> {
    check_pod(pod, "")?;
    for setter in [container.tree.get("securityContext"), pod.tree().at(&["spec", "securityContext"])] {
        check_seccomp(setter.and_then(|setter| setter.str_at(&["seccompProfile", "localhostProfile"])))?;
    }
    let mut mounts = container.tree.items_at(&["volumeMounts"]).iter();
    if !privileged && mounts.any(|mount| mount.str_at(&["mountPropagation"]) == Some("Bidirectional")) {
        return Err("Bidirectional mount propagation is available only to privileged containers".to_owned());
    }
    match container.tree.str_at(&["securityContext", "procMount"]) {
        None | Some("" | "Default") => Ok(()),
        Some("Unmasked") if privileged => Ok(()),
        Some("Unmasked") => Err("`hostUsers` must be false to use `Unmasked`".to_owned()),
        Some(other) => Err(format!("unknown procMount {other:?}")),
    }
}

/// Whether the name of a seccomp profile stays in the folder of profiles.
fn check_seccomp(name: Option<&str>) -> Result<(), String> {
    let stays = |name: &str| Path::new(name).components().all(|part| matches!(part, Component::Normal(_)));
    match name.filter(|name| !stays(name)) {
        Some(name) => Err(format!("seccomp profile {name:?} must be a descending path")),
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
    fn no_pod_has_users_of_its_own() {
        assert_eq!(check_pod(&pod(value!({})), ""), Ok(()));
        assert_eq!(check_pod(&pod(value!({"hostUsers": true})), ""), Ok(()));
        let own = pod(value!({"hostUsers": false}));
        let why = "can't set `spec.hostUsers: false`, runtime does not support user namespaces";
        assert_eq!(check_pod(&own, ""), Err(why.to_owned()));
        let why = "can't set `spec.hostUsers: false`, RuntimeClass handler \"crun\" does not support user namespaces";
        assert_eq!(check_pod(&own, "crun"), Err(why.to_owned()));
    }

    #[test]
    fn no_pod_runs_without_what_it_claims() {
        let pod = pod(value!({"resourceClaims": [{"name": "gpu", "resourceClaimName": "g"}]}));
        let why =
            "failed to prepare dynamic resources: claim \"gpu\": no DRA driver is registered on this node";
        assert_eq!(check_pod(&pod, ""), Err(why.to_owned()));
    }

    #[test]
    fn proc_is_masked_in_the_users_of_the_node() {
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
    fn mounts_reach_the_node_from_privileged_containers_only() {
        let mount = value!({"name": "v", "mountPath": "/v", "mountPropagation": "Bidirectional"});
        let pod = pod(value!({"containers": [{"name": "c", "volumeMounts": [(mount)]}]}));
        assert!(check_container(&pod, &pod.containers()[0], false).is_err());
        assert_eq!(check_container(&pod, &pod.containers()[0], true), Ok(()));
    }

    #[test]
    fn seccomp_profiles_are_those_of_the_folder() {
        let check = |name: &str| check_seccomp(Some(name)).is_ok();
        assert!(check("profiles/audit.json") && check("..data.json") && check_seccomp(None).is_ok());
        assert!(!check("../../etc/shadow") && !check("/etc/shadow") && !check("a/../../b"));
    }
}
