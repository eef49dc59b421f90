//! Makes the sandbox: cgroup, namespaces, what the pod's containers share.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;

use crate::child::{Never, While, drop_bounding, report};
use crate::kernel::{
    self, CLONE_NEWNS, CLONE_NEWPID, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_PRIVATE, MS_RDONLY, MS_REC, MS_SLAVE,
};
use crate::pod::Pod;
use crate::root::SHARED_PROC;
use crate::rooted::{self, Links, O_WRONLY, PROCFS, Root};
use crate::wire::Sandbox;

const CLONE_NEWNET: u64 = 0x4000_0000;

/// Who the first process of a shared process namespace is: the user that upstream's pause container runs as.
const KEEPER: u32 = 65_535;

pub(crate) fn pod(sandbox: &Sandbox) -> Result<Pod, String> {
    kernel::new_session().during(|| "starting a session".to_owned())?;
    kernel::close_on_execute_from(3).during(|| "closing descriptors".to_owned())?;
    kernel::set_dumpable(false).during(|| "hiding".to_owned())?;
    kernel::new_keyring().during(|| "making a keyring".to_owned())?;
    // Files are for the node's administrator, whatever the process that started us left us.
    kernel::set_umask(0o027);
    // A name for people; nothing depends on it.
    let _ = kernel::set_name(c"corten-pod");
    for file in &sandbox.cgroups {
        fs::write(file, "0").during(|| format!("joining {file}"))?;
    }
    // Some nodes refuse to lower it.
    let _ = fs::write("/proc/self/oom_score_adj", sandbox.oom_score_adj.to_string());
    kernel::adopt_orphans().during(|| "adopting orphans".to_owned())?;
    let signals = kernel::signals().during(|| "listening to signals".to_owned())?;
    let listener = listen()?;
    let node_mounts = File::open("/proc/self/ns/mnt").during(|| "opening the node's mounts".to_owned())?;
    enter_namespaces(sandbox)?;
    let keeper = if sandbox.shares_processes { Some(keep_processes()?) } else { None };
    Ok(Pod::new(listener, signals, node_mounts.into(), keeper))
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
        set_sysctl(name, value).during(|| format!("setting sysctl {name:?} to {value:?}"))?;
    }
    Ok(())
}

fn set_sysctl(name: &str, value: &str) -> io::Result<()> {
    let all = Root::open(Path::new("/proc/sys"))?;
    let file = all.open_with(&name.replace('.', "/"), Links::Refused, O_WRONLY)?;
    if rooted::file_system(&file)? != PROCFS {
        return Err(io::Error::other("it is not a file of procfs"));
    }
    File::from(file).write_all(value.as_bytes())
}

/// The first process of a process namespace that the containers share: it adopts and reaps. Containers see it, and those
/// that may trace others can look into it. So it holds nothing: its root is empty, it has no descriptor that leads
/// anywhere, no capability, and a user of its own.
fn keep_processes() -> Result<i32, String> {
    fs::create_dir_all(SHARED_PROC).during(|| "making /proc of the pod".to_owned())?;
    fs::create_dir_all("empty").during(|| "making an empty root".to_owned())?;
    let (status, theirs) = kernel::socket_pair().during(|| "making a socket".to_owned())?;
    let pid = kernel::fork(CLONE_NEWPID).during(|| "making a process namespace".to_owned())?;
    if pid == 0 {
        let Err(error) = keep(&theirs);
        report(&theirs, error.as_bytes(), &[]);
        kernel::exit(1);
    }
    drop(theirs);
    kernel::wait_for(&mut [kernel::awaited(&status, kernel::POLLIN)], None)
        .during(|| "waiting for the process namespace".to_owned())?;
    let mut said = [0; 1024];
    let length = kernel::receive(status.as_fd(), &mut said, &mut Vec::new()).unwrap_or_default();
    match &said[..length] {
        READY => Ok(pid),
        why => Err(format!("making a process namespace: {}", String::from_utf8_lossy(why))),
    }
}

const READY: &[u8] = b"ready";

fn keep(status: &OwnedFd) -> Never {
    let strict = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    // In the supervisor's mount namespace, from where containers copy it.
    kernel::mount("proc", SHARED_PROC, "proc", strict, "").during(|| "mounting /proc".to_owned())?;
    kernel::unshare(CLONE_NEWNS).during(|| "making a mount namespace".to_owned())?;
    kernel::mount("", "/", "", MS_REC | MS_PRIVATE, "")
        .during(|| "parting from the pod's mounts".to_owned())?;
    let options = "mode=0555,nr_inodes=1,size=4k";
    kernel::mount("empty", "empty", "tmpfs", strict | MS_RDONLY, options)
        .during(|| "mounting an empty root".to_owned())?;
    std::env::set_current_dir("empty").during(|| "changing to the empty root".to_owned())?;
    kernel::pivot_root_here().during(|| "changing the root".to_owned())?;
    kernel::detach(".").during(|| "leaving the node's root".to_owned())?;
    std::env::set_current_dir("/").during(|| "changing to the empty root".to_owned())?;
    let signals = kernel::signals().during(|| "listening to signals".to_owned())?;
    let kept = [signals.as_raw_fd(), status.as_raw_fd()];
    kernel::close_all_but(&kept).during(|| "closing descriptors".to_owned())?;
    // Standard streams are the supervisor's; a socket that leads to this process alone takes their places.
    let (nothing, _) = kernel::socket_pair().during(|| "making a socket".to_owned())?;
    (0..3).try_for_each(|place| kernel::put_in_place(&nothing, place)).during(|| "letting go".to_owned())?;
    drop(nothing);
    drop_bounding(0, kernel::permitted().during(|| "reading capabilities".to_owned())?)?;
    kernel::set_groups(&[]).during(|| "leaving groups".to_owned())?;
    kernel::set_user(KEEPER, KEEPER).during(|| "giving up privileges".to_owned())?;
    kernel::set_capabilities(0, 0, 0).during(|| "giving up privileges".to_owned())?;
    kernel::give_up_new_privileges().during(|| "giving up privileges".to_owned())?;
    kernel::set_dumpable(false).during(|| "hiding".to_owned())?;
    kernel::die_with_parent().during(|| "binding to the supervisor".to_owned())?;
    report(status, READY, &[]);
    kernel::close_all_but(&[signals.as_raw_fd()]).during(|| "closing descriptors".to_owned())?;
    // A container that may trace it could have it do anything that it may do itself.
    kernel::confine_to_waiting().during(|| "giving up system calls".to_owned())?;
    loop {
        let mut awaited = [kernel::awaited(&signals, kernel::POLLIN)];
        kernel::wait_for(&mut awaited, None).during(|| "waiting for signals".to_owned())?;
        kernel::take_signals(&signals);
        while kernel::reap().is_some() {}
    }
}

/// Says that everything is ready and lets go of who started us.
pub(crate) fn say_ready() -> Result<(), String> {
    let mut out = io::stdout();
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
