//! Restricted: current best practice of pod hardening. One function per check and version of it.

use std::collections::BTreeSet;

use corten_api::Value;

use super::baseline::{
    added_beyond, bad_seccomp, capability_detail, containers, named, seccomp_1_19, setters, violation,
};
use super::checks::{Finding, containers_named, plural, quoted};
use crate::admission::pod;

/// True for Windows pods, which cannot set the Linux fields.
fn is_windows(pod: &Value) -> bool {
    pod.str_at(&["spec", "os", "name"]) == Some("windows")
}

pub(super) fn privilege_escalation(pod: &Value) -> Finding {
    let allowed = |c: &Value| c.bool_at(&["securityContext", "allowPrivilegeEscalation"]) != Some(false);
    let bad = named(pod, allowed);
    if bad.is_empty() {
        return None;
    }
    let detail =
        format!("{} must set securityContext.allowPrivilegeEscalation=false", containers_named(&bad));
    violation("allowPrivilegeEscalation != false", detail)
}

pub(super) fn privilege_escalation_1_25(pod: &Value) -> Finding {
    if is_windows(pod) { None } else { privilege_escalation(pod) }
}

pub(super) fn capabilities(pod: &Value) -> Finding {
    let keeps = |container: &Value| {
        let dropped = container.items_at(&["securityContext", "capabilities", "drop"]);
        !dropped.iter().any(|capability| capability.as_str() == Some("ALL"))
    };
    let mut details = Vec::new();
    let keeping = named(pod, keeps);
    if !keeping.is_empty() {
        details.push(format!(
            r#"{} must set securityContext.capabilities.drop=["ALL"]"#,
            containers_named(&keeping)
        ));
    }
    if let Some((containers, added)) = added_beyond(pod, &["NET_BIND_SERVICE"]) {
        details.push(capability_detail(&containers, &added));
    }
    if details.is_empty() { None } else { violation("unrestricted capabilities", details.join("; ")) }
}

pub(super) fn capabilities_1_25(pod: &Value) -> Finding {
    if is_windows(pod) { None } else { capabilities(pod) }
}

const ALLOWED_VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

const OTHER_VOLUMES: [&str; 21] = [
    "hostPath",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "gitRepo",
    "nfs",
    "iscsi",
    "glusterfs",
    "rbd",
    "flexVolume",
    "cinder",
    "cephfs",
    "flocker",
    "fc",
    "azureFile",
    "vsphereVolume",
    "quobyte",
    "azureDisk",
    "photonPersistentDisk",
    "portworxVolume",
    "scaleIO",
    "storageos",
];

pub(super) fn volumes(pod: &Value) -> Finding {
    let is = |volume: &Value, kinds: &[&'static str]| {
        kinds.iter().copied().find(|kind| volume.get(kind).is_some_and(|v| !v.is_null()))
    };
    let volumes = pod.items_at(&["spec", "volumes"]);
    let bad: Vec<&Value> = volumes.iter().filter(|volume| is(volume, &ALLOWED_VOLUMES).is_none()).collect();
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<&str> =
        bad.iter().map(|volume| is(volume, &OTHER_VOLUMES).unwrap_or("unknown")).collect();
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted(bad.iter().map(|volume| pod::name(volume))),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(&kinds)
    );
    violation("restricted volume types", detail)
}

pub(super) fn run_as_non_root(pod: &Value) -> Finding {
    const REASON: &str = "runAsNonRoot != true";
    let says = |setter: &Value| setter.bool_at(&["securityContext", "runAsNonRoot"]);
    let of_pod = pod.get("spec").and_then(says);
    let refusing = named(pod, |container| says(container) == Some(false));
    if let Some(who) = setters(of_pod == Some(false), &refusing) {
        return violation(REASON, format!("{who} must not set securityContext.runAsNonRoot=false"));
    }
    let silent = named(pod, |container| says(container).is_none() && of_pod != Some(true));
    if silent.is_empty() {
        return None;
    }
    let detail = format!("pod or {} must set securityContext.runAsNonRoot=true", containers_named(&silent));
    violation(REASON, detail)
}

pub(super) fn run_as_user(pod: &Value) -> Finding {
    let is_root = |setter: &Value| setter.int_at(&["securityContext", "runAsUser"]) == Some(0);
    let who = setters(pod.get("spec").is_some_and(is_root), &named(pod, is_root))?;
    violation("runAsUser=0", format!("{who} must not set runAsUser=0"))
}

pub(super) fn seccomp(pod: &Value) -> Finding {
    let bad = seccomp_1_19(pod);
    if bad.is_some() {
        return bad;
    }
    let says = |setter: &Value| setter.at(&["securityContext", "seccompProfile"]).is_some();
    if pod.get("spec").is_some_and(|spec| says(spec) && bad_seccomp(spec).is_none()) {
        return None;
    }
    let silent: Vec<&str> = containers(pod).filter(|c| !says(c)).map(pod::name).collect();
    if silent.is_empty() {
        return None;
    }
    let detail = format!(
        r#"pod or {} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#,
        containers_named(&silent)
    );
    violation("seccompProfile", detail)
}

pub(super) fn seccomp_1_25(pod: &Value) -> Finding {
    if is_windows(pod) { None } else { seccomp(pod) }
}
