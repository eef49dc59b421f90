//! Resource usage of pods and containers, read from their cgroups on request.

use std::fs;
use std::path::Path;

use super::usage::{self, Folder, Usage};
use super::*;
use crate::cri::includes;
use crate::{
    ContainerStats, FilesystemUsage, NetworkInterfaceUsage, NetworkUsage, PodSandboxStats, StatsFilter,
};

impl Native {
    pub(super) fn stats_of(&self, id: &str) -> Result<ContainerStats> {
        let record = {
            let state = self.0.state.lock();
            state.containers.get(id).ok_or_else(|| no_container(id))?.record.clone()
        };
        Ok(self.read_stats(&record))
    }

    pub(super) fn list_stats(&self, filter: &StatsFilter) -> Vec<ContainerStats> {
        let records: Vec<ContainerRecord> = {
            let state = self.0.state.lock();
            let running = state.containers.values().filter(|c| matches!(c.phase, Phase::Running { .. }));
            let wanted = running.map(|container| &container.record).filter(|record| {
                filter.id.as_ref().is_none_or(|id| *id == record.id)
                    && filter.pod_sandbox_id.as_ref().is_none_or(|id| *id == record.sandbox_id)
                    && includes(&record.config.labels, &filter.labels)
            });
            wanted.cloned().collect()
        };
        records.iter().map(|record| self.read_stats(record)).collect()
    }

    pub(super) fn sandbox_stats(&self, id: &str) -> Result<PodSandboxStats> {
        let record = {
            let state = self.0.state.lock();
            state.sandboxes.get(id).ok_or_else(|| no_sandbox(id))?.record.clone()
        };
        let pod = record.cgroup.rsplit_once('/').map_or("", |(pod, _)| pod);
        let filter = StatsFilter { pod_sandbox_id: Some(id.to_owned()), ..StatsFilter::default() };
        let (usage, now) = (self.usage(pod), self.0.options.clock.now());
        Ok(PodSandboxStats {
            id: record.id,
            metadata: record.config.metadata,
            labels: record.config.labels,
            annotations: record.config.annotations,
            cpu: usage.cri_cpu(now),
            memory: usage.cri_memory(now),
            io: usage.cri_io(now),
            network: network(record.pid, now),
            process_count: usage.processes,
            containers: self.list_stats(&filter),
        })
    }

    pub(super) fn list_sandbox_stats(&self, filter: &StatsFilter) -> Vec<PodSandboxStats> {
        let ids: Vec<String> = {
            let state = self.0.state.lock();
            let wanted = state.sandboxes.values().filter(|sandbox| {
                sandbox.link.is_some()
                    && filter.id.as_ref().is_none_or(|id| *id == sandbox.record.id)
                    && includes(&sandbox.record.config.labels, &filter.labels)
            });
            wanted.map(|sandbox| sandbox.record.id.clone()).collect()
        };
        // A sandbox that was removed meanwhile is left out.
        ids.iter().filter_map(|id| self.sandbox_stats(id).ok()).collect()
    }

    fn read_stats(&self, record: &ContainerRecord) -> ContainerStats {
        let now = self.0.options.clock.now();
        let usage = self.usage(&record.cgroup);
        let upper = self.container_folder(&record.id).join("upper");
        let (used_bytes, inodes_used) = disk_usage(&upper);
        ContainerStats {
            id: record.id.clone(),
            pod_sandbox_id: record.sandbox_id.clone(),
            metadata: record.config.metadata.clone(),
            labels: record.config.labels.clone(),
            annotations: record.config.annotations.clone(),
            cpu: usage.cri_cpu(now),
            memory: usage.cri_memory(now),
            swap: usage.cri_swap(now),
            io: usage.cri_io(now),
            writable_layer: Some(FilesystemUsage {
                timestamp: now,
                mountpoint: self.0.options.data_dir.to_string_lossy().into_owned(),
                used_bytes,
                inodes_used,
            }),
            process_count: usage.processes,
        }
    }

    fn usage(&self, cgroup: &str) -> Usage {
        usage::read(&Folder { cgroups: &self.0.cgroups, path: cgroup })
    }
}

/// The network interfaces of the pod.
fn network(pid: u32, now: jiff::Timestamp) -> Option<NetworkUsage> {
    let interfaces = interfaces(&fs::read_to_string(format!("/proc/{pid}/net/dev")).ok()?);
    let default_interface = interfaces.iter().find(|interface| interface.name == "eth0").cloned();
    Some(NetworkUsage { timestamp: now, default_interface, interfaces })
}

fn interfaces(table: &str) -> Vec<NetworkInterfaceUsage> {
    let rows = table.lines().filter_map(|line| {
        let (name, counts) = line.split_once(':')?;
        let counts: Vec<u64> = counts.split_whitespace().map(str::parse).collect::<Result<_, _>>().ok()?;
        Some(NetworkInterfaceUsage {
            name: name.trim().to_owned(),
            rx_bytes: *counts.first()?,
            rx_errors: *counts.get(2)?,
            tx_bytes: *counts.get(8)?,
            tx_errors: *counts.get(10)?,
        })
    });
    rows.filter(|interface| interface.name != "lo").collect()
}

/// Bytes and inodes below a folder.
pub(super) fn disk_usage(folder: &Path) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    let (mut bytes, mut inodes) = (0, 0);
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(data) = entry.metadata() else { continue };
            bytes += data.blocks() * 512;
            inodes += 1;
            if data.is_dir() {
                folders.push(entry.path());
            }
        }
    }
    (bytes, inodes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn interfaces_are_read_by_column() {
        let table = "\
Inter-|   Receive  |  Transmit
 face |bytes packets errs drop fifo frame compressed multicast|bytes packets errs drop fifo colls carrier compressed
    lo:       0       0    0    0    0     0          0         0        0       0    0    0    0     0       0          0
  eth0:     100       2    3    0    0     0          0         0      200       5    6    0    0     0       0          0
";
        let expected = NetworkInterfaceUsage {
            name: "eth0".to_owned(),
            rx_bytes: 100,
            rx_errors: 3,
            tx_bytes: 200,
            tx_errors: 6,
        };
        assert_eq!(interfaces(table), [expected]);
    }
}
