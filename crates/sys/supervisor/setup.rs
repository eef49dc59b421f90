//! Creates the sandbox: cgroup, namespaces, and the resources that the pod's containers share.

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

/// The user of the init process of a shared process namespace: that of upstream's pause container.
const INIT_USER: u32 = 65_535;

pub(crate) fn pod(sandbox: &Sandbox) -> Result<Pod, String> {
    kernel::new_session().during(|| "cannot start a session".to_owned())?;
    kernel::close_on_execute_from(3).during(|| "cannot close descriptors".to_owned())?;
    kernel::set_dumpable(false).during(|| "cannot make the process non-dumpable".to_owned())?;
    kernel::new_keyring().during(|| "cannot create a keyring".to_owned())?;
    // Files are for the node's administrator, whatever umask was inherited.
    kernel::set_umask(0o027);
    // A name for process lists; nothing depends on it.
    let _ = kernel::set_name(c"corten-pod");
    for file in &sandbox.cgroups {
        fs::write(file, "0").during(|| format!("cannot join {file}"))?;
    }
    // Some nodes refuse to lower it.
    let _ = fs::write("/proc/self/oom_score_adj", sandbox.oom_score_adj.to_string());
    kernel::adopt_orphans().during(|| "cannot become a subreaper".to_owned())?;
    let signals = kernel::signals().during(|| "cannot create a signalfd".to_owned())?;
    let listener = listen()?;
    let node_mounts =
        File::open("/proc/self/ns/mnt").during(|| "cannot open the node's mount namespace".to_owned())?;
    enter_namespaces(sandbox)?;
    let init = if sandbox.shares_processes { Some(start_init()?) } else { None };
    Ok(Pod::new(listener, signals, node_mounts.into(), init))
}

fn listen() -> Result<UnixListener, String> {
    // A relative path is short, whatever the folder's path is.
    let listener = UnixListener::bind("socket").during(|| "cannot create the socket".to_owned())?;
    fs::set_permissions("socket", fs::Permissions::from_mode(0o600))
        .during(|| "cannot restrict the mode of the socket".to_owned())?;
    listener.set_nonblocking(true).during(|| "cannot make the socket non-blocking".to_owned())?;
    Ok(listener)
}

fn enter_namespaces(sandbox: &Sandbox) -> Result<(), String> {
    let namespaces = u64::from(sandbox.namespaces);
    kernel::unshare(namespaces | CLONE_NEWNS).during(|| "cannot create namespaces".to_owned())?;
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "cannot make the node's mounts rslave".to_owned())?;
    if !sandbox.shared_memory.is_empty() {
        fs::create_dir_all("shm").during(|| "cannot create shared memory".to_owned())?;
        let flags = MS_NOSUID | MS_NODEV | MS_NOEXEC;
        let mounted = kernel::mount("shm", "shm", "tmpfs", flags, &sandbox.shared_memory);
        mounted.during(|| "cannot mount shared memory".to_owned())?;
    }
    if namespaces & CLONE_NEWNET != 0 {
        kernel::bring_loopback_up().during(|| "cannot set up the loopback interface".to_owned())?;
    }
    if !sandbox.hostname.is_empty() {
        kernel::set_hostname(&sandbox.hostname).during(|| "cannot set the hostname".to_owned())?;
    }
    for (name, value) in &sandbox.sysctls {
        set_sysctl(name, value).during(|| format!("cannot set sysctl {name:?} to {value:?}"))?;
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

/// Starts the init process of the shared process namespace: it adopts and reaps. Containers see it, and those that may
/// trace others can access it. So it has access to nothing: its root is empty, it has no useful descriptor, no
/// capability, and a user of its own.
fn start_init() -> Result<i32, String> {
    fs::create_dir_all(SHARED_PROC).during(|| "cannot create /proc of the pod".to_owned())?;
    fs::create_dir_all("empty").during(|| "cannot create an empty root".to_owned())?;
    let (status, theirs) = kernel::socket_pair().during(|| "cannot create a socket".to_owned())?;
    let pid = kernel::fork(CLONE_NEWPID).during(|| "cannot create a PID namespace".to_owned())?;
    if pid == 0 {
        let Err(error) = run_init(&theirs);
        report(&theirs, error.as_bytes(), &[]);
        kernel::exit(1);
    }
    drop(theirs);
    kernel::wait_for(&mut [kernel::awaited(&status, kernel::POLLIN)], None)
        .during(|| "cannot wait for the PID namespace".to_owned())?;
    let mut message = [0; 1024];
    let length = kernel::receive(status.as_fd(), &mut message, &mut Vec::new()).unwrap_or_default();
    match &message[..length] {
        READY => Ok(pid),
        why => Err(format!("cannot create a PID namespace: {}", String::from_utf8_lossy(why))),
    }
}

const READY: &[u8] = b"ready";

fn run_init(status: &OwnedFd) -> Never {
    let strict = MS_NOSUID | MS_NODEV | MS_NOEXEC;
    // In the supervisor's mount namespace, from where containers copy it.
    kernel::mount("proc", SHARED_PROC, "proc", strict, "").during(|| "cannot mount /proc".to_owned())?;
    kernel::unshare(CLONE_NEWNS).during(|| "cannot create a mount namespace".to_owned())?;
    kernel::mount("", "/", "", MS_REC | MS_PRIVATE, "")
        .during(|| "cannot make the pod's mounts private".to_owned())?;
    let options = "mode=0555,nr_inodes=1,size=4k";
    kernel::mount("empty", "empty", "tmpfs", strict | MS_RDONLY, options)
        .during(|| "cannot mount an empty root".to_owned())?;
    std::env::set_current_dir("empty").during(|| "cannot change to the empty root".to_owned())?;
    kernel::pivot_root_here().during(|| "cannot pivot the root".to_owned())?;
    kernel::detach(".").during(|| "cannot unmount the node's root".to_owned())?;
    std::env::set_current_dir("/").during(|| "cannot change to the empty root".to_owned())?;
    let signals = kernel::signals().during(|| "cannot create a signalfd".to_owned())?;
    let kept = [signals.as_raw_fd(), status.as_raw_fd()];
    kernel::close_all_but(&kept).during(|| "cannot close descriptors".to_owned())?;
    // Its standard streams are the supervisor's; a socket that leads only to this process replaces them.
    let (nothing, _) = kernel::socket_pair().during(|| "cannot create a socket".to_owned())?;
    (0..3)
        .try_for_each(|place| kernel::put_in_place(&nothing, place))
        .during(|| "cannot redirect standard streams".to_owned())?;
    drop(nothing);
    drop_bounding(0, kernel::permitted().during(|| "cannot read capabilities".to_owned())?)?;
    kernel::set_groups(&[]).during(|| "cannot clear supplementary groups".to_owned())?;
    kernel::set_user(INIT_USER, INIT_USER).during(|| "cannot drop privileges".to_owned())?;
    kernel::set_capabilities(0, 0, 0).during(|| "cannot drop privileges".to_owned())?;
    kernel::give_up_new_privileges().during(|| "cannot drop privileges".to_owned())?;
    kernel::set_dumpable(false).during(|| "cannot make the process non-dumpable".to_owned())?;
    kernel::die_with_parent().during(|| "cannot set the parent-death signal".to_owned())?;
    report(status, READY, &[]);
    kernel::close_all_but(&[signals.as_raw_fd()]).during(|| "cannot close descriptors".to_owned())?;
    // A container that may trace it could make it do anything that it may do itself.
    kernel::confine_to_waiting().during(|| "cannot load the seccomp filter".to_owned())?;
    loop {
        let mut awaited = [kernel::awaited(&signals, kernel::POLLIN)];
        kernel::wait_for(&mut awaited, None).during(|| "cannot wait for signals".to_owned())?;
        kernel::take_signals(&signals);
        while kernel::reap().is_some() {}
    }
}

/// Reports that the sandbox is ready and detaches from the runtime.
pub(crate) fn report_ready() -> Result<(), String> {
    let mut out = io::stdout();
    writeln!(out, "ready").and_then(|()| out.flush()).during(|| "cannot report readiness".to_owned())?;
    detach_standard_streams()
}

/// The runtime waits for our standard streams to close.
fn detach_standard_streams() -> Result<(), String> {
    let nothing = File::options()
        .read(true)
        .write(true)
        .open("/dev/null")
        .during(|| "cannot open /dev/null".to_owned())?;
    let nothing = OwnedFd::from(nothing);
    (0..3)
        .try_for_each(|place| kernel::put_in_place(&nothing, place))
        .during(|| "cannot redirect standard streams".to_owned())
}
