//! The security contexts of sandboxes and containers.

use corten_api::Value;
use corten_container::{
    Capabilities, ContainerSecurityContext, Image, SandboxSecurityContext, SecurityProfile, SelinuxOption,
    SupplementalGroupsPolicy,
};

use super::{ConfigError, NodeConfig, sandbox};
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

/// The security context of a container. `target` is the id of the container whose processes an ephemeral container
/// sees.
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
    // `procMount` is ignored: an unmasked `/proc` in the node's user namespace would expose the node (`isolation`).
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

/// A seccomp profile (a file below `root`) or an AppArmor profile (a name).
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

/// Checks that a container with `runAsNonRoot` does not run as root.
pub(super) fn check_non_root(pod: &Pod, container: &Container, image: &Image) -> Result<(), ConfigError> {
    let of_pod = pod.tree().at(&["spec", "securityContext"]).cloned().unwrap_or_default();
    let own = container.tree.get("securityContext").cloned().unwrap_or_default();
    let asked = own.bool_at(&["runAsNonRoot"]).or_else(|| of_pod.bool_at(&["runAsNonRoot"]));
    if asked != Some(true) {
        return Ok(());
    }
    let container = format!("(pod: {:?}, container: {})", pod.described(), container.name);
    match own.int_at(&["runAsUser"]).or_else(|| of_pod.int_at(&["runAsUser"])) {
        Some(0) => Err(ConfigError::RunAsRoot { container }),
        Some(_) => Ok(()),
        None => match (image.uid, image.username.as_str()) {
            (Some(0), _) => Err(ConfigError::ImageRunsAsRoot { container }),
            (None, name) if !name.is_empty() => {
                Err(ConfigError::NonNumericUser { user: name.to_owned(), container })
            }
            (None, _) => Err(ConfigError::ImageRunsAsRoot { container }),
            // A larger id wraps around somewhere and may then be zero.
            (Some(uid), _) if !(1..=i64::from(i32::MAX)).contains(&uid) => {
                Err(ConfigError::InvalidUser { uid, container })
            }
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
    fn the_seccomp_default_applies_without_a_profile() {
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
    fn an_image_that_may_run_as_root_is_refused() {
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
    fn proc_is_unmasked_only_for_privileged_containers() {
        let masked = |own: Value| context(value!({}), own, false).masked_paths.len();
        assert_eq!(masked(value!({"procMount": "Unmasked"})), MASKED.len());
        assert_eq!(masked(value!({"procMount": "Unmasked", "privileged": true})), 0);
    }
}
