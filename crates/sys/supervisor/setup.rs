//! Makes the sandbox: cgroup, namespaces, what the pod's containers share.

use std::fs::{self, File};
use std::io::Write;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;

use crate::child::While;
use crate::kernel::{
    self, CLONE_NEWNS, CLONE_NEWPID, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_REC, MS_SLAVE, SIGKILL,
};
use crate::pod::Pod;
use crate::wire::Sandbox;

const CLONE_NEWNET: u64 = 0x4000_0000;
const PR_SET_PDEATHSIG: i32 = 1;
const PR_SET_NAME: i32 = 15;
const PR_SET_CHILD_SUBREAPER: i32 = 36;

pub(crate) fn pod(sandbox: &Sandbox) -> Result<Pod, String> {
    kernel::new_session().during(|| "starting a session".to_owned())?;
    kernel::close_on_execute_from(3).during(|| "closing descriptors".to_owned())?;
    let name = *b"corten-pod\0";
    // A name for people; nothing depends on it.
    let _ = kernel::control(PR_SET_NAME, name.as_ptr() as u64);
    for file in &sandbox.cgroups {
        fs::write(file, "0").during(|| format!("joining {file}"))?;
    }
    // Some nodes refuse to lower it.
    let _ = fs::write("/proc/self/oom_score_adj", sandbox.oom_score_adj.to_string());
    kernel::control(PR_SET_CHILD_SUBREAPER, 1).during(|| "adopting orphans".to_owned())?;
    let signals = kernel::signals().during(|| "listening to signals".to_owned())?;
    let listener = listen()?;
    let node_mounts = namespace("mnt")?;
    let own_processes = namespace("pid")?;
    enter_namespaces(sandbox)?;
    let keeper = if sandbox.shares_processes { Some(keep_processes()?) } else { None };
    Ok(Pod::new(listener, signals, node_mounts, own_processes, keeper))
}

fn namespace(name: &str) -> Result<OwnedFd, String> {
    File::open(format!("/proc/self/ns/{name}"))
        .map(OwnedFd::from)
        .during(|| format!("opening namespace {name}"))
}

fn listen() -> Result<UnixListener, String> {
    // The name is short whatever the folder's is: we are in it.
    let listener = UnixListener::bind("socket").during(|| "making the socket".to_owned())?;
    fs::set_permissions("socket", fs::Permissions::from_mode(0o600))
        .during(|| "guarding the socket".to_owned())?;
    listener.set_nonblocking(true).during(|| "preparing the socket".to_owned())?;
    Ok(listener)
}

fn enter_namespaces(sandbox: &Sandbox) -> Result<(), String> {
    let namespaces = u64::from(sandbox.namespaces);
    kernel::unshare(namespaces | CLONE_NEWNS).during(|| "making namespaces".to_owned())?;
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "parting from the node's mounts".to_owned())?;
    if !sandbox.shared_memory.is_empty() {
        fs::create_dir_all("shm").during(|| "making shared memory".to_owned())?;
        let flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
        let mounted = kernel::mount("shm", "shm", "tmpfs", flags, &sandbox.shared_memory);
        mounted.during(|| "mounting shared memory".to_owned())?;
    }
    if namespaces & CLONE_NEWNET != 0 {
        kernel::bring_loopback_up().during(|| "bringing loopback up".to_owned())?;
    }
    if !sandbox.hostname.is_empty() {
        kernel::set_hostname(&sandbox.hostname).during(|| "setting the hostname".to_owned())?;
    }
    for (name, value) in &sandbox.sysctls {
        let file = format!("/proc/sys/{}", name.replace('.', "/"));
        fs::write(file, value).during(|| format!("setting sysctl {name:?} to {value:?}"))?;
    }
    Ok(())
}

/// The first process of a process namespace that the containers share: it adopts and reaps.
fn keep_processes() -> Result<i32, String> {
    let pid = kernel::fork(CLONE_NEWPID).during(|| "making a process namespace".to_owned())?;
    if pid != 0 {
        return Ok(pid);
    }
    let keep = || -> Option<()> {
        let_go().ok()?;
        kernel::control(PR_SET_PDEATHSIG, SIGKILL as u64).ok()?;
        let signals = kernel::signals().ok()?;
        loop {
            let mut awaited = [kernel::awaited(&signals, kernel::POLLIN)];
            kernel::wait_for(&mut awaited, None).ok()?;
            kernel::take_signals(&signals);
            while kernel::reap().is_some() {}
        }
    };
    keep();
    kernel::exit(1)
}

/// Says that everything is ready and lets go of who started us.
pub(crate) fn say_ready() -> Result<(), String> {
    let mut out = std::io::stdout();
    writeln!(out, "ready").and_then(|()| out.flush()).during(|| "saying that all is ready".to_owned())?;
    let_go()
}

/// Whoever started us waits for our standard streams to close.
fn let_go() -> Result<(), String> {
    let nothing =
        File::options().read(true).write(true).open("/dev/null").during(|| "opening /dev/null".to_owned())?;
    let nothing = OwnedFd::from(nothing);
    (0..3).try_for_each(|place| kernel::put_in_place(&nothing, place)).during(|| "letting go".to_owned())
}
