//! The mounts of a container, in order.

use corten_sys::wire;

use super::flag;
use crate::native::cgroup::Cgroups;
use crate::{ContainerConfig, Mount, MountPropagation, NamespaceMode, PodSandboxConfig};

/// Files of a sandbox that its containers get unless they mount their own.
const SANDBOX_FILES: [(&str, &str); 3] =
    [("/etc/hostname", "hostname"), ("/etc/hosts", "hosts"), ("/etc/resolv.conf", "resolv.conf")];

pub(crate) fn plan(
    config: &ContainerConfig,
    pod: &PodSandboxConfig,
    sandbox_folder: &str,
    cgroups: &Cgroups,
    cgroup: &str,
) -> Vec<wire::Mount> {
    let privileged = config.linux.security_context.privileged;
    let own_ipc = pod.linux.security_context.namespace_options.ipc != NamespaceMode::Node;
    let mut mounts = system(privileged, own_ipc);
    mounts.extend(cgroup_mounts(cgroups, cgroup, privileged));
    let brought = |path: &str| config.mounts.iter().any(|mount| clean(&mount.container_path) == path);
    mounts.retain(|mount| !brought(&mount.target));
    let files = SANDBOX_FILES.iter().filter(|(path, _)| !brought(path));
    mounts.extend(
        files.map(|(path, file)| bind(&format!("{sandbox_folder}/{file}"), path, read_only_root(config))),
    );
    // A mount inside another one has to come after it.
    let mut asked: Vec<&Mount> = config.mounts.iter().collect();
    asked.sort_by_key(|mount| clean(&mount.container_path).matches('/').count());
    mounts.extend(asked.into_iter().map(of));
    mounts
}

fn read_only_root(config: &ContainerConfig) -> bool {
    config.linux.security_context.readonly_rootfs
}

/// The normalized path, for comparisons: without `.`, `..` and a trailing slash.
fn clean(path: &str) -> String {
    let mut parts = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(parts.pop()),
            part => parts.push(part),
        }
    }
    parts.iter().fold(String::new(), |path, part| path + "/" + part)
}

fn system(privileged: bool, own_ipc: bool) -> Vec<wire::Mount> {
    use flag::{NODEV, NOEXEC, NOSUID, RDONLY, STRICTATIME};
    let strict = NOSUID | NOEXEC | NODEV;
    let sys = strict | if privileged { 0 } else { RDONLY };
    let terminals = "newinstance,ptmxmode=0666,mode=0620,gid=5";
    vec![
        of_kind("proc", "/proc", strict, ""),
        of_kind("tmpfs", "/dev", NOSUID | STRICTATIME, "mode=755,size=65536k"),
        of_kind("devpts", "/dev/pts", NOSUID | NOEXEC, terminals),
        bind(if own_ipc { "shm:" } else { "/dev/shm" }, "/dev/shm", false),
        of_kind("mqueue", "/dev/mqueue", strict, ""),
        of_kind("sysfs", "/sys", sys, ""),
    ]
}

fn cgroup_mounts(cgroups: &Cgroups, cgroup: &str, privileged: bool) -> Vec<wire::Mount> {
    use flag::{NODEV, NOEXEC, NOSUID, RDONLY};
    let strict = NOSUID | NOEXEC | NODEV;
    let guarded = strict | if privileged { 0 } else { RDONLY };
    match cgroups {
        Cgroups::V2(_) => vec![of_kind("cgroup2", "/sys/fs/cgroup", guarded, "")],
        Cgroups::V1(hierarchies) => {
            let mut mounts = vec![of_kind("tmpfs", "/sys/fs/cgroup", strict, "mode=755,size=64k")];
            mounts.extend(hierarchies.iter().map(|hierarchy| {
                let folder = hierarchy.mountpoint.join(cgroup.trim_start_matches('/'));
                let name = hierarchy.controllers.join(",").replace("name=", "");
                let bound = bind(&folder.to_string_lossy(), &format!("/sys/fs/cgroup/{name}"), false);
                wire::Mount { flags: guarded, ..bound }
            }));
            mounts
        }
    }
}

fn of_kind(kind: &str, target: &str, flags: u64, options: &str) -> wire::Mount {
    wire::Mount {
        source: kind.to_owned(),
        target: target.to_owned(),
        kind: kind.to_owned(),
        flags,
        options: options.to_owned(),
        ..wire::Mount::default()
    }
}

fn bind(source: &str, target: &str, read_only: bool) -> wire::Mount {
    wire::Mount {
        source: source.to_owned(),
        target: target.to_owned(),
        flags: if read_only { flag::RDONLY } else { 0 },
        propagation: flag::PRIVATE | flag::REC,
        ..wire::Mount::default()
    }
}

fn of(mount: &Mount) -> wire::Mount {
    let propagation = match mount.propagation {
        MountPropagation::Private => flag::PRIVATE,
        MountPropagation::HostToContainer => flag::SLAVE,
        MountPropagation::Bidirectional => flag::SHARED,
    };
    wire::Mount {
        propagation: propagation | flag::REC,
        recursive_read_only: mount.recursive_read_only,
        ..bind(&mount.host_path, &clean(&mount.container_path), mount.readonly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mount(container_path: &str) -> Mount {
        let host_path = "/node".to_owned();
        Mount { container_path: container_path.to_owned(), host_path, readonly: true, ..Mount::default() }
    }

    #[test]
    fn paths_are_compared_without_detours() {
        for (path, expected) in [
            ("/proc/", "/proc"),
            ("//proc//.", "/proc"),
            ("/a/../proc", "/proc"),
            ("/../../proc/x/..", "/proc"),
            ("/", ""),
            ("relative", "/relative"),
        ] {
            assert_eq!(clean(path), expected, "{path}");
        }
    }

    #[test]
    fn inner_mounts_come_after_outer_ones() {
        let config = ContainerConfig {
            mounts: vec![mount("/data/a/b"), mount("/etc/hosts"), mount("/data/"), mount("/dev/shm")],
            ..ContainerConfig::default()
        };
        let v2 = Cgroups::V2("/sys/fs/cgroup".into());
        let plan = plan(&config, &PodSandboxConfig::default(), "/run/pod", &v2, "/x");
        let targets: Vec<&str> = plan.iter().map(|mount| mount.target.as_str()).collect();
        let expected = [
            "/proc",
            "/dev",
            "/dev/pts",
            "/dev/mqueue",
            "/sys",
            "/sys/fs/cgroup",
            "/etc/hostname",
            "/etc/resolv.conf",
            "/data",
            "/etc/hosts",
            "/dev/shm",
            "/data/a/b",
        ];
        assert_eq!(targets, expected);
        assert_eq!(plan[8].flags, flag::RDONLY);
        assert_eq!(plan[4].flags & flag::RDONLY, flag::RDONLY);
    }

    #[test]
    fn privileged_containers_may_write_everywhere() {
        let mut config = ContainerConfig::default();
        config.linux.security_context.privileged = true;
        let v1 = Cgroups::from_mounts("cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0\n");
        let plan = plan(&config, &PodSandboxConfig::default(), "/run/pod", &v1, "/x");
        assert!(plan.iter().all(|mount| mount.flags & flag::RDONLY == 0), "{plan:?}");
        assert!(plan.iter().any(|mount| mount.source == "/sys/fs/cgroup/memory/x"));
    }
}
