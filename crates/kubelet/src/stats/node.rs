//! The node as a whole: its root cgroup, its disks, its interfaces and its processes.

use std::path::Path;

use corten_container::native::usage::{self, Folder, Memory, Usage};
use corten_container::{NetworkInterfaceUsage, NetworkUsage};
use jiff::Timestamp;

use super::{ContainerStats, Detail, FsStats, Measured, NodeStats, Processes, file_system};
use crate::kubelet::Kubelet;

/// All pods.
const PODS: &str = "/kubepods";

pub(super) async fn collect(kubelet: &Kubelet, detail: Detail) -> corten_container::Result<NodeStats> {
    let now = kubelet.clock.now();
    let usage = root(kubelet);
    let mut node = NodeStats {
        started: boot_time().unwrap_or(now),
        cpu: usage.cri_cpu(now),
        memory: usage.cri_memory(now),
        swap: usage.cri_swap(now),
        io: usage.cri_io(now),
        system: system(kubelet, now),
        ..NodeStats::default()
    };
    kubelet.stats.rate("/", &mut node.cpu);
    if detail == Detail::Everything {
        node.network = network(now);
        node.fs = file_system(kubelet.volumes.root(), now);
        (node.image_fs, node.container_fs) = images(kubelet, now).await?;
        node.processes = processes_of_node(now);
    }
    Ok(node)
}

/// The available and the used amount of a resource.
type Left = Option<(u64, u64)>;

/// The memory of the node, and that of all its pods together; the latter only if they are limited.
pub(crate) fn memory(kubelet: &Kubelet) -> (Left, Left) {
    let left = |memory: Memory| {
        let used = memory.working_set();
        Some((memory.limit?.saturating_sub(used), used))
    };
    let pods = usage::read(&Folder { cgroups: kubelet.resources.cgroups.hierarchies(), path: PODS });
    (root(kubelet).memory.and_then(left), pods.memory.and_then(left))
}

/// The root cgroup. Cgroup v2 has no memory counters there, so the machine's own stand for it.
fn root(kubelet: &Kubelet) -> Usage {
    let folder = Folder { cgroups: kubelet.resources.cgroups.hierarchies(), path: "/" };
    let mut usage = usage::read(&folder);
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    if usage.memory.is_none() {
        let stat = usage::Files::text(&folder, "memory", "memory.stat").unwrap_or_default();
        usage.memory = memory_of_machine(&text, &stat);
    }
    if let Some(memory) = &mut usage.memory {
        memory.limit = kilobytes(&text, "MemTotal");
    }
    usage
}

/// The memory usage of the machine, from its own counters and those of the root cgroup.
fn memory_of_machine(meminfo: &str, stat: &str) -> Option<Memory> {
    let all = kilobytes(meminfo, "MemTotal")?;
    let stat = |name: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|count| count.trim().parse().ok())
    };
    let of_machine = |name: &str| kilobytes(meminfo, name);
    Some(Memory {
        usage: all.saturating_sub(of_machine("MemFree")?),
        swap: Some(of_machine("SwapTotal")?.saturating_sub(of_machine("SwapFree")?)),
        cache: of_machine("Cached"),
        rss: stat("anon").or_else(|| of_machine("AnonPages")),
        mapped_file: of_machine("Mapped"),
        active_file: of_machine("Active(file)"),
        inactive_file: stat("inactive_file").or_else(|| of_machine("Inactive(file)")),
        page_faults: stat("pgfault"),
        major_page_faults: stat("pgmajfault"),
        ..Memory::default()
    })
}

/// A line `Name:   123 kB`.
fn kilobytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// The system containers that have cgroups of their own.
fn system(kubelet: &Kubelet, now: Timestamp) -> Vec<ContainerStats> {
    let own = own_cgroup(kubelet);
    let mut parts = vec![("pods", PODS.to_owned(), None)];
    if let Some(own) = own {
        parts.insert(0, ("kubelet", own, Some(kubelet.stats.started)));
    }
    let look = |(name, path, started): (&str, String, Option<Timestamp>)| {
        let usage = usage::read(&Folder { cgroups: kubelet.resources.cgroups.hierarchies(), path: &path });
        let mut found = ContainerStats {
            name: name.to_owned(),
            started: started.or_else(boot_time).unwrap_or(now),
            ..ContainerStats::default()
        };
        found.take(&usage, now);
        kubelet.stats.rate(&path, &mut found.cpu);
        found
    };
    parts.into_iter().map(look).collect()
}

/// The cgroup of this process, unless it is the root.
fn own_cgroup(kubelet: &Kubelet) -> Option<String> {
    use corten_container::native::cgroup::Cgroups;
    let text = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let controller = match kubelet.resources.cgroups.hierarchies() {
        Cgroups::V1(_) => "cpuacct",
        Cgroups::V2(_) => "",
    };
    let path = text.lines().find_map(|line| {
        let mut fields = line.splitn(3, ':').skip(1);
        let controllers = fields.next()?;
        controllers.split(',').any(|name| name == controller).then(|| fields.next()).flatten()
    })?;
    (path != "/").then(|| path.to_owned())
}

async fn images(
    kubelet: &Kubelet,
    now: Timestamp,
) -> corten_container::Result<(Option<FsStats>, Option<FsStats>)> {
    let found = kubelet.containers.images.fs_info().await?;
    let stats = |listed: &[corten_container::FilesystemUsage]| {
        let first = listed.first()?;
        let fs = file_system(Path::new(&first.mountpoint), now).unwrap_or_default();
        let used = Measured { bytes: first.used_bytes, inodes: first.inodes_used };
        Some(FsStats { at: first.timestamp, ..fs.with_used(used) })
    };
    Ok((stats(&found.image_filesystems), stats(&found.container_filesystems)))
}

fn network(now: Timestamp) -> Option<NetworkUsage> {
    let interfaces: Vec<NetworkInterfaceUsage> = interfaces("/proc/net/dev")?
        .into_iter()
        .map(|interface| NetworkInterfaceUsage {
            name: interface.name,
            rx_bytes: interface.received.bytes,
            rx_errors: interface.received.errors,
            tx_bytes: interface.sent.bytes,
            tx_errors: interface.sent.errors,
        })
        .collect();
    let default_interface = interfaces.iter().find(|interface| interface.name == "eth0").cloned();
    Some(NetworkUsage { timestamp: now, default_interface, interfaces })
}

/// The counters of an interface.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Interface {
    pub(crate) name: String,
    pub(crate) received: Traffic,
    pub(crate) sent: Traffic,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Traffic {
    pub(crate) bytes: u64,
    pub(crate) packets: u64,
    pub(crate) errors: u64,
    pub(crate) dropped: u64,
}

/// The interfaces in a table such as `/proc/net/dev`, except for the loopback and those of single pods.
pub(crate) fn interfaces(path: &str) -> Option<Vec<Interface>> {
    Some(read_interfaces(&std::fs::read_to_string(path).ok()?))
}

fn read_interfaces(table: &str) -> Vec<Interface> {
    let row = |line: &str| {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        let traffic = |from: usize| {
            let at = |offset: usize| counts.get(from + offset).copied();
            Some(Traffic { bytes: at(0)?, packets: at(1)?, errors: at(2)?, dropped: at(3)? })
        };
        Some(Interface { name: name.trim().to_owned(), received: traffic(0)?, sent: traffic(8)? })
    };
    let others = |name: &str| name == "lo" || name.starts_with("veth") || name.starts_with("docker");
    table.lines().filter_map(row).filter(|interface| !others(&interface.name)).collect()
}

/// The number of processes and threads, and the smallest limit on it.
pub(crate) fn processes_of_node(now: Timestamp) -> Option<Processes> {
    let number = |path: &str| std::fs::read_to_string(path).ok()?.trim().parse::<i64>().ok();
    let load = std::fs::read_to_string("/proc/loadavg").ok()?;
    let running = load.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()?;
    let limits = ["/proc/sys/kernel/pid_max", "/proc/sys/kernel/threads-max"].into_iter().filter_map(number);
    Some(Processes { at: now, most: limits.min()?, running })
}

/// The boot time of the machine.
pub(crate) fn boot_time() -> Option<Timestamp> {
    let text = std::fs::read_to_string("/proc/stat").ok()?;
    let line = text.lines().find_map(|line| line.strip_prefix("btime "))?;
    Timestamp::from_second(line.trim().parse().ok()?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_counters_stand_for_the_root_cgroup() {
        let meminfo = "MemTotal:    1000 kB\nMemFree:      400 kB\nCached:       300 kB\nMapped: 10 kB\n\
                       SwapTotal:     50 kB\nSwapFree:      20 kB\nInactive(file): 5 kB\nAnonPages: 7 kB\n";
        let stat = "anon 2048\ninactive_file 102400\npgfault 3\n";
        let found = memory_of_machine(meminfo, stat).unwrap();
        assert_eq!((found.usage, found.working_set()), (600 * 1024, 500 * 1024));
        assert_eq!((found.rss, found.swap, found.page_faults), (Some(2048), Some(30 * 1024), Some(3)));
        let alone = memory_of_machine(meminfo, "").unwrap();
        assert_eq!((alone.rss, alone.inactive_file), (Some(7 * 1024), Some(5 * 1024)));
        assert_eq!(memory_of_machine("", stat), None);
    }

    #[test]
    fn interfaces_are_read_by_column() {
        let table = "\
Inter-|   Receive                                                |  Transmit
 face |bytes    packets errs drop fifo frame compressed multicast|bytes    packets errs drop fifo colls carrier compressed
    lo: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
  eth0: 100 2 3 4 0 0 0 0 200 5 6 7 0 0 0 0
vethab: 1 1 0 0 0 0 0 0 1 1 0 0 0 0 0 0
";
        let received = Traffic { bytes: 100, packets: 2, errors: 3, dropped: 4 };
        let sent = Traffic { bytes: 200, packets: 5, errors: 6, dropped: 7 };
        assert_eq!(read_interfaces(table), [Interface { name: "eth0".into(), received, sent }]);
    }
}
