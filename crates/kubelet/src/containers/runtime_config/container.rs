//! The runtime's configuration of one container.

use corten_api::Value;
use corten_container::{
    ContainerConfig, ContainerMetadata, Image, ImageSpec, LinuxContainerConfig, Mount, MountPropagation,
};

use super::{ConfigError, NodeConfig, isolation, security};
use crate::containers::expansion::expand;
use crate::containers::labels;
use crate::pod::{Container, Pod};
use crate::resources;

/// The prepared parts of a container's configuration.
#[derive(Debug)]
pub(crate) struct ContainerParts<'a> {
    pub(crate) attempt: u32,
    /// The runtime's reference to the image.
    pub(crate) image_ref: &'a str,
    pub(crate) environment: Vec<(String, String)>,
    /// The container's `volumeMounts`, in their order.
    pub(crate) volume_mounts: &'a [ResolvedMount],
    /// Additional mounts: the hosts file and the termination message.
    pub(crate) mounts: Vec<Mount>,
    /// The id of the container whose processes an ephemeral container sees.
    pub(crate) target: Option<String>,
    /// True if the pod's runtime handler supports recursive read-only mounts.
    pub(crate) recursive_read_only: bool,
}

/// One of a container's `volumeMounts` with its path on the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ResolvedMount {
    pub(crate) host_path: String,
    /// True if the volume itself may only be read.
    pub(crate) read_only: bool,
}

/// Checks that a container can be isolated as it asks, and does not run as root if it must not.
pub(crate) fn check_container(pod: &Pod, container: &Container, image: &Image) -> Result<(), ConfigError> {
    isolation::check_container(pod, container, security::is_privileged(container))?;
    security::check_non_root(pod, container, image)
}

/// The runtime's configuration of a container.
pub(crate) fn container_config(
    pod: &Pod,
    container: &Container,
    parts: ContainerParts<'_>,
    node: &NodeConfig,
) -> Result<ContainerConfig, ConfigError> {
    let known = |name: &str| {
        parts.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    let texts = |key: &str| -> Vec<String> {
        let items = container.tree.items_at(&[key]).iter();
        items.filter_map(Value::as_str).map(|text| expand(text, known)).collect()
    };
    let flag = |key: &str| container.tree.bool_at(&[key]).unwrap_or(false);
    let mut mounts = mounts(container, parts.volume_mounts, parts.recursive_read_only)?;
    mounts.extend(parts.mounts);
    Ok(ContainerConfig {
        metadata: ContainerMetadata { name: container.name.to_string(), attempt: parts.attempt },
        image: ImageSpec {
            image: parts.image_ref.to_owned(),
            user_specified_image: container.image().to_owned(),
            ..ImageSpec::default()
        },
        command: texts("command"),
        args: texts("args"),
        working_dir: container.tree.str_at(&["workingDir"]).unwrap_or_default().to_owned(),
        mounts,
        labels: labels::container_labels(pod, container),
        annotations: labels::container_annotations(pod, container, parts.attempt),
        log_path: labels::log_path(&container.name, parts.attempt),
        stdin: flag("stdin"),
        stdin_once: flag("stdinOnce"),
        tty: flag("tty"),
        linux: LinuxContainerConfig {
            resources: resources::of_container(pod, container, node.memory),
            security_context: security::of_container(pod, container, parts.target.as_deref(), node),
        },
        stop_signal: container.tree.str_at(&["lifecycle", "stopSignal"]).unwrap_or_default().to_owned(),
        devices: Vec::new(),
        envs: parts.environment,
    })
}

fn mounts(
    container: &Container,
    resolved: &[ResolvedMount],
    recursive_read_only: bool,
) -> Result<Vec<Mount>, ConfigError> {
    let asked = container.tree.items_at(&["volumeMounts"]).iter();
    asked
        .zip(resolved)
        .map(|(mount, resolved)| {
            let text = |key: &str| mount.str_at(&[key]).unwrap_or_default();
            let path = text("mountPath");
            let readonly = mount.bool_at(&["readOnly"]).unwrap_or(false) || resolved.read_only;
            Ok(Mount {
                container_path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
                host_path: resolved.host_path.clone(),
                readonly,
                recursive_read_only: is_recursive(mount, readonly, recursive_read_only)?,
                selinux_relabel: false,
                propagation: match text("mountPropagation") {
                    "HostToContainer" => MountPropagation::HostToContainer,
                    "Bidirectional" => MountPropagation::Bidirectional,
                    _ => MountPropagation::Private,
                },
            })
        })
        .collect()
}

/// Returns true if a mount is recursively read-only. One that must be and cannot be is an error in upstream's words,
/// because a runtime without support would leave the mounts below it writable.
fn is_recursive(mount: &Value, readonly: bool, supported: bool) -> Result<bool, ConfigError> {
    let text = |key: &str| mount.str_at(&[key]).unwrap_or_default();
    let volume = text("name");
    let is_private = matches!(text("mountPropagation"), "" | "None");
    match text("recursiveReadOnly") {
        "" | "Disabled" => Ok(false),
        _ if !readonly => Err(ConfigError::RecursiveButWritable(volume.to_owned())),
        _ if !is_private => Err(ConfigError::RecursiveButPropagated {
            volume: volume.to_owned(),
            propagation: text("mountPropagation").to_owned(),
        }),
        "IfPossible" => Ok(supported),
        "Enabled" if !supported => Err(ConfigError::RecursiveUnsupported(volume.to_owned())),
        "Enabled" => Ok(true),
        other => Err(ConfigError::RecursiveMode(other.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn recursive_read_only_needs_a_private_read_only_mount() {
        let check = |mode: &str, propagation: &str, readonly, supported| {
            let mount = value!({"name": "v", "recursiveReadOnly": (mode), "mountPropagation": (propagation)});
            is_recursive(&mount, readonly, supported).ok()
        };
        assert_eq!(check("Enabled", "", true, true), Some(true));
        assert_eq!(check("Enabled", "", true, false), None);
        assert_eq!(check("Enabled", "", false, true), None);
        assert_eq!(check("Enabled", "HostToContainer", true, true), None);
        assert_eq!(check("IfPossible", "None", true, true), Some(true));
        assert_eq!(check("IfPossible", "", true, false), Some(false));
        assert_eq!(check("Disabled", "", true, true), Some(false));
        assert_eq!(check("", "", true, true), Some(false));
        assert_eq!(check("Sometimes", "", true, true), None);
    }
}
