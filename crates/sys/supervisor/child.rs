//! What happens between a fork and the program it was forked for. Nothing here returns to the supervisor.
//!
//! The order matters everywhere: what needs the node's view comes before the container's root, what needs
//! privileges before they go, and the filter on system calls as late as those allow.

use std::convert::Infallible;
use std::fs;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use crate::kernel::{self, CLONE_NEWCGROUP, CLONE_NEWNS, MS_REC, MS_SLAVE, SIGKILL};
use crate::root;
use crate::running::TERMINAL;
use crate::wire::{Container, Launch, Process};

pub(crate) type Never = Result<Infallible, String>;

/// What was being done when something failed.
pub(crate) trait While<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T, String>;
}

impl<T> While<T> for io::Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T, String> {
        self.map_err(|error| format!("{}: {}", what(), words(&error)))
    }
}

/// The system's words for an error, as everybody knows them.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let plain = text.split(" (os error").next().unwrap_or_default();
    plain[..1].to_lowercase() + &plain[1..]
}

/// How a process is connected.
pub(crate) enum Streams {
    /// Standard input, output and error.
    Pipes([OwnedFd; 3]),
    /// A terminal of the container, whose master is sent back.
    Terminal,
}

/// What to enter to be in a container that runs.
pub(crate) struct Entrance {
    pub(crate) mounts: OwnedFd,
    pub(crate) cgroups: OwnedFd,
    pub(crate) cgroup_files: Vec<String>,
}

/// Sends what became of the start: a terminal, or why it failed. That it ends without a word is success.
pub(crate) fn report(status: &OwnedFd, text: &[u8], passed: &[OwnedFd]) {
    // Whoever asked may be gone.
    let _ = kernel::send(status.as_fd(), text, passed);
}

/// A container's first process.
pub(crate) fn container(plan: &Container, streams: Streams, node: &OwnedFd, status: &OwnedFd) -> Never {
    begin(&plan.cgroups, &plan.process)?;
    let copies = root::copies_from_pod(plan)?;
    kernel::enter(node, CLONE_NEWNS).during(|| "entering the node's mounts".to_owned())?;
    let shared = root::copies_from_node(plan)?;
    let namespaces = CLONE_NEWNS | if plan.own_cgroup_namespace { CLONE_NEWCGROUP } else { 0 };
    kernel::unshare(namespaces).during(|| "making namespaces".to_owned())?;
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "parting from the node's mounts".to_owned())?;
    root::build(plan, copies, shared)?;
    connect(&plan.process, streams, status, true)?;
    root::close(plan)?;
    become_process(&plan.process)
}

/// The program that starts a container, in a mount namespace where the container's image is mounted.
pub(crate) fn launcher(launch: &Launch, streams: Streams, node: &OwnedFd, status: &OwnedFd) -> Never {
    let plan = &launch.container;
    kernel::new_session().during(|| "starting a session".to_owned())?;
    let memory = match launch.shared_memory.as_str() {
        "" => None,
        _ => Some(kernel::copy_mount("shm", true).during(|| "copying shared memory".to_owned())?),
    };
    kernel::enter(node, CLONE_NEWNS).during(|| "entering the node's mounts".to_owned())?;
    kernel::unshare(CLONE_NEWNS).during(|| "making namespaces".to_owned())?;
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "parting from the node's mounts".to_owned())?;
    root::mount_image(plan)?;
    if let Some(memory) = memory {
        let place = &launch.shared_memory;
        let folder = fs::File::open(place).map(OwnedFd::from).during(|| format!("opening {place}"))?;
        kernel::attach_mount(&memory, &folder).during(|| "attaching shared memory".to_owned())?;
    }
    std::env::set_current_dir("/").during(|| "changing to the root".to_owned())?;
    connect(&plan.process, streams, status, false)?;
    kernel::reset_signals().during(|| "resetting signals".to_owned())?;
    let Some(program) = launch.program.first() else { return Err("no runtime specified".to_owned()) };
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    let error = kernel::execute(program, &launch.program, &[path]);
    Err(format!("exec: {program:?}: {}", words(&error)))
}

/// A process that joins a container.
pub(crate) fn joiner(process: &Process, entrance: &Entrance, streams: Streams, status: &OwnedFd) -> Never {
    begin(&entrance.cgroup_files, process)?;
    kernel::enter(&entrance.mounts, CLONE_NEWNS).during(|| "entering the container's mounts".to_owned())?;
    kernel::enter(&entrance.cgroups, CLONE_NEWCGROUP)
        .during(|| "entering the container's cgroups".to_owned())?;
    connect(process, streams, status, false)?;
    become_process(process)
}

fn begin(cgroups: &[String], process: &Process) -> Result<(), String> {
    const PR_SET_DUMPABLE: i32 = 4;
    // Nobody in a shared process namespace may look into us before we are the container's.
    kernel::control(PR_SET_DUMPABLE, 0).during(|| "hiding".to_owned())?;
    kernel::new_session().during(|| "starting a session".to_owned())?;
    for file in cgroups {
        fs::write(file, "0").during(|| format!("joining {file}"))?;
    }
    // Some nodes refuse to lower it; that is no reason not to run.
    let _ = fs::write("/proc/self/oom_score_adj", process.oom_score_adj.to_string());
    Ok(())
}

fn connect(process: &Process, streams: Streams, status: &OwnedFd, first: bool) -> Result<(), String> {
    let put = |descriptor: &OwnedFd, place| {
        kernel::put_in_place(descriptor, place).during(|| "connecting standard streams".to_owned())
    };
    match streams {
        Streams::Pipes(pipes) => pipes.iter().zip(0..).try_for_each(|(pipe, place)| put(pipe, place)),
        Streams::Terminal => {
            let opened = kernel::open_terminal(process.columns, process.rows);
            let (master, peer) = opened.during(|| "opening a terminal".to_owned())?;
            (0..3).try_for_each(|place| put(&peer, place))?;
            kernel::take_terminal().during(|| "taking the terminal".to_owned())?;
            if first {
                root::make_console(&peer)?;
            }
            report(status, TERMINAL, &[master]);
            Ok(())
        }
    }
}

fn become_process(process: &Process) -> Never {
    let cwd = if process.cwd.is_empty() { "/" } else { &process.cwd };
    // As the image's user it might not be reachable, as root on some file systems it might not be either.
    let entered = std::env::set_current_dir(cwd);
    for limit in &process.limits {
        let set = kernel::set_limit(limit.resource, limit.soft, limit.hard);
        set.during(|| format!("setting limit {}", limit.resource))?;
    }
    if !process.apparmor.is_empty() {
        let written = fs::write("/proc/self/attr/exec", format!("exec {}", process.apparmor));
        written.during(|| format!("taking on AppArmor profile {:?}", process.apparmor))?;
    }
    kernel::reset_signals().during(|| "resetting signals".to_owned())?;
    kernel::set_umask(process.umask);
    if !process.no_new_privileges {
        confine(process)?;
    }
    take_identity(process)?;
    if entered.is_err() {
        std::env::set_current_dir(cwd).during(|| format!("changing to {cwd:?}"))?;
    }
    let program = find(process)?;
    if process.no_new_privileges {
        const PR_SET_NO_NEW_PRIVS: i32 = 38;
        kernel::control(PR_SET_NO_NEW_PRIVS, 1).during(|| "giving up new privileges".to_owned())?;
        confine(process)?;
    }
    let error = kernel::execute(&program, &process.args, &process.env);
    Err(format!("exec: {:?}: {}", process.args[0], words(&error)))
}

fn confine(process: &Process) -> Result<(), String> {
    if process.seccomp.is_empty() {
        return Ok(());
    }
    kernel::confine(&process.seccomp, process.seccomp_flags)
        .during(|| "loading the seccomp profile".to_owned())
}

fn take_identity(process: &Process) -> Result<(), String> {
    const PR_SET_PDEATHSIG: i32 = 1;
    const PR_SET_KEEPCAPS: i32 = 8;
    const PR_CAPBSET_DROP: i32 = 24;
    let allowed = kernel::permitted().during(|| "reading capabilities".to_owned())?;
    for capability in 0..64u32 {
        // The kernel knows fewer than there are bits.
        if process.bounding & 1 << capability == 0
            && kernel::control(PR_CAPBSET_DROP, u64::from(capability)).is_err()
            && allowed & 1 << capability != 0
        {
            return Err(format!("dropping capability {capability}"));
        }
    }
    kernel::control(PR_SET_KEEPCAPS, 1).during(|| "keeping capabilities".to_owned())?;
    kernel::set_groups(&process.groups).during(|| "setting groups".to_owned())?;
    kernel::set_user(process.uid, process.gid).during(|| format!("becoming user {}", process.uid))?;
    let effective = process.effective & allowed;
    let inheritable = process.inheritable & allowed;
    kernel::set_capabilities(effective, effective, inheritable)
        .during(|| "setting capabilities".to_owned())?;
    for capability in (0..64u32).filter(|bit| process.ambient & allowed & 1 << bit != 0) {
        kernel::raise_ambient(capability).during(|| format!("raising capability {capability}"))?;
    }
    // Last: a change of identity forgets it. Without its supervisor a container has no log and no keeper.
    kernel::control(PR_SET_PDEATHSIG, SIGKILL as u64)
        .during(|| "binding to the supervisor".to_owned())
        .map(drop)
}

/// The program's file, as a shell would find it.
fn find(process: &Process) -> Result<String, String> {
    let Some(name) = process.args.first().filter(|name| !name.is_empty()) else {
        return Err("no command specified".to_owned());
    };
    if name.contains('/') {
        return match fs::metadata(name) {
            Ok(_) => Ok(name.clone()),
            Err(error) => Err(format!("exec: {name:?}: stat {name}: {}", words(&error))),
        };
    }
    let path = process.env.iter().rev().find_map(|entry| entry.strip_prefix("PATH="));
    let mut folders =
        path.unwrap_or_default().split(':').map(|folder| if folder.is_empty() { "." } else { folder });
    let found = folders.find_map(|folder| {
        let file = Path::new(folder).join(name);
        is_program(&file).then(|| file.to_string_lossy().into_owned())
    });
    found.ok_or_else(|| format!("exec: {name:?}: executable file not found in $PATH"))
}

fn is_program(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// Where a descriptor can be reached as a path.
pub(crate) fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
