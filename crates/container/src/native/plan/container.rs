//! A container: its first process and its environment.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use corten_sys::wire;

use super::user::Identity;
use super::{capabilities, devices, mounts};
use crate::image::Process;
use crate::native::cgroup::Cgroups;
use crate::{ContainerConfig, Error, NamespaceMode, PodSandboxConfig, Result};

/// The inputs of a plan.
pub(crate) struct Inputs<'a> {
    pub(crate) id: &'a str,
    pub(crate) config: &'a ContainerConfig,
    pub(crate) pod: &'a PodSandboxConfig,
    pub(crate) image: &'a Process,
    pub(crate) identity: &'a Identity,
    pub(crate) sandbox_folder: &'a str,
    pub(crate) folder: &'a str,
    /// The folder of layers, and the image's layers in it, the topmost first.
    pub(crate) layers: (&'a str, &'a [String]),
    pub(crate) cgroups: &'a Cgroups,
    pub(crate) cgroup: &'a str,
    /// Requested devices of the node.
    pub(crate) devices: Vec<wire::Device>,
    pub(crate) seccomp: Vec<u64>,
    pub(crate) apparmor: String,
    pub(crate) log: &'a str,
}

const DEFAULT_PATH: &str = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const LINKS: [(&str, &str); 5] = [
    ("/proc/self/fd", "/dev/fd"),
    ("/proc/self/fd/0", "/dev/stdin"),
    ("/proc/self/fd/1", "/dev/stdout"),
    ("/proc/self/fd/2", "/dev/stderr"),
    ("pts/ptmx", "/dev/ptmx"),
];

pub(crate) fn plan(inputs: &Inputs<'_>) -> Result<wire::Container> {
    let security = &inputs.config.linux.security_context;
    let text = |path: &std::path::PathBuf| path.to_string_lossy().into_owned();
    let mut all_devices = devices::default_devices();
    all_devices.extend(inputs.devices.iter().cloned());
    let hide = |paths: &[String]| if security.privileged { Vec::new() } else { paths.to_vec() };
    Ok(wire::Container {
        id: inputs.id.to_owned(),
        folder: inputs.folder.to_owned(),
        root: format!("{}/root", inputs.folder),
        layers: inputs.layers.0.to_owned(),
        overlay: overlay(inputs.layers.1, inputs.folder),
        read_only: security.readonly_rootfs,
        mounts: mounts::plan(inputs.config, inputs.pod, inputs.sandbox_folder, inputs.cgroups, inputs.cgroup),
        devices: all_devices,
        links: LINKS.map(|(target, path)| (target.to_owned(), path.to_owned())).into(),
        masked: hide(&security.masked_paths),
        read_only_paths: hide(&security.readonly_paths),
        cgroups: inputs.cgroups.process_files(inputs.cgroup).iter().map(text).collect(),
        cgroup_folders: inputs.cgroups.folders(inputs.cgroup).iter().map(text).collect(),
        own_cgroup_namespace: matches!(inputs.cgroups, Cgroups::V2(_)) && !security.privileged,
        oom_counter: inputs.cgroups.oom_counter(inputs.cgroup),
        processes: match security.namespace_options.pid {
            NamespaceMode::Pod => wire::Processes::Pod,
            NamespaceMode::Container => wire::Processes::Own,
            NamespaceMode::Node => wire::Processes::Node,
            NamespaceMode::Target => wire::Processes::Target(security.namespace_options.target_id.clone()),
        },
        process: process(inputs)?,
        log: inputs.log.to_owned(),
        stdin: inputs.config.stdin,
        stdin_once: inputs.config.stdin_once,
    })
}

/// Lower layers are relative to the folder of layers, to be short. Without any there is an empty one.
fn overlay(layers: &[String], folder: &str) -> String {
    let lower = if layers.is_empty() { format!("{folder}/empty") } else { layers.join(":") };
    format!("lowerdir={lower},upperdir={folder}/upper,workdir={folder}/work")
}

fn process(inputs: &Inputs<'_>) -> Result<wire::Process> {
    let (config, image) = (inputs.config, inputs.image);
    let security = &config.linux.security_context;
    let user = &inputs.identity.user;
    let id = |id: i64| u32::try_from(id).map_err(|_| Error::InvalidArgument(format!("invalid id {id}")));
    let set = capabilities::set(&security.capabilities, security.privileged)?;
    let ambient = capabilities::bits(security.capabilities.add_ambient.iter().map(String::as_str))?;
    let cwd = [&config.working_dir, &image.working_dir].into_iter().find(|cwd| !cwd.is_empty());
    Ok(wire::Process {
        args: command(config, image)?,
        env: environment(inputs),
        cwd: cwd.map_or("/", String::as_str).to_owned(),
        uid: id(user.uid)?,
        gid: id(user.gid)?,
        groups: user.supplemental_groups.iter().map(|&group| id(group)).collect::<Result<_>>()?,
        umask: 0o022,
        terminal: config.tty,
        bounding: set,
        effective: set,
        inheritable: ambient,
        ambient: ambient & set,
        no_new_privileges: security.no_new_privs,
        seccomp: inputs.seccomp.clone(),
        seccomp_flags: 0,
        apparmor: inputs.apparmor.clone(),
        limits: Vec::new(),
        oom_score_adj: i32::try_from(config.linux.resources.oom_score_adj).unwrap_or_default(),
        columns: 0,
        rows: 0,
    })
}

/// The image's arguments apply only with the image's command.
fn command(config: &ContainerConfig, image: &Process) -> Result<Vec<String>> {
    let (command, args) = match (config.command.is_empty(), config.args.is_empty()) {
        (true, true) => (&image.entrypoint, &image.cmd),
        (true, false) => (&image.entrypoint, &config.args),
        (false, _) => (&config.command, &config.args),
    };
    let all: Vec<String> = command.iter().chain(args).cloned().collect();
    if all.is_empty() { Err(Error::InvalidArgument("no command specified".to_owned())) } else { Ok(all) }
}

/// A later variable replaces an earlier one in its position.
fn environment(inputs: &Inputs<'_>) -> Vec<String> {
    let mut all = vec![DEFAULT_PATH.to_owned()];
    if inputs.config.tty {
        all.push("TERM=xterm".to_owned());
    }
    if !inputs.pod.hostname.is_empty() {
        all.push(format!("HOSTNAME={}", inputs.pod.hostname));
    }
    all.push(format!("HOME={}", inputs.identity.home));
    all.extend(inputs.image.env.iter().cloned());
    all.extend(inputs.config.envs.iter().map(|(key, value)| format!("{key}={value}")));
    without_duplicates(all)
}

/// In linear time: an image may have as many variables as fit into its configuration.
fn without_duplicates(all: Vec<String>) -> Vec<String> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut environment: Vec<String> = Vec::new();
    for entry in all {
        let key = entry.split('=').next().unwrap_or_default().to_owned();
        match places.entry(key) {
            Entry::Occupied(place) => environment[*place.get()] = entry,
            Entry::Vacant(place) => {
                place.insert(environment.len());
                environment.push(entry);
            }
        }
    }
    environment
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|&word| word.to_owned()).collect()
    }

    #[track_caller]
    fn check(asked: (&[&str], &[&str]), expected: &[&str]) {
        let image = Process { entrypoint: words(&["/entry"]), cmd: words(&["a", "b"]), ..Process::default() };
        let config =
            ContainerConfig { command: words(asked.0), args: words(asked.1), ..ContainerConfig::default() };
        assert_eq!(command(&config, &image).unwrap(), words(expected));
    }

    #[test]
    fn commands_replace_the_images() {
        check((&[], &[]), &["/entry", "a", "b"]);
        check((&[], &["c"]), &["/entry", "c"]);
        check((&["x"], &[]), &["x"]);
        check((&["x"], &["y"]), &["x", "y"]);
        assert!(command(&ContainerConfig::default(), &Process::default()).is_err());
    }

    /// With pairwise comparisons this would take hours.
    #[test]
    fn an_environment_of_any_size_is_put_together() {
        let many = (0..1_000_000).map(|number| format!("K{}={number}", number % 500_000)).collect();
        let environment = without_duplicates(many);
        assert_eq!(environment.len(), 500_000);
        assert_eq!(environment[7], "K7=500007");
    }
}
