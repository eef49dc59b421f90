//! One container of a pod.

use corten_api::Value;
use corten_container::{
    ContainerConfig, ContainerMetadata, Image, ImageSpec, LinuxContainerConfig, Mount, MountPropagation,
};

use super::{NodeConfig, isolation, security};
use crate::expansion::expand;
use crate::names;
use crate::pod::{Container, Pod};
use crate::resources;

/// What has been made ready for a container.
#[derive(Debug)]
pub(crate) struct ContainerParts<'a> {
    pub(crate) attempt: u32,
    pub(crate) image: &'a Image,
    /// What the runtime calls the image.
    pub(crate) image_ref: &'a str,
    pub(crate) environment: Vec<(String, String)>,
    /// Where a volume is on the node.
    pub(crate) volume: &'a dyn VolumePaths,
    /// What is mounted besides: the hosts file and the termination log.
    pub(crate) mounts: Vec<Mount>,
    /// The container an ephemeral one looks into.
    pub(crate) target: Option<String>,
    /// Whether the pod's handler makes mounts read-only with all that is mounted below them.
    pub(crate) recursive_read_only: bool,
}

/// Where volumes are on the node.
pub(crate) trait VolumePaths: std::fmt::Debug {
    /// A volume, or what is at a path within it, which is made if it is not there.
    fn path(&self, volume: &str, container: &str, sub_path: Option<SubPath>) -> Result<String, String>;
    /// Whether the volume itself may only be read.
    fn is_read_only(&self, volume: &str) -> bool;
}

/// A path within a volume.
#[derive(Debug)]
pub(crate) struct SubPath {
    /// Of the container's mounts.
    pub(crate) index: usize,
    pub(crate) path: String,
}

pub(crate) fn container_config(
    pod: &Pod,
    container: &Container,
    parts: ContainerParts<'_>,
    node: &NodeConfig,
) -> Result<ContainerConfig, String> {
    isolation::check_container(pod, container, security::is_privileged(container))?;
    security::check_non_root(pod, container, parts.image)?;
    let known = |name: &str| {
        parts.environment.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    let texts = |key: &str| -> Vec<String> {
        let items = container.tree.items_at(&[key]).iter();
        items.filter_map(Value::as_str).map(|text| expand(text, known)).collect()
    };
    let flag = |key: &str| container.tree.bool_at(&[key]).unwrap_or(false);
    let mut mounts = mounts(container, parts.volume, parts.recursive_read_only, &known)?;
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
        labels: names::container_labels(pod, container),
        annotations: names::container_annotations(pod, container, parts.attempt),
        log_path: names::log_path(&container.name, parts.attempt),
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

fn mounts<'a>(
    container: &Container,
    volumes: &dyn VolumePaths,
    recursive_read_only: bool,
    known: &impl Fn(&str) -> Option<&'a str>,
) -> Result<Vec<Mount>, String> {
    let asked = container.tree.items_at(&["volumeMounts"]).iter();
    asked
        .enumerate()
        .map(|(index, mount)| {
            let text = |key: &str| mount.str_at(&[key]).unwrap_or_default();
            let volume = text("name");
            let sub_path = match text("subPathExpr") {
                "" => text("subPath").to_owned(),
                expression => whole_expansion(expression, known)?,
            };
            let sub_path = Some(sub_path).filter(|path| !path.is_empty()).map(|path| SubPath { index, path });
            let path = text("mountPath");
            let readonly = mount.bool_at(&["readOnly"]).unwrap_or(false) || volumes.is_read_only(volume);
            Ok(Mount {
                container_path: if path.starts_with('/') { path.to_owned() } else { format!("/{path}") },
                host_path: volumes.path(volume, &container.name, sub_path)?,
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

/// Whether a mount is read-only with all that is mounted below it. One that has to be and cannot be is refused, in
/// upstream's words: a runtime that does not know of it would leave what is below writable.
fn is_recursive(mount: &Value, readonly: bool, supported: bool) -> Result<bool, String> {
    let text = |key: &str| mount.str_at(&[key]).unwrap_or_default();
    let volume = text("name");
    let is_private = matches!(text("mountPropagation"), "" | "None");
    match text("recursiveReadOnly") {
        "" | "Disabled" => Ok(false),
        _ if !readonly => {
            Err(format!("volume {volume:?} requested recursive read-only mode, but it is not read-only"))
        }
        _ if !is_private => Err(format!(
            "volume {volume:?} requested recursive read-only mode, but it is not compatible with propagation {:?}",
            text("mountPropagation")
        )),
        "IfPossible" => Ok(supported),
        "Enabled" if !supported => Err(format!(
            "volume {volume:?} requested recursive read-only mode, but it is not supported by the runtime"
        )),
        "Enabled" => Ok(true),
        other => Err(format!("unknown recursive read-only mode {other:?}")),
    }
}

/// An expansion of which nothing may be left over.
fn whole_expansion<'a>(text: &str, known: &impl Fn(&str) -> Option<&'a str>) -> Result<String, String> {
    let missing = std::cell::RefCell::new(Vec::new());
    let expanded = expand(text, |name| {
        let value = known(name);
        if value.is_none() {
            missing.borrow_mut().push(name.to_owned());
        }
        value
    });
    match missing.into_inner().first() {
        None => Ok(expanded),
        Some(name) => Err(format!("missing value for {name:?}")),
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn mounts_are_read_only_with_all_below_or_not_at_all() {
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
