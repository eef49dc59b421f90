//! Limits of this process: no core dumps, no tracing by other processes, and the maximum number of descriptors.
//!
//! The process holds the cluster's keys and Secrets in memory, and a connection for every client. Pods' supervisors and
//! containers do not: they get the limits that this process was started with.

use std::io;
use std::sync::OnceLock;

use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getrlimit, prlimit, set_dumpable_behavior, setrlimit,
};

/// The limits that this process was started with, of those that it changes.
static STARTED_WITH: OnceLock<[(Resource, Rlimit); 2]> = OnceLock::new();

/// Disables core dumps of this process, and access to its memory by unprivileged processes.
pub fn forbid_dumps() -> io::Result<()> {
    remember();
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Raises the number of descriptors to the maximum that is allowed.
pub fn raise_descriptors() -> io::Result<()> {
    remember();
    let found = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: found.maximum, ..found })?)
}

/// Maximum number of descriptors of this process; `None` if it is unlimited.
pub fn descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn remember() {
    STARTED_WITH.get_or_init(|| [Resource::Core, Resource::Nofile].map(|what| (what, getrlimit(what))));
}

/// Sets the limits of a child to those that this process was started with.
pub(crate) fn restore_for(child: u32) -> io::Result<()> {
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    for (what, limit) in STARTED_WITH.get().into_iter().flatten() {
        prlimit(child, *what, *limit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    #[test]
    fn children_get_the_original_limits() {
        let before = [Resource::Core, Resource::Nofile].map(getrlimit);
        forbid_dumps().unwrap();
        raise_descriptors().unwrap();
        assert_eq!(getrlimit(Resource::Core).current, Some(0));
        assert_eq!(descriptors(), before[1].maximum);
        let dumpable = rustix::process::dumpable_behavior().unwrap();
        assert_eq!(dumpable, DumpableBehavior::NotDumpable);
        let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        restore_for(child.id()).unwrap();
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", child.id())).unwrap();
        drop(child.stdin.take());
        child.wait().unwrap();
        let soft = |name: &str| {
            let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
            line[name.len()..].split_whitespace().next().unwrap().parse::<u64>().ok()
        };
        assert_eq!(soft("Max core file size"), before[0].current);
        assert_eq!(soft("Max open files"), before[1].current);
    }
}
