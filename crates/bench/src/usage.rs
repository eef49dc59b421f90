//! The CPU time and memory of processes, from `/proc`.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use anyhow::Context;
use memchr::memmem;

use crate::report::Phase;

/// CPU time at the beginning of a phase.
pub(crate) struct Meter {
    pids: Vec<u32>,
    server: f64,
    client: f64,
}

impl Meter {
    /// Starts counting the CPU time of a server's processes and of this one.
    pub(crate) fn start(pids: &[u32]) -> anyhow::Result<Meter> {
        let client = cpu_seconds(std::process::id())?;
        Ok(Meter { pids: pids.to_vec(), server: all_cpu_seconds(pids)?, client })
    }

    /// Records the CPU time since the start; returns the server's seconds.
    pub(crate) fn finish(self, phase: &mut Phase) -> anyhow::Result<f64> {
        let server = all_cpu_seconds(&self.pids)? - self.server;
        let client = cpu_seconds(std::process::id())? - self.client;
        phase.set("server_cpu_s", server).set("client_cpu_s", client);
        Ok(server)
    }
}

fn all_cpu_seconds(pids: &[u32]) -> anyhow::Result<f64> {
    pids.iter().map(|pid| cpu_seconds(*pid)).sum()
}

/// CPU seconds (user and system, all threads, also ended ones). Counted in clock ticks, usually 10 ms.
pub(crate) fn cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/stat");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let ticks = cpu_ticks(&text).with_context(|| format!("{path} is not as expected"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU seconds of this process and of the children that it has waited for.
pub(crate) fn own_cpu_seconds() -> anyhow::Result<f64> {
    let path = "/proc/self/stat";
    let text = fs::read_to_string(path).with_context(|| format!("cannot read {path}"))?;
    let ticks = family_ticks(&text).with_context(|| format!("{path} is not as expected"))?;
    Ok(ticks as f64 / rustix::param::clock_ticks_per_second() as f64)
}

/// CPU seconds of the live threads, with nanosecond resolution: for idle phases.
/// Falls back to [`cpu_seconds`] where the kernel keeps no scheduler statistics.
pub(crate) fn fine_cpu_seconds(pid: u32) -> anyhow::Result<f64> {
    let threads = format!("/proc/{pid}/task");
    let mut nanoseconds = 0u64;
    for thread in fs::read_dir(&threads).with_context(|| format!("cannot read {threads}"))? {
        // A thread may end between being listed and being read.
        let Ok(text) = fs::read_to_string(thread?.path().join("schedstat")) else { continue };
        nanoseconds += text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
    }
    if nanoseconds == 0 { cpu_seconds(pid) } else { Ok(nanoseconds as f64 / 1e9) }
}

/// Resident memory now, in MB (10^6 bytes).
pub(crate) fn resident_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmRSS:")
}

/// Peak resident memory, in MB.
pub(crate) fn peak_resident_mb(pid: u32) -> anyhow::Result<f64> {
    status_mb(pid, "VmHWM:")
}

/// The processes that were started with a path, or with one below it, among their arguments.
pub(crate) fn named(path: &Path) -> anyhow::Result<Vec<u32>> {
    let mut found = Vec::new();
    for process in fs::read_dir("/proc").context("cannot read /proc")? {
        let process = process?;
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        // A process may end between being listed and being read.
        let arguments = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if memmem::find(&arguments, path.as_os_str().as_bytes()).is_some() {
            found.push(pid);
        }
    }
    Ok(found)
}

fn status_mb(pid: u32, field: &str) -> anyhow::Result<f64> {
    let path = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = text.lines().find_map(|line| line.strip_prefix(field));
    let kib = line.and_then(|rest| rest.trim().strip_suffix(" kB")).and_then(|kib| kib.parse::<f64>().ok());
    Ok(kib.with_context(|| format!("{path} has no {field}"))? * 1024.0 / 1e6)
}

/// utime + stime + cutime + cstime.
fn family_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let fields: Vec<u64> =
        rest.split_whitespace().skip(11).take(4).map_while(|field| field.parse().ok()).collect();
    (fields.len() == 4).then(|| fields.iter().sum())
}

/// utime + stime. The command's name comes first and may contain anything, also spaces and parentheses.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_found_behind_any_command_name() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194560 1 0 0 0 31 11 0 0 20 0 1 0 5 6 7";
        assert_eq!(cpu_ticks(stat), Some(42));
        assert_eq!(family_ticks("7 (a) S 1 7 7 0 -1 4194560 1 0 0 0 31 11 5 3 20 0"), Some(50));
        assert_eq!(cpu_ticks("7 (a"), None);
    }

    #[test]
    fn this_process_uses_something() {
        let pid = std::process::id();
        assert!(resident_mb(pid).unwrap() > 0.5);
        assert!(peak_resident_mb(pid).unwrap() >= resident_mb(pid).unwrap());
        assert!(cpu_seconds(pid).unwrap() >= 0.0);
        assert!(fine_cpu_seconds(pid).unwrap() > 0.0);
    }
}
