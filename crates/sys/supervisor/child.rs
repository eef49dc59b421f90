//! The code between a fork and the program it was forked for. Nothing here returns to the supervisor.
//!
//! The order matters everywhere: steps that need the node's view come before the container's root, steps that need
//! privileges before those are dropped, and the system call filter comes as late as it allows.
//!
//! *Invariant:* a process that other processes of the pod can see has no access to the node: no directory, no
//! descriptor, no privilege that the container does not have. A process that joins a process namespace with others in
//! it therefore prepares everything outside of it, and enters it with a last fork (`descend`) in its final state.

use std::convert::Infallible;
use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::Path;

use crate::kernel::{self, CLONE_NEWCGROUP, CLONE_NEWNS, CLONE_NEWPID, MS_REC, MS_SLAVE};
use crate::rooted::{Links, Root};
use crate::running::{PROCESS, TERMINAL};
use crate::wire::{Container, Launch, Process};
use crate::{console, masks, root};

pub(crate) type Never = Result<Infallible, String>;

/// Adds the failed operation to an error.
pub(crate) trait While<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T, String>;
}

impl<T> While<T> for io::Result<T> {
    fn during(self, what: impl FnOnce() -> String) -> Result<T, String> {
        self.map_err(|error| format!("{}: {}", what(), words(&error)))
    }
}

/// The system's text of an error, without its number.
pub(crate) fn words(error: &io::Error) -> String {
    let text = error.to_string();
    let plain = text.split(" (os error").next().unwrap_or_default();
    plain[..1].to_lowercase() + &plain[1..]
}

/// The standard streams of a process.
pub(crate) enum Streams {
    /// Standard input, output and error.
    Pipes([OwnedFd; 3]),
    /// A terminal of the container, whose master is sent back.
    Terminal,
}

/// The namespaces and the root of a running container.
pub(crate) struct Entrance {
    pub(crate) mounts: OwnedFd,
    pub(crate) cgroups: OwnedFd,
    pub(crate) processes: OwnedFd,
    pub(crate) cgroup_files: Vec<String>,
}

/// The process namespace that a starting container shares.
pub(crate) struct Company {
    pub(crate) processes: OwnedFd,
    /// The mount namespace of the container that owns it; `None` if it is the pod's.
    pub(crate) mounts: Option<OwnedFd>,
}

/// Sends the outcome of a start: a terminal, or the error. Closing the socket without a message is success.
pub(crate) fn report(status: &OwnedFd, text: &[u8], passed: &[OwnedFd]) {
    // Fails if the supervisor is gone.
    let _ = kernel::send(status.as_fd(), text, passed);
}

/// A container's first process.
pub(crate) fn container(
    plan: &Container,
    streams: Streams,
    node: &OwnedFd,
    company: Option<&Company>,
    status: &OwnedFd,
) -> Never {
    let label = begin(&plan.cgroups, &plan.process)?;
    let mut copies = root::copies_from_pod(plan)?;
    if let Some(target) = company.and_then(|company| company.mounts.as_ref()) {
        copies.extend(root::copies_from_target(plan, target)?);
    }
    kernel::enter(node, CLONE_NEWNS).during(|| "cannot enter the node's mount namespace".to_owned())?;
    copies.extend(root::copies_from_node(plan)?);
    let namespaces = CLONE_NEWNS | if plan.own_cgroup_namespace { CLONE_NEWCGROUP } else { 0 };
    kernel::unshare(namespaces).during(|| "cannot create namespaces".to_owned())?;
    // A path of the node.
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "cannot make the node's mounts rslave".to_owned())?;
    // Modes are exactly those that are set.
    kernel::set_umask(0);
    let root = root::build(plan, copies)?;
    let has_console = plan.mounts.iter().any(root::has_own_devices);
    connect(&plan.process, streams, &root, has_console, status)?;
    masks::place(&root, plan)?;
    root::enter(&root, plan)?;
    drop(root);
    become_process(&plan.process, label, company.map(|company| &company.processes), status)
}

/// The program that starts a container, in a mount namespace where the container's image is mounted.
pub(crate) fn launcher(launch: &Launch, streams: Streams, node: &OwnedFd, status: &OwnedFd) -> Never {
    let plan = &launch.container;
    kernel::new_session().during(|| "cannot start a session".to_owned())?;
    let memory = match launch.shared_memory.as_str() {
        "" => None,
        // A path of the node: the pod's own folder.
        _ => Some(kernel::copy_mount("shm", true).during(|| "cannot copy shared memory".to_owned())?),
    };
    kernel::enter(node, CLONE_NEWNS).during(|| "cannot enter the node's mount namespace".to_owned())?;
    kernel::unshare(CLONE_NEWNS).during(|| "cannot create namespaces".to_owned())?;
    // A path of the node.
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "cannot make the node's mounts rslave".to_owned())?;
    root::mount_image(plan)?;
    if let Some(memory) = memory {
        let place = &launch.shared_memory;
        // A path of the node.
        let folder = fs::File::open(place).map(OwnedFd::from).during(|| format!("cannot open {place}"))?;
        kernel::attach_mount(&memory, &folder).during(|| "cannot attach shared memory".to_owned())?;
    }
    let root = Root::open(Path::new(&plan.root)).during(|| "cannot open the root".to_owned())?;
    // A path of the node: the program that starts the container is the node's.
    std::env::set_current_dir("/").during(|| "cannot change to the root".to_owned())?;
    connect(&plan.process, streams, &root, false, status)?;
    if plan.process.terminal {
        kernel::take_terminal().during(|| "cannot set the controlling terminal".to_owned())?;
    }
    kernel::reset_signals().during(|| "cannot reset signals".to_owned())?;
    let Some(program) = launch.program.first() else { return Err("no runtime specified".to_owned()) };
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    let error = kernel::execute(program, &launch.program, &[path]);
    Err(format!("exec: {program:?}: {}", words(&error)))
}

/// A process that joins a container.
pub(crate) fn joiner(process: &Process, entrance: &Entrance, streams: Streams, status: &OwnedFd) -> Never {
    let label = begin(&entrance.cgroup_files, process)?;
    kernel::enter(&entrance.mounts, CLONE_NEWNS)
        .during(|| "cannot enter the container's mount namespace".to_owned())?;
    kernel::enter(&entrance.cgroups, CLONE_NEWCGROUP)
        .during(|| "cannot enter the container's cgroup namespace".to_owned())?;
    let root = Root::open(Path::new("/")).during(|| "cannot open the root".to_owned())?;
    connect(process, streams, &root, false, status)?;
    drop(root);
    become_process(process, label, Some(&entrance.processes), status)
}

/// Leaves the supervisor's session and cgroup. Returns the file that sets the AppArmor label of the program, if it has
/// one: of the node's procfs, because the container's may be anything.
fn begin(cgroups: &[String], process: &Process) -> Result<Option<fs::File>, String> {
    kernel::set_dumpable(false).during(|| "cannot make the process non-dumpable".to_owned())?;
    kernel::new_keyring().during(|| "cannot create a keyring".to_owned())?;
    kernel::new_session().during(|| "cannot start a session".to_owned())?;
    for file in cgroups {
        // A path of the node.
        fs::write(file, "0").during(|| format!("cannot join {file}"))?;
    }
    // Some nodes refuse to lower it, which is no reason not to run. A path of the node.
    let _ = fs::write("/proc/self/oom_score_adj", process.oom_score_adj.to_string());
    if process.apparmor.is_empty() {
        return Ok(None);
    }
    let file = fs::File::options().write(true).open("/proc/self/attr/exec"); // A path of the node.
    file.map(Some).during(|| "cannot open the AppArmor attribute".to_owned())
}

fn connect(
    process: &Process,
    streams: Streams,
    root: &Root,
    has_console: bool,
    status: &OwnedFd,
) -> Result<(), String> {
    let put = |descriptor: &OwnedFd, place| {
        kernel::put_in_place(descriptor, place).during(|| "cannot connect standard streams".to_owned())
    };
    match streams {
        Streams::Pipes(pipes) => pipes.iter().zip(0..).try_for_each(|(pipe, place)| put(pipe, place)),
        Streams::Terminal => {
            let (master, peer) = console::open(root, process)?;
            (0..3).try_for_each(|place| put(&peer, place))?;
            if has_console {
                console::mount(root, &peer)?;
            }
            report(status, TERMINAL, &[master]);
            Ok(())
        }
    }
}

/// Executes the program, in the process namespace of `company` if there is one.
fn become_process(
    process: &Process,
    label: Option<fs::File>,
    company: Option<&OwnedFd>,
    status: &OwnedFd,
) -> Never {
    let cwd = if process.cwd.is_empty() { "/" } else { &process.cwd };
    // Either the image's user or, on some file systems, root may be unable to enter it.
    let entered = enter_working_directory(cwd);
    for limit in &process.limits {
        let set = kernel::set_limit(limit.resource, limit.soft, limit.hard);
        set.during(|| format!("cannot set limit {}", limit.resource))?;
    }
    if let Some(mut label) = label {
        let written = label.write_all(format!("exec {}", process.apparmor).as_bytes());
        written.during(|| format!("cannot apply AppArmor profile {:?}", process.apparmor))?;
    }
    if let Some(company) = company {
        kernel::enter(company, CLONE_NEWPID).during(|| "cannot enter the PID namespace".to_owned())?;
    }
    kernel::close_all_but(&[status.as_raw_fd()]).during(|| "cannot close descriptors".to_owned())?;
    kernel::reset_signals().during(|| "cannot reset signals".to_owned())?;
    kernel::set_umask(process.umask);
    if !process.no_new_privileges {
        confine(process)?;
    }
    take_identity(process)?;
    if company.is_some() {
        descend(status)?;
    }
    if process.terminal {
        kernel::take_terminal().during(|| "cannot set the controlling terminal".to_owned())?;
    }
    // After the last change of identity, which clears it. Without its supervisor a container has no log and no init
    // process.
    kernel::die_with_parent().during(|| "cannot set the parent-death signal".to_owned())?;
    if entered.is_err() {
        enter_working_directory(cwd).during(|| format!("cannot change to {cwd:?}"))?;
    }
    let program = find(process)?;
    if process.no_new_privileges {
        kernel::give_up_new_privileges().during(|| "cannot set no_new_privs".to_owned())?;
        confine(process)?;
    }
    let error = kernel::execute(&program, &process.args, &process.env);
    Err(format!("exec: {:?}: {}", process.args[0], words(&error)))
}

/// The directory is opened without following a link out of the root, and the result is checked again: a working
/// directory outside of the root is a way out of the container.
fn enter_working_directory(path: &str) -> io::Result<()> {
    let directory = Root::open(Path::new("/"))?.find(path, Links::Inside)?;
    kernel::change_directory(&directory)?;
    match kernel::working_directory_is_inside_root()? {
        true => Ok(()),
        false => Err(io::Error::other("it is outside of the container's root")),
    }
}

/// Continues as a new process in the process namespace that was entered; the supervisor gets its process id before it
/// continues.
fn descend(status: &OwnedFd) -> Result<(), String> {
    let during = || "cannot fork into the PID namespace".to_owned();
    let (told, mut tell) =
        kernel::pipe().map(|(read, write)| (read, fs::File::from(write))).during(during)?;
    let pid = kernel::fork_sibling().during(during)?;
    if pid != 0 {
        report(status, &[PROCESS, pid.to_string().as_bytes()].concat(), &[]);
        // From here on only the new process reports. If it is gone, there is nothing to report.
        let _ = kernel::close_all_but(&[tell.as_raw_fd()]).and_then(|()| tell.write_all(b"."));
        kernel::exit(0);
    }
    drop(tell);
    let mut word = [0];
    fs::File::from(told).read_exact(&mut word).during(during)?;
    kernel::new_session().during(|| "cannot start a session".to_owned())
}

fn confine(process: &Process) -> Result<(), String> {
    if process.seccomp.is_empty() {
        return Ok(());
    }
    kernel::confine(&process.seccomp, process.seccomp_flags)
        .during(|| "cannot load the seccomp profile".to_owned())
}

fn take_identity(process: &Process) -> Result<(), String> {
    let allowed = kernel::permitted().during(|| "cannot read capabilities".to_owned())?;
    drop_bounding(process.bounding, allowed)?;
    kernel::keep_capabilities().during(|| "cannot keep capabilities across setuid".to_owned())?;
    kernel::set_groups(&process.groups).during(|| "cannot set groups".to_owned())?;
    kernel::set_user(process.uid, process.gid).during(|| format!("cannot set user {}", process.uid))?;
    let effective = process.effective & allowed;
    let inheritable = process.inheritable & allowed;
    kernel::set_capabilities(effective, effective, inheritable)
        .during(|| "cannot set capabilities".to_owned())?;
    for capability in (0..64u32).filter(|bit| process.ambient & allowed & 1 << bit != 0) {
        kernel::raise_ambient(capability).during(|| format!("cannot raise capability {capability}"))?;
    }
    Ok(())
}

/// Drops all capabilities but `kept` from the bounding set.
pub(crate) fn drop_bounding(kept: u64, allowed: u64) -> Result<(), String> {
    // The kernel knows fewer capabilities than there are bits.
    let failed = (0..64u32).find(|&capability| {
        kept & 1 << capability == 0
            && kernel::drop_from_bounding(capability).is_err()
            && allowed & 1 << capability != 0
    });
    failed.map_or(Ok(()), |capability| Err(format!("cannot drop capability {capability}")))
}

/// The program's file, as a shell would find it. It is looked up as the container itself, without access to the node.
fn find(process: &Process) -> Result<String, String> {
    let Some(name) = process.args.first().filter(|name| !name.is_empty()) else {
        return Err("no command specified".to_owned());
    };
    if name.contains('/') {
        // As the container itself.
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
    // As the container itself.
    fs::metadata(file).is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
}

/// A path of a descriptor, while `/proc` is the node's.
pub(crate) fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
