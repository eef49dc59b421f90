//! What a sandbox and its containers may do.

use corten_api::Value;
use corten_container::{
    Capabilities, ContainerSecurityContext, Image, SandboxSecurityContext, SecurityProfile, SelinuxOption,
    SupplementalGroupsPolicy,
};

use super::{NodeConfig, sandbox};
use crate::pod::{Container, Pod};

const MASKED: [&str; 12] = [
    "/proc/asound",
    "/proc/acpi",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/sys/firmware",
    "/sys/devices/virtual/powercap",
];
const READ_ONLY: [&str; 5] = ["/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger"];

pub(super) fn of_sandbox(pod: &Pod, node: &NodeConfig) -> SandboxSecurityContext {
    let own = pod.tree().at(&["spec", "securityContext"]).cloned().unwrap_or_default();
    SandboxSecurityContext {
        namespace_options: sandbox::namespaces(pod),
        selinux_options: selinux(&own),
        run_as_user: own.int_at(&["runAsUser"]),
        run_as_group: own.int_at(&["runAsGroup"]),
        readonly_rootfs: false,
        supplemental_groups: groups(&own),
        supplemental_groups_policy: groups_policy(&own),
        privileged: pod.containers().iter().any(is_privileged),
        seccomp: Some(profile(own.get("seccompProfile"), &node.seccomp_root).unwrap_or_default()),
        apparmor: None,
    }
}

pub(super) fn is_privileged(container: &Container) -> bool {
    container.tree.bool_at(&["securityContext", "privileged"]).unwrap_or(false)
}

/// `target` is the container whose processes an ephemeral one looks at.
pub(super) fn of_container(
    pod: &Pod,
    container: &Container,
    target: Option<&str>,
    node: &NodeConfig,
) -> ContainerSecurityContext {
    let of_pod = pod.tree().at(&["spec", "securityContext"]).cloned().unwrap_or_default();
    let own = container.tree.get("securityContext").cloned().unwrap_or_default();
    let number = |key: &str| own.int_at(&[key]).or_else(|| of_pod.int_at(&[key]));
    let privileged = is_privileged(container);
    // Whatever `procMount` says: what lies bare in the node's user namespace is the node's (`isolation`).
    let paths = |list: &[&str]| -> Vec<String> {
        if privileged { Vec::new() } else { list.iter().map(|path| (*path).to_owned()).collect() }
    };
    let mut namespace_options = sandbox::namespaces(pod);
    if let Some(target) = target {
        namespace_options.pid = corten_container::NamespaceMode::Target;
        namespace_options.target_id = target.to_owned();
    }
    let chosen = |key: &str| own.get(key).filter(|v| !v.is_null()).or_else(|| of_pod.get(key)).cloned();
    ContainerSecurityContext {
        capabilities: capabilities(&own),
        privileged,
        namespace_options,
        selinux_options: selinux(&own).or_else(|| selinux(&of_pod)),
        run_as_user: number("runAsUser"),
        run_as_group: number("runAsGroup"),
        run_as_username: String::new(),
        readonly_rootfs: own.bool_at(&["readOnlyRootFilesystem"]).unwrap_or(false),
        supplemental_groups: groups(&of_pod),
        supplemental_groups_policy: groups_policy(&of_pod),
        no_new_privs: own.bool_at(&["allowPrivilegeEscalation"]) == Some(false),
        masked_paths: paths(&MASKED),
        readonly_paths: paths(&READ_ONLY),
        seccomp: match privileged {
            true => None,
            false => profile(chosen("seccompProfile").as_ref(), &node.seccomp_root)
                .or_else(|| node.seccomp_default.then_some(SecurityProfile::RuntimeDefault)),
        },
        apparmor: profile(chosen("appArmorProfile").as_ref(), ""),
    }
}

fn capabilities(own: &Value) -> Capabilities {
    let names = |list: &str| -> Vec<String> {
        let items = own.items_at(&["capabilities", list]).iter();
        items.filter_map(Value::as_str).map(|name| name.trim_start_matches("CAP_").to_uppercase()).collect()
    };
    Capabilities { add: names("add"), drop: names("drop"), add_ambient: Vec::new() }
}

fn groups(of_pod: &Value) -> Vec<i64> {
    let mut groups: Vec<i64> = of_pod.int_at(&["fsGroup"]).into_iter().collect();
    groups.extend(of_pod.items_at(&["supplementalGroups"]).iter().filter_map(Value::as_int));
    groups
}

fn groups_policy(of_pod: &Value) -> SupplementalGroupsPolicy {
    match of_pod.str_at(&["supplementalGroupsPolicy"]) {
        Some("Strict") => SupplementalGroupsPolicy::Strict,
        _ => SupplementalGroupsPolicy::Merge,
    }
}

/// A profile of seccomp (its files are below a directory) or AppArmor (its profiles have names).
fn profile(own: Option<&Value>, root: &str) -> Option<SecurityProfile> {
    let own = own?;
    match own.str_at(&["type"])? {
        "RuntimeDefault" => Some(SecurityProfile::RuntimeDefault),
        "Localhost" => {
            let name = own.str_at(&["localhostProfile"]).unwrap_or_default();
            let at = if root.is_empty() { name.to_owned() } else { format!("{root}/{name}") };
            Some(SecurityProfile::Localhost(at))
        }
        _ => Some(SecurityProfile::Unconfined),
    }
}

fn selinux(own: &Value) -> Option<SelinuxOption> {
    let options = own.get("seLinuxOptions").filter(|options| !options.is_null())?;
    let text = |key: &str| options.str_at(&[key]).unwrap_or_default().to_owned();
    Some(SelinuxOption { user: text("user"), role: text("role"), kind: text("type"), level: text("level") })
}

/// Whether a container that must not be root will not be.
pub(super) fn check_non_root(pod: &Pod, container: &Container, image: &Image) -> Result<(), String> {
    let of_pod = pod.tree().at(&["spec", "securityContext"]).cloned().unwrap_or_default();
    let own = container.tree.get("securityContext").cloned().unwrap_or_default();
    let asked = own.bool_at(&["runAsNonRoot"]).or_else(|| of_pod.bool_at(&["runAsNonRoot"]));
    if asked != Some(true) {
        return Ok(());
    }
    let described = format!("(pod: {:?}, container: {})", pod.described(), container.name);
    match own.int_at(&["runAsUser"]).or_else(|| of_pod.int_at(&["runAsUser"])) {
        Some(0) => Err(format!("container's runAsUser breaks non-root policy {described}")),
        Some(_) => Ok(()),
        None => match (image.uid, image.username.as_str()) {
            (Some(0), _) => Err(format!("container has runAsNonRoot and image will run as root {described}")),
            (None, name) if !name.is_empty() => Err(format!(
                "container has runAsNonRoot and image has non-numeric user ({name}), cannot verify user is non-root {described}"
            )),
            (None, _) => Err(format!("container has runAsNonRoot and image will run as root {described}")),
            // What is larger wraps around somewhere, and may be zero then.
            (Some(uid), _) if !(1..=i64::from(i32::MAX)).contains(&uid) => Err(format!(
                "container has runAsNonRoot and image has an invalid user id ({uid}). (Must be 1-({})) {described}",
                i32::MAX
            )),
            (Some(_), _) => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;
    use crate::pod::Source;

    fn context(of_pod: Value, own: Value, seccomp_default: bool) -> ContainerSecurityContext {
        let spec =
            value!({"securityContext": (of_pod), "containers": [{"name": "c", "securityContext": (own)}]});
        let pod = Pod::new(value!({"metadata": {"name": "p"}, "spec": (spec)}), Source::Api);
        let node = NodeConfig { seccomp_default, seccomp_root: "/s".to_owned(), ..NodeConfig::default() };
        of_container(&pod, &pod.containers()[0], None, &node)
    }

    #[test]
    fn who_says_nothing_of_seccomp_has_what_the_node_says() {
        let none = || value!({});
        let profile = |kind: &str| value!({"seccompProfile": {"type": (kind)}});
        assert_eq!(context(none(), none(), false).seccomp, None);
        assert_eq!(context(none(), none(), true).seccomp, Some(SecurityProfile::RuntimeDefault));
        let unconfined = Some(SecurityProfile::Unconfined);
        assert_eq!(context(profile("Unconfined"), none(), true).seccomp, unconfined);
        assert_eq!(context(none(), profile("Unconfined"), true).seccomp, unconfined);
        assert_eq!(context(none(), value!({"privileged": true}), true).seccomp, None);
    }

    #[test]
    fn root_of_an_image_is_found_however_it_is_written() {
        let check = |uid: Option<i64>, username: &str| {
            let spec = value!({"securityContext": {"runAsNonRoot": true}, "containers": [{"name": "c"}]});
            let pod = Pod::new(value!({"metadata": {"name": "p"}, "spec": (spec)}), Source::Api);
            let image = Image { uid, username: username.to_owned(), ..Image::default() };
            check_non_root(&pod, &pod.containers()[0], &image).is_ok()
        };
        assert!(check(Some(1000), ""));
        for (uid, username) in [(None, ""), (None, "web"), (Some(0), ""), (Some(1 << 32), ""), (Some(-1), "")]
        {
            assert!(!check(uid, username), "{uid:?} {username}");
        }
    }

    #[test]
    fn proc_lies_bare_for_privileged_ones_only() {
        let masked = |own: Value| context(value!({}), own, false).masked_paths.len();
        assert_eq!(masked(value!({"procMount": "Unmasked"})), MASKED.len());
        assert_eq!(masked(value!({"procMount": "Unmasked", "privileged": true})), 0);
    }
}
