//! Keeps what a process knows in the process: no core dump, no debugger of another process.
//!
//! The parts of a cluster hold its keys and Secrets in memory. Pods' supervisors and containers are no such part: they get
//! back the limit that this process was started with.

use std::io;
use std::sync::OnceLock;

use rustix::process::{
    DumpableBehavior, Pid, Resource, Rlimit, getrlimit, prlimit, set_dumpable_behavior, setrlimit,
};

/// The limit on core dumps that this process was started with.
static STARTED_WITH: OnceLock<Rlimit> = OnceLock::new();

/// Nothing of this process is ever dumped from here on, and no unprivileged process may look into it.
pub fn forbid() -> io::Result<()> {
    let found = getrlimit(Resource::Core);
    let _first = STARTED_WITH.set(found);
    setrlimit(Resource::Core, Rlimit { current: Some(0), ..found })?;
    Ok(set_dumpable_behavior(DumpableBehavior::NotDumpable)?)
}

/// Gives a child that runs something else the limit that this process was started with.
pub(crate) fn allow_for(child: u32) -> io::Result<()> {
    let Some(limit) = STARTED_WITH.get() else { return Ok(()) };
    let child = i32::try_from(child).ok().and_then(Pid::from_raw);
    prlimit(child, Resource::Core, *limit)?;
    Ok(())
}
