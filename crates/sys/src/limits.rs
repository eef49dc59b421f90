//! Limits of this process: no core dump, no debugger of another process, and as many descriptors as it may have.
//!
//! The parts of a cluster hold its keys and Secrets in memory, and a connection for every client. Pods' supervisors and
//! containers are no such part: they get back the limits that this process was started with.

use std::io;
use std::sync::OnceLock;

use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getrlimit, prlimit, set_dumpable_behavior, setrlimit,
};

/// The limits that this process was started with, of those that it changes.
static STARTED_WITH: OnceLock<[(Resource, Rlimit); 2]> = OnceLock::new();

/// Nothing of this process is ever dumped from here on, and no unprivileged process may look into it.
pub fn forbid_dumps() -> io::Result<()> {
    remember();
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..getrlimit(Resource::Core) })?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Lets this process have as many descriptors as it may.
pub fn raise_descriptors() -> io::Result<()> {
    remember();
    let found = getrlimit(Resource::Nofile);
    Ok(setrlimit(Resource::Nofile, Rlimit { current: found.maximum, ..found })?)
}

/// How many descriptors this process may have; `None` for any number.
pub fn descriptors() -> Option<u64> {
    getrlimit(Resource::Nofile).current
}

fn remember() {
    STARTED_WITH.get_or_init(|| [Resource::Core, Resource::Nofile].map(|what| (what, getrlimit(what))));
}

/// Gives a child that runs something else the limits that this process was started with.
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
    fn what_is_changed_here_is_given_back_to_children() {
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
