//! Usage and limits of a cgroup, read from the files of either version.
//!
//! [`read`] is pure over the texts of the files; [`Folder`] reads them. Values that a kernel does not provide are
//! `None`,
//! never zero.

mod fields;
#[cfg(test)]
mod tests;

use std::fs;

use jiff::Timestamp;

use super::cgroup::Cgroups;
use crate::{CpuUsage, IoUsage, MemoryUsage, PsiStats, SwapUsage};
use fields::{field, io_v1, io_v2, limit, number, pressure};

/// The files of one cgroup.
pub trait Files {
    /// True if all controllers share one folder.
    fn is_unified(&self) -> bool;
    fn text(&self, controller: &str, file: &str) -> Option<String>;
}

/// A cgroup of this machine.
#[derive(Debug, Clone, Copy)]
pub struct Folder<'a> {
    pub cgroups: &'a Cgroups,
    /// Such as `/kubepods/burstable`.
    pub path: &'a str,
}

impl Files for Folder<'_> {
    fn is_unified(&self) -> bool {
        matches!(self.cgroups, Cgroups::V2(_))
    }

    fn text(&self, controller: &str, file: &str) -> Option<String> {
        fs::read_to_string(self.cgroups.folder(controller, self.path)?.join(file)).ok()
    }
}

/// The usage of a cgroup at one time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Usage {
    pub cpu: Option<Cpu>,
    pub memory: Option<Memory>,
    pub processes: Option<u64>,
    pub most_processes: Option<u64>,
    /// By device and kind of operation.
    pub io: Vec<Io>,
    pub cpu_pressure: Option<PsiStats>,
    pub memory_pressure: Option<PsiStats>,
    pub io_pressure: Option<PsiStats>,
}

/// Times in nanoseconds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cpu {
    pub total: u64,
    pub user: Option<u64>,
    pub system: Option<u64>,
    pub periods: Option<u64>,
    pub throttled_periods: Option<u64>,
    pub throttled: Option<u64>,
    /// In the scale of version 1.
    pub shares: Option<u64>,
    /// In microseconds; `None` without a limit.
    pub quota: Option<u64>,
    pub period: Option<u64>,
}

/// In bytes, except for the counts.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Memory {
    pub usage: u64,
    pub max_usage: Option<u64>,
    pub limit: Option<u64>,
    pub swap: Option<u64>,
    pub swap_limit: Option<u64>,
    pub reservation: Option<u64>,
    pub cache: Option<u64>,
    pub rss: Option<u64>,
    pub mapped_file: Option<u64>,
    pub kernel: Option<u64>,
    pub active_file: Option<u64>,
    pub inactive_file: Option<u64>,
    /// Number of times that the limit was reached.
    pub failures: Option<u64>,
    pub page_faults: Option<u64>,
    pub major_page_faults: Option<u64>,
    pub oom_kills: Option<u64>,
}

impl Memory {
    /// The memory in use without inactive file pages, which the kernel can reclaim at once.
    pub fn working_set(&self) -> u64 {
        self.usage.saturating_sub(self.inactive_file.unwrap_or_default())
    }
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Io {
    /// `major:minor`.
    pub device: String,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub reads: u64,
    pub writes: u64,
}

/// All values of a cgroup's files.
pub fn read(files: &dyn Files) -> Usage {
    let pids = |file: &str| number(&files.text("pids", file)?);
    let pressures = |file: &str| pressure(&files.text("", file).filter(|_| files.is_unified())?);
    Usage {
        cpu: cpu(files),
        memory: memory(files),
        processes: pids("pids.current"),
        most_processes: pids("pids.max"),
        io: io(files),
        cpu_pressure: pressures("cpu.pressure"),
        memory_pressure: pressures("memory.pressure"),
        io_pressure: pressures("io.pressure"),
    }
}

fn cpu(files: &dyn Files) -> Option<Cpu> {
    if files.is_unified() { cpu_v2(files) } else { cpu_v1(files) }
}

fn cpu_v1(files: &dyn Files) -> Option<Cpu> {
    let account = |file: &str| number(&files.text("cpuacct", file)?);
    let control = |file: &str| number(&files.text("cpu", file)?);
    let stat = files.text("cpu", "cpu.stat").unwrap_or_default();
    Some(Cpu {
        total: account("cpuacct.usage")?,
        user: account("cpuacct.usage_user"),
        system: account("cpuacct.usage_sys"),
        periods: field(&stat, "nr_periods"),
        throttled_periods: field(&stat, "nr_throttled"),
        throttled: field(&stat, "throttled_time"),
        shares: control("cpu.shares"),
        quota: control("cpu.cfs_quota_us"),
        period: control("cpu.cfs_period_us"),
    })
}

fn cpu_v2(files: &dyn Files) -> Option<Cpu> {
    let stat = files.text("cpu", "cpu.stat")?;
    let nanoseconds = |name: &str| field(&stat, name).map(|microseconds| microseconds.saturating_mul(1000));
    let most = files.text("cpu", "cpu.max").unwrap_or_default();
    let mut most = most.split_whitespace();
    let weight = files.text("cpu", "cpu.weight").and_then(|text| number(&text));
    Some(Cpu {
        total: nanoseconds("usage_usec")?,
        user: nanoseconds("user_usec"),
        system: nanoseconds("system_usec"),
        periods: field(&stat, "nr_periods"),
        throttled_periods: field(&stat, "nr_throttled"),
        throttled: nanoseconds("throttled_usec"),
        shares: weight.map(|weight| 2 + weight.saturating_sub(1) * 262_142 / 9999),
        quota: most.next().and_then(number),
        period: most.next().and_then(number),
    })
}

fn memory(files: &dyn Files) -> Option<Memory> {
    if files.is_unified() { memory_v2(files) } else { memory_v1(files) }
}

fn memory_v1(files: &dyn Files) -> Option<Memory> {
    let text = |file: &str| files.text("memory", file);
    let count = |file: &str| number(&text(file)?);
    let stat = text("memory.stat")?;
    let below = |name: &str| field(&stat, &format!("total_{name}"));
    Some(Memory {
        usage: count("memory.usage_in_bytes")?,
        max_usage: count("memory.max_usage_in_bytes"),
        limit: limit(text("memory.limit_in_bytes")),
        swap: below("swap"),
        swap_limit: limit(text("memory.memsw.limit_in_bytes")),
        reservation: limit(text("memory.soft_limit_in_bytes")),
        cache: below("cache"),
        rss: below("rss"),
        mapped_file: below("mapped_file"),
        kernel: count("memory.kmem.usage_in_bytes"),
        active_file: below("active_file"),
        inactive_file: below("inactive_file"),
        failures: count("memory.failcnt"),
        page_faults: below("pgfault"),
        major_page_faults: below("pgmajfault"),
        oom_kills: text("memory.oom_control").and_then(|text| field(&text, "oom_kill")),
    })
}

fn memory_v2(files: &dyn Files) -> Option<Memory> {
    let text = |file: &str| files.text("memory", file);
    let count = |file: &str| number(&text(file)?);
    let stat = text("memory.stat")?;
    let events = text("memory.events").unwrap_or_default();
    Some(Memory {
        usage: count("memory.current")?,
        max_usage: count("memory.peak"),
        limit: limit(text("memory.max")),
        swap: count("memory.swap.current"),
        swap_limit: limit(text("memory.swap.max")),
        reservation: limit(text("memory.low")).filter(|low| *low > 0),
        cache: field(&stat, "file"),
        rss: field(&stat, "anon"),
        mapped_file: field(&stat, "file_mapped"),
        kernel: field(&stat, "kernel"),
        active_file: field(&stat, "active_file"),
        inactive_file: field(&stat, "inactive_file"),
        failures: field(&events, "max"),
        page_faults: field(&stat, "pgfault"),
        major_page_faults: field(&stat, "pgmajfault"),
        oom_kills: field(&events, "oom_kill"),
    })
}

fn io(files: &dyn Files) -> Vec<Io> {
    if files.is_unified() {
        return io_v2(&files.text("io", "io.stat").unwrap_or_default());
    }
    let text = |file: &str| files.text("blkio", file).unwrap_or_default();
    io_v1(&text("blkio.throttle.io_service_bytes_recursive"), &text("blkio.throttle.io_serviced_recursive"))
}

impl Usage {
    /// The CPU usage in the CRI's type.
    pub fn cri_cpu(&self, now: Timestamp) -> Option<CpuUsage> {
        let cpu = self.cpu.as_ref()?;
        Some(CpuUsage {
            timestamp: now,
            usage_core_nano_seconds: Some(cpu.total),
            usage_nano_cores: None,
            psi: self.cpu_pressure.clone(),
        })
    }

    pub fn cri_memory(&self, now: Timestamp) -> Option<MemoryUsage> {
        let memory = self.memory.as_ref()?;
        let working_set = memory.working_set();
        Some(MemoryUsage {
            timestamp: now,
            working_set_bytes: Some(working_set),
            available_bytes: memory.limit.map(|limit| limit.saturating_sub(working_set)),
            usage_bytes: Some(memory.usage),
            rss_bytes: memory.rss,
            page_faults: memory.page_faults,
            major_page_faults: memory.major_page_faults,
            psi: self.memory_pressure.clone(),
        })
    }

    pub fn cri_swap(&self, now: Timestamp) -> Option<SwapUsage> {
        let memory = self.memory.as_ref()?;
        Some(SwapUsage { timestamp: now, available_bytes: None, usage_bytes: Some(memory.swap?) })
    }

    pub fn cri_io(&self, now: Timestamp) -> Option<IoUsage> {
        Some(IoUsage { timestamp: now, psi: Some(self.io_pressure.clone()?) })
    }
}
