//! Cgroups, version 1 and 2: their paths, and the values of their files.
//!
//! Values are computed in pure functions; the folders of a container are created by [`Cgroups::create`] and
//! removed by [`Cgroups::remove`]. The cgroups above a container's belong to the caller.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use corten_base::files;

use super::plan::devices::Rule;
use crate::LinuxContainerResources;

/// The node's hierarchies.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cgroups {
    /// One mount for each controller or group of controllers.
    V1(Vec<Hierarchy>),
    /// One mount for all controllers.
    V2(PathBuf),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hierarchy {
    pub controllers: Vec<String>,
    pub mountpoint: PathBuf,
}

/// A file of a controller and its value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Setting {
    /// Empty in version 2.
    pub controller: &'static str,
    pub file: String,
    pub value: String,
    /// True if the kernel may lack the file.
    pub optional: bool,
}

impl Cgroups {
    /// Detects the hierarchies from the node's mounts.
    pub fn detect() -> io::Result<Cgroups> {
        Ok(Cgroups::from_mounts(&fs::read_to_string("/proc/self/mounts")?))
    }

    /// Version 1 if one of its controllers is mounted.
    pub fn from_mounts(mounts: &str) -> Cgroups {
        let mut hierarchies = Vec::new();
        let mut unified = None;
        for line in mounts.lines() {
            let mut fields = line.split(' ').skip(1);
            let (Some(path), Some(kind), Some(options)) = (fields.next(), fields.next(), fields.next())
            else {
                continue;
            };
            match kind {
                "cgroup2" => unified = unified.or(Some(PathBuf::from(path))),
                "cgroup" => {
                    let known = |option: &&str| CONTROLLERS.contains(option) || option.starts_with("name=");
                    let controllers: Vec<String> =
                        options.split(',').filter(known).map(str::to_owned).collect();
                    let seen = |h: &Hierarchy| h.controllers == controllers;
                    if !controllers.is_empty() && !hierarchies.iter().any(seen) {
                        hierarchies.push(Hierarchy { controllers, mountpoint: path.into() });
                    }
                }
                _ => {}
            }
        }
        match (hierarchies.is_empty(), unified) {
            (true, Some(root)) => Cgroups::V2(root),
            (true, None) => Cgroups::V2("/sys/fs/cgroup".into()),
            (false, _) => Cgroups::V1(hierarchies),
        }
    }

    /// A cgroup's folders in every hierarchy.
    pub fn folders(&self, path: &str) -> Vec<PathBuf> {
        let path = path.trim_start_matches('/');
        match self {
            Cgroups::V1(hierarchies) => hierarchies.iter().map(|h| h.mountpoint.join(path)).collect(),
            Cgroups::V2(root) => vec![root.join(path)],
        }
    }

    /// A cgroup's folder for one controller.
    pub fn folder(&self, controller: &str, path: &str) -> Option<PathBuf> {
        let path = path.trim_start_matches('/');
        match self {
            Cgroups::V1(hierarchies) => {
                let has = |h: &&Hierarchy| h.controllers.iter().any(|name| name == controller);
                hierarchies.iter().find(has).map(|h| h.mountpoint.join(path))
            }
            Cgroups::V2(root) => Some(root.join(path)),
        }
    }

    /// The files through which a process joins a cgroup.
    pub fn process_files(&self, path: &str) -> Vec<PathBuf> {
        self.folders(path).into_iter().map(|folder| folder.join("cgroup.procs")).collect()
    }

    /// The file and field that count OOM kills.
    pub fn oom_counter(&self, path: &str) -> (String, String) {
        let file = match self {
            Cgroups::V1(_) => "memory.oom_control",
            Cgroups::V2(_) => "memory.events",
        };
        let folder = self.folder("memory", path).unwrap_or_default();
        (folder.join(file).to_string_lossy().into_owned(), "oom_kill ".to_owned())
    }

    /// Creates a cgroup and its missing parents.
    pub fn create(&self, path: &str) -> io::Result<()> {
        match self {
            Cgroups::V1(hierarchies) => hierarchies.iter().try_for_each(|hierarchy| {
                let is_cpuset = hierarchy.controllers.iter().any(|name| name == "cpuset");
                descend(&hierarchy.mountpoint, path, |parent, folder| {
                    if is_cpuset { inherit_cpuset(parent, folder) } else { Ok(()) }
                })
            }),
            Cgroups::V2(root) => descend(root, path, |parent, _| {
                let available = fs::read_to_string(parent.join("cgroup.controllers"))?;
                let all: Vec<String> = available.split_whitespace().map(|name| format!("+{name}")).collect();
                // Fails for a cgroup with processes of its own; a missing controller then fails where it is set.
                let _ = fs::write(parent.join("cgroup.subtree_control"), all.join(" "));
                Ok(())
            }),
        }
    }

    /// Writes settings into a cgroup's files.
    pub fn apply(&self, path: &str, settings: &[Setting]) -> io::Result<()> {
        for setting in settings {
            let Some(folder) = self.folder(setting.controller, path) else { continue };
            let file = folder.join(&setting.file);
            match fs::write(&file, &setting.value) {
                Err(error) if !setting.optional => {
                    let text = format!("cannot write {:?} to {}: {error}", setting.value, file.display());
                    return Err(io::Error::new(error.kind(), text));
                }
                _ => {}
            }
        }
        Ok(())
    }

    /// Allows the cgroup these devices and no others.
    pub(crate) fn allow_devices(&self, path: &str, rules: &[Rule]) -> io::Result<()> {
        let Cgroups::V1(_) = self else {
            let folder = self.folder("devices", path).unwrap_or_default();
            let allowed: Vec<corten_sys::devices::Allowed> = rules.iter().map(Rule::allowed).collect();
            return corten_sys::devices::allow_only(&folder, &allowed);
        };
        let mut settings = vec![set("devices", "devices.deny", "a")];
        settings.extend(rules.iter().map(|rule| set("devices", "devices.allow", rule.line())));
        self.apply(path, &settings)
    }

    /// The settings of resources.
    pub fn settings(&self, resources: &LinuxContainerResources) -> Vec<Setting> {
        match self {
            Cgroups::V1(_) => settings_v1(resources),
            Cgroups::V2(_) => settings_v2(resources),
        }
    }

    /// The processes of a cgroup and those below it.
    pub fn processes(&self, path: &str) -> Vec<i32> {
        let mut found = Vec::new();
        let mut folders = self.folders(path);
        while let Some(folder) = folders.pop() {
            let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
            found.extend(text.lines().filter_map(|line| line.parse::<i32>().ok()).filter(|&pid| pid > 0));
            folders.extend(below(&folder));
        }
        found.sort_unstable();
        found.dedup();
        found
    }

    /// Kills all processes of a cgroup and removes it. Blocks until it is gone, for a second at most.
    pub fn remove(&self, path: &str) -> io::Result<()> {
        let mut pause = Duration::from_millis(1);
        loop {
            for pid in self.processes(path) {
                if let Some(pid) = rustix::process::Pid::from_raw(pid) {
                    // Fails if it has just exited.
                    let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
                }
            }
            match self.folders(path).iter().try_for_each(|folder| remove_folders(folder)) {
                Err(error) if error.kind() == io::ErrorKind::ResourceBusy && pause.as_millis() < 512 => {
                    std::thread::sleep(pause);
                    pause *= 2;
                }
                other => return other,
            }
        }
    }
}

const CONTROLLERS: [&str; 13] = [
    "cpuset",
    "cpu",
    "cpuacct",
    "blkio",
    "memory",
    "devices",
    "freezer",
    "net_cls",
    "perf_event",
    "net_prio",
    "hugetlb",
    "pids",
    "rdma",
];

fn below(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()))
        .map(|entry| entry.path())
        .collect()
}

fn remove_folders(folder: &Path) -> io::Result<()> {
    below(folder).iter().try_for_each(|folder| remove_folders(folder))?;
    match fs::remove_dir(folder) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Creates every folder on the way, each after its parent was prepared.
fn descend(root: &Path, path: &str, prepare: impl Fn(&Path, &Path) -> io::Result<()>) -> io::Result<()> {
    let mut folder = root.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        let parent = folder.clone();
        folder.push(part);
        match fs::create_dir(&folder) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                let text = format!("cannot create cgroup {}: {error}", folder.display());
                return Err(io::Error::new(error.kind(), text));
            }
            // Processes of containers read theirs, as any user.
            Ok(()) => files::directory(&folder, 0o755)?,
            Err(_) => {}
        }
        prepare(&parent, &folder)?;
    }
    Ok(())
}

/// A new cpuset is empty and accepts no process until it has its parent's values.
fn inherit_cpuset(parent: &Path, folder: &Path) -> io::Result<()> {
    for file in ["cpuset.cpus", "cpuset.mems"] {
        if fs::read_to_string(folder.join(file))?.trim().is_empty() {
            fs::write(folder.join(file), fs::read_to_string(parent.join(file))?.trim())?;
        }
    }
    Ok(())
}

fn set(controller: &'static str, file: impl Into<String>, value: impl std::fmt::Display) -> Setting {
    Setting { controller, file: file.into(), value: format!("{value}"), optional: false }
}

fn settings_v1(resources: &LinuxContainerResources) -> Vec<Setting> {
    let mut settings = Vec::new();
    let r = resources;
    if r.cpu_shares != 0 {
        settings.push(set("cpu", "cpu.shares", r.cpu_shares));
    }
    if r.cpu_period != 0 {
        settings.push(set("cpu", "cpu.cfs_period_us", r.cpu_period));
    }
    if r.cpu_quota != 0 {
        settings.push(set("cpu", "cpu.cfs_quota_us", r.cpu_quota));
    }
    if r.memory_limit_in_bytes != 0 {
        settings.push(set("memory", "memory.limit_in_bytes", r.memory_limit_in_bytes));
    }
    if r.memory_swap_limit_in_bytes != 0 {
        let swap = set("memory", "memory.memsw.limit_in_bytes", r.memory_swap_limit_in_bytes);
        settings.push(Setting { optional: true, ..swap });
    }
    settings.extend(cpusets(r, "cpuset"));
    for huge in &r.hugepage_limits {
        let limit = set("hugetlb", format!("hugetlb.{}.limit_in_bytes", huge.page_size), huge.limit);
        settings.push(Setting { optional: true, ..limit });
    }
    settings
}

fn settings_v2(resources: &LinuxContainerResources) -> Vec<Setting> {
    let mut settings = Vec::new();
    let r = resources;
    if r.cpu_shares != 0 {
        settings.push(set("", "cpu.weight", weight(r.cpu_shares)));
    }
    if r.cpu_quota != 0 || r.cpu_period != 0 {
        let period = if r.cpu_period == 0 { 100_000 } else { r.cpu_period };
        let quota = if r.cpu_quota > 0 { r.cpu_quota.to_string() } else { "max".to_owned() };
        settings.push(set("", "cpu.max", format!("{quota} {period}")));
    }
    let bytes = |limit: i64| if limit < 0 { "max".to_owned() } else { limit.to_string() };
    if r.memory_limit_in_bytes != 0 {
        settings.push(set("", "memory.max", bytes(r.memory_limit_in_bytes)));
    }
    if r.memory_swap_limit_in_bytes != 0 {
        // Version 2 counts swap alone, the CRI memory and swap.
        let swap = match r.memory_swap_limit_in_bytes {
            limit if limit > 0 => (limit - r.memory_limit_in_bytes).max(0),
            limit => limit,
        };
        settings.push(Setting { optional: true, ..set("", "memory.swap.max", bytes(swap)) });
    }
    settings.extend(cpusets(r, ""));
    for huge in &r.hugepage_limits {
        let limit = set("", format!("hugetlb.{}.max", huge.page_size), huge.limit);
        settings.push(Setting { optional: true, ..limit });
    }
    settings.extend(r.unified.iter().map(|(file, value)| set("", file.as_str(), value)));
    settings
}

fn cpusets(resources: &LinuxContainerResources, controller: &'static str) -> Vec<Setting> {
    let sets = [("cpuset.cpus", &resources.cpuset_cpus), ("cpuset.mems", &resources.cpuset_mems)];
    sets.into_iter()
        .filter(|(_, set)| !set.is_empty())
        .map(|(file, value)| set(controller, file, value))
        .collect()
}

/// Shares of version 1 (2 to 262144, 1024 by default) as a weight of version 2 (1 to 10000, 100 by default).
fn weight(shares: i64) -> u64 {
    match shares {
        ..=2 => 1,
        262_144.. => 10_000,
        shares => {
            let log = (shares as f64).log2();
            let exponent = (log * log + 125.0 * log) / 612.0 - 7.0 / 34.0;
            10f64.powf(exponent).ceil() as u64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const V1: &str = "\
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,relatime,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup /sys/fs/cgroup/systemd cgroup rw,name=systemd 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
";

    #[test]
    fn hierarchies_are_found() {
        let v1 = Cgroups::from_mounts(V1);
        let cpu = PathBuf::from("/sys/fs/cgroup/cpu,cpuacct/kubepods/x");
        assert_eq!(v1.folder("cpuacct", "/kubepods/x"), Some(cpu));
        assert_eq!(v1.folder("pids", "/kubepods/x"), None);
        assert_eq!(v1.folders("/x").len(), 3);
        let v2 = Cgroups::from_mounts("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        assert_eq!(v2, Cgroups::V2("/sys/fs/cgroup".into()));
    }

    #[track_caller]
    fn check(cgroups: &Cgroups, resources: &LinuxContainerResources, expected: &[(&str, &str)]) {
        let settings = cgroups.settings(resources);
        let found: Vec<(&str, &str)> = settings.iter().map(|s| (s.file.as_str(), s.value.as_str())).collect();
        assert_eq!(found, expected);
    }

    #[test]
    fn resources_become_settings() {
        let resources = LinuxContainerResources {
            cpu_shares: 1024,
            cpu_quota: 50_000,
            cpu_period: 100_000,
            memory_limit_in_bytes: 1 << 20,
            memory_swap_limit_in_bytes: 1 << 20,
            cpuset_cpus: "0".to_owned(),
            ..LinuxContainerResources::default()
        };
        let v1 = [
            ("cpu.shares", "1024"),
            ("cpu.cfs_period_us", "100000"),
            ("cpu.cfs_quota_us", "50000"),
            ("memory.limit_in_bytes", "1048576"),
            ("memory.memsw.limit_in_bytes", "1048576"),
            ("cpuset.cpus", "0"),
        ];
        check(&Cgroups::from_mounts(V1), &resources, &v1);
        let v2 = [
            ("cpu.weight", "100"),
            ("cpu.max", "50000 100000"),
            ("memory.max", "1048576"),
            ("memory.swap.max", "0"),
            ("cpuset.cpus", "0"),
        ];
        check(&Cgroups::V2("/c".into()), &resources, &v2);
        check(&Cgroups::V2("/c".into()), &LinuxContainerResources::default(), &[]);
    }

    #[test]
    fn weights_span_the_range() {
        assert_eq!([0, 2, 3, 1024, 262_144, 300_000].map(weight), [1, 1, 2, 100, 10_000, 10_000]);
    }
}
