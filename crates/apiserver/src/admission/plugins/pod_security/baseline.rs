//! Baseline: prevents known privilege escalations. One function per check and version of it.

use std::collections::BTreeSet;

use corten_api::{Map, Value};

use super::checks::{Finding, Violation, containers_named, plural, quoted};
use crate::admission::pod;

pub(super) fn violation(reason: &'static str, detail: impl Into<String>) -> Finding {
    Some(Violation { reason, detail: detail.into() })
}

pub(super) fn containers(pod: &Value) -> impl Iterator<Item = &Value> {
    pod.get("spec").into_iter().flat_map(pod::containers)
}

/// The names of the containers that satisfy a condition.
pub(super) fn named(pod: &Value, bad: impl Fn(&Value) -> bool) -> Vec<&str> {
    containers(pod).filter(|container| bad(container)).map(pod::name).collect()
}

/// The pod itself and its containers, as the subject of a message.
pub(super) fn setters(pod_is_bad: bool, containers: &[&str]) -> Option<String> {
    let mut setters = Vec::new();
    if pod_is_bad {
        setters.push("pod".to_owned());
    }
    if !containers.is_empty() {
        setters.push(containers_named(containers));
    }
    (!setters.is_empty()).then(|| setters.join(" and "))
}

pub(super) fn app_armor_profile(pod: &Value) -> Finding {
    const PROFILE: [&str; 3] = ["securityContext", "appArmorProfile", "type"];
    const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
    let bad = |setter: &Value| {
        setter.at(&PROFILE[..2])?;
        let kind = setter.str_at(&PROFILE).unwrap_or_default().to_owned();
        (!matches!(kind.as_str(), "RuntimeDefault" | "Localhost")).then_some(kind)
    };
    let of_pod = pod.get("spec").and_then(bad);
    let of_containers = named(pod, |container| bad(container).is_some());
    let mut values: BTreeSet<String> = containers(pod).filter_map(bad).collect();
    values.extend(of_pod.clone());
    let annotations = pod.at(&["metadata", "annotations"]).and_then(Value::as_object);
    let allowed =
        |value: &str| value.is_empty() || value == "runtime/default" || value.starts_with("localhost/");
    let forbidden: Vec<String> = annotations
        .into_iter()
        .flat_map(Map::iter)
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| key.starts_with(ANNOTATION) && !allowed(value))
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    let mut who: Vec<String> = setters(of_pod.is_some(), &of_containers).into_iter().collect();
    if !forbidden.is_empty() {
        who.push(plural("annotation", "annotations", forbidden.len()).to_owned());
    }
    if who.is_empty() {
        return None;
    }
    let values: Vec<String> = values.into_iter().chain(forbidden).collect();
    let reason = plural("forbidden AppArmor profile", "forbidden AppArmor profiles", values.len());
    let detail = format!("{} must not set AppArmor profile type to {}", who.join(" and "), quoted(&values));
    violation(reason, detail)
}

const DEFAULT_CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

pub(super) fn capabilities(pod: &Value) -> Finding {
    added_beyond(pod, &DEFAULT_CAPABILITIES).and_then(|(containers, added)| {
        violation("non-default capabilities", capability_detail(&containers, &added))
    })
}

/// Containers that add more than the allowed capabilities, and what they add.
pub(super) fn added_beyond<'a>(pod: &'a Value, allowed: &[&str]) -> Option<(Vec<&'a str>, BTreeSet<String>)> {
    let added = |container: &Value| -> BTreeSet<String> {
        let added = container.items_at(&["securityContext", "capabilities", "add"]).iter();
        added.filter_map(Value::as_str).filter(|c| !allowed.contains(c)).map(str::to_owned).collect()
    };
    let bad = named(pod, |container| !added(container).is_empty());
    (!bad.is_empty()).then(|| (bad, containers(pod).flat_map(added).collect()))
}

/// The message about capabilities that containers must not add.
pub(super) fn capability_detail(containers: &[&str], added: &BTreeSet<String>) -> String {
    format!(
        "{} must not include {} in securityContext.capabilities.add",
        containers_named(containers),
        quoted(added)
    )
}

pub(super) fn host_namespaces(pod: &Value) -> Finding {
    let shared = ["hostNetwork", "hostPID", "hostIPC"];
    let shared: Vec<String> = shared
        .into_iter()
        .filter(|field| pod.bool_at(&["spec", field]) == Some(true))
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() { None } else { violation("host namespaces", shared.join(", ")) }
}

pub(super) fn host_path_volumes(pod: &Value) -> Finding {
    let volumes = pod.items_at(&["spec", "volumes"]).iter();
    let names: Vec<&str> = volumes.filter(|v| v.get("hostPath").is_some()).map(pod::name).collect();
    if names.is_empty() {
        return None;
    }
    violation("hostPath volumes", format!("{} {}", plural("volume", "volumes", names.len()), quoted(&names)))
}

pub(super) fn host_ports(pod: &Value) -> Finding {
    let ports = |container: &Value| -> BTreeSet<String> {
        let ports = container.items_at(&["ports"]).iter().filter_map(|p| p.int_at(&["hostPort"]));
        ports.filter(|port| *port != 0).map(|port| port.to_string()).collect()
    };
    let bad = named(pod, |container| !ports(container).is_empty());
    if bad.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(pod).flat_map(ports).collect();
    let detail = format!(
        "{} {} {} {}",
        containers_named(&bad),
        plural("uses", "use", bad.len()),
        plural("hostPort", "hostPorts", all.len()),
        all.into_iter().collect::<Vec<_>>().join(", ")
    );
    violation("hostPort", detail)
}

pub(super) fn probe_hosts(pod: &Value) -> Finding {
    const HANDLERS: [&[&str]; 5] = [
        &["livenessProbe"],
        &["readinessProbe"],
        &["startupProbe"],
        &["lifecycle", "postStart"],
        &["lifecycle", "preStop"],
    ];
    let hosts = |container: &Value| -> BTreeSet<String> {
        let handlers = HANDLERS.iter().filter_map(|path| container.at(path));
        let host = |handler: &Value| {
            ["httpGet", "tcpSocket"].map(|how| handler.str_at(&[how, "host"]).unwrap_or_default().to_owned())
        };
        handlers.flat_map(host).filter(|host| !host.is_empty()).collect()
    };
    let bad: BTreeSet<&str> = named(pod, |container| !hosts(container).is_empty()).into_iter().collect();
    if bad.is_empty() {
        return None;
    }
    let all: BTreeSet<String> = containers(pod).flat_map(hosts).collect();
    let bad: Vec<&str> = bad.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        containers_named(&bad),
        plural("uses", "use", bad.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", all.len()),
        quoted(&all)
    );
    violation("probe or lifecycle host", detail)
}

pub(super) fn privileged(pod: &Value) -> Finding {
    let bad = named(pod, |container| container.bool_at(&["securityContext", "privileged"]) == Some(true));
    if bad.is_empty() {
        return None;
    }
    violation(
        "privileged",
        format!("{} must not set securityContext.privileged=true", containers_named(&bad)),
    )
}

pub(super) fn proc_mount(pod: &Value) -> Finding {
    let mount = |container: &Value| {
        let mount = container.str_at(&["securityContext", "procMount"]);
        mount.filter(|mount| *mount != "Default").map(str::to_owned)
    };
    let bad = named(pod, |container| mount(container).is_some());
    if bad.is_empty() {
        return None;
    }
    let kinds: BTreeSet<String> = containers(pod).filter_map(mount).collect();
    let detail =
        format!("{} must not set securityContext.procMount to {}", containers_named(&bad), quoted(&kinds));
    violation("procMount", detail)
}

pub(super) fn se_linux(pod: &Value) -> Finding {
    se_linux_types(pod, &["", "container_t", "container_init_t", "container_kvm_t"])
}

pub(super) fn se_linux_1_31(pod: &Value) -> Finding {
    se_linux_types(pod, &["", "container_t", "container_init_t", "container_kvm_t", "container_engine_t"])
}

fn se_linux_types(pod: &Value, allowed: &[&str]) -> Finding {
    let option = |setter: &Value, field: &str| {
        setter.str_at(&["securityContext", "seLinuxOptions", field]).unwrap_or_default().to_owned()
    };
    let bad_type = |setter: &Value| {
        let kind = option(setter, "type");
        (!allowed.contains(&kind.as_str())).then_some(kind)
    };
    let sets = |setter: &Value, field: &str| !option(setter, field).is_empty();
    let is_bad = |setter: &Value| bad_type(setter).is_some() || sets(setter, "user") || sets(setter, "role");
    let spec = pod.get("spec");
    let who = setters(spec.is_some_and(is_bad), &named(pod, is_bad))?;
    let all = || spec.into_iter().chain(containers(pod));
    let types: BTreeSet<String> = all().filter_map(bad_type).collect();
    let mut data = Vec::new();
    if !types.is_empty() {
        data.push(format!("{} {}", plural("type", "types", types.len()), quoted(&types)));
    }
    for field in ["user", "role"] {
        if all().any(|setter| sets(setter, field)) {
            data.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{who} set forbidden securityContext.seLinuxOptions: {}", data.join("; "));
    violation("seLinuxOptions", detail)
}

pub(super) fn seccomp(pod: &Value) -> Finding {
    const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    const CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";
    let allowed = |value: &str| {
        matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/")
    };
    let keys = containers(pod).map(|container| format!("{CONTAINER}{}", pod::name(container)));
    let forbidden: BTreeSet<String> = std::iter::once(POD.to_owned())
        .chain(keys)
        .filter_map(|key| {
            let value = pod::annotation(pod, &key)?;
            (!allowed(value)).then(|| format!("{key}={value:?}"))
        })
        .collect();
    if forbidden.is_empty() {
        return None;
    }
    let which = plural("annotation", "annotations", forbidden.len());
    let list = forbidden.into_iter().collect::<Vec<_>>().join(", ");
    violation("seccompProfile", format!("forbidden {which} {list}"))
}

/// The profile of a pod or container, if it is not allowed.
pub(super) fn bad_seccomp(setter: &Value) -> Option<String> {
    setter.at(&["securityContext", "seccompProfile"])?;
    let kind = setter.str_at(&["securityContext", "seccompProfile", "type"]).unwrap_or_default();
    (!matches!(kind, "Localhost" | "RuntimeDefault")).then(|| kind.to_owned())
}

pub(super) fn seccomp_1_19(pod: &Value) -> Finding {
    let of_pod = pod.get("spec").and_then(bad_seccomp);
    let who = setters(of_pod.is_some(), &named(pod, |c| bad_seccomp(c).is_some()))?;
    let values: BTreeSet<String> = containers(pod).filter_map(bad_seccomp).chain(of_pod).collect();
    let detail = format!("{who} must not set securityContext.seccompProfile.type to {}", quoted(&values));
    violation("seccompProfile", detail)
}

/// Safe sysctls, with the first version that allows them.
const SYSCTLS: [(u32, &str); 14] = [
    (0, "kernel.shm_rmid_forced"),
    (0, "net.ipv4.ip_local_port_range"),
    (0, "net.ipv4.tcp_syncookies"),
    (0, "net.ipv4.ping_group_range"),
    (0, "net.ipv4.ip_unprivileged_port_start"),
    (27, "net.ipv4.ip_local_reserved_ports"),
    (29, "net.ipv4.tcp_keepalive_time"),
    (29, "net.ipv4.tcp_fin_timeout"),
    (29, "net.ipv4.tcp_keepalive_intvl"),
    (29, "net.ipv4.tcp_keepalive_probes"),
    (32, "net.ipv4.tcp_rmem"),
    (32, "net.ipv4.tcp_wmem"),
    (37, "net.ipv4.tcp_slow_start_after_idle"),
    (37, "net.ipv4.tcp_notsent_lowat"),
];

fn sysctls_as_of(pod: &Value, minor: u32) -> Finding {
    let safe = |name: &str| SYSCTLS.iter().any(|(since, safe)| *since <= minor && *safe == name);
    let set = pod.items_at(&["spec", "securityContext", "sysctls"]).iter().map(pod::name);
    let forbidden: Vec<&str> = set.filter(|name| !safe(name)).collect();
    if forbidden.is_empty() { None } else { violation("forbidden sysctls", forbidden.join(", ")) }
}

pub(super) fn sysctls(pod: &Value) -> Finding {
    sysctls_as_of(pod, 0)
}

pub(super) fn sysctls_1_27(pod: &Value) -> Finding {
    sysctls_as_of(pod, 27)
}

pub(super) fn sysctls_1_29(pod: &Value) -> Finding {
    sysctls_as_of(pod, 29)
}

pub(super) fn sysctls_1_32(pod: &Value) -> Finding {
    sysctls_as_of(pod, 32)
}

pub(super) fn sysctls_1_37(pod: &Value) -> Finding {
    sysctls_as_of(pod, 37)
}

pub(super) fn windows_host_process(pod: &Value) -> Finding {
    let is_host =
        |setter: &Value| setter.bool_at(&["securityContext", "windowsOptions", "hostProcess"]) == Some(true);
    let who = setters(pod.get("spec").is_some_and(is_host), &named(pod, is_host))?;
    violation("hostProcess", format!("{who} must not set securityContext.windowsOptions.hostProcess=true"))
}
