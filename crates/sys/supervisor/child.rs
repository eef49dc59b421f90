//! What happens between a fork and the program it was forked for. Nothing here returns to the supervisor.
//!
//! The order matters everywhere: what needs the node's view comes before the container's root, what needs
//! privileges before they go, and the filter on system calls as late as those allow.
//!
//! *Invariant:* a process that other processes of the pod can see holds nothing of the node: no directory, no descriptor, no
//! privilege that the container was not given. A process that joins a process namespace with others in it therefore prepares
//! everything outside of it, and enters it with a last fork (`descend`) as what it is going to be.

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
    pub(crate) processes: OwnedFd,
    pub(crate) cgroup_files: Vec<String>,
}

/// Whose processes a container that starts is to see, if not only its own.
pub(crate) struct Company {
    pub(crate) processes: OwnedFd,
    /// The mounts of the container whose processes they are; `None` if they are the pod's.
    pub(crate) mounts: Option<OwnedFd>,
}

/// Sends what became of the start: a terminal, or why it failed. That it ends without a word is success.
pub(crate) fn report(status: &OwnedFd, text: &[u8], passed: &[OwnedFd]) {
    // Whoever asked may be gone.
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
    kernel::enter(node, CLONE_NEWNS).during(|| "entering the node's mounts".to_owned())?;
    copies.extend(root::copies_from_node(plan)?);
    let namespaces = CLONE_NEWNS | if plan.own_cgroup_namespace { CLONE_NEWCGROUP } else { 0 };
    kernel::unshare(namespaces).during(|| "making namespaces".to_owned())?;
    // A path of the node.
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "parting from the node's mounts".to_owned())?;
    // Modes are those that are asked for.
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
    kernel::new_session().during(|| "starting a session".to_owned())?;
    let memory = match launch.shared_memory.as_str() {
        "" => None,
        // A path of the node: the pod's own folder.
        _ => Some(kernel::copy_mount("shm", true).during(|| "copying shared memory".to_owned())?),
    };
    kernel::enter(node, CLONE_NEWNS).during(|| "entering the node's mounts".to_owned())?;
    kernel::unshare(CLONE_NEWNS).during(|| "making namespaces".to_owned())?;
    // A path of the node.
    kernel::mount("", "/", "", MS_REC | MS_SLAVE, "")
        .during(|| "parting from the node's mounts".to_owned())?;
    root::mount_image(plan)?;
    if let Some(memory) = memory {
        let place = &launch.shared_memory;
        // A path of the node.
        let folder = fs::File::open(place).map(OwnedFd::from).during(|| format!("opening {place}"))?;
        kernel::attach_mount(&memory, &folder).during(|| "attaching shared memory".to_owned())?;
    }
    let root = Root::open(Path::new(&plan.root)).during(|| "opening the root".to_owned())?;
    // A path of the node: the program that starts the container is the node's.
    std::env::set_current_dir("/").during(|| "changing to the root".to_owned())?;
    connect(&plan.process, streams, &root, false, status)?;
    if plan.process.terminal {
        kernel::take_terminal().during(|| "taking the terminal".to_owned())?;
    }
    kernel::reset_signals().during(|| "resetting signals".to_owned())?;
    let Some(program) = launch.program.first() else { return Err("no runtime specified".to_owned()) };
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin".to_owned();
    let error = kernel::execute(program, &launch.program, &[path]);
    Err(format!("exec: {program:?}: {}", words(&error)))
}

/// A process that joins a container.
pub(crate) fn joiner(process: &Process, entrance: &Entrance, streams: Streams, status: &OwnedFd) -> Never {
    let label = begin(&entrance.cgroup_files, process)?;
    kernel::enter(&entrance.mounts, CLONE_NEWNS).during(|| "entering the container's mounts".to_owned())?;
    kernel::enter(&entrance.cgroups, CLONE_NEWCGROUP)
        .during(|| "entering the container's cgroups".to_owned())?;
    let root = Root::open(Path::new("/")).during(|| "opening the root".to_owned())?;
    connect(process, streams, &root, false, status)?;
    drop(root);
    become_process(process, label, Some(&entrance.processes), status)
}

/// Leaves the supervisor's session and cgroup. Back comes the file that takes the label of the program to run, if it has one: of
/// the node's procfs, because the container's may be anything.
fn begin(cgroups: &[String], process: &Process) -> Result<Option<fs::File>, String> {
    kernel::set_dumpable(false).during(|| "hiding".to_owned())?;
    kernel::new_keyring().during(|| "making a keyring".to_owned())?;
    kernel::new_session().during(|| "starting a session".to_owned())?;
    for file in cgroups {
        // A path of the node.
        fs::write(file, "0").during(|| format!("joining {file}"))?;
    }
    // Some nodes refuse to lower it; that is no reason not to run. A path of the node.
    let _ = fs::write("/proc/self/oom_score_adj", process.oom_score_adj.to_string());
    if process.apparmor.is_empty() {
        return Ok(None);
    }
    let file = fs::File::options().write(true).open("/proc/self/attr/exec"); // A path of the node.
    file.map(Some).during(|| "opening the AppArmor attribute".to_owned())
}

fn connect(
    process: &Process,
    streams: Streams,
    root: &Root,
    has_console: bool,
    status: &OwnedFd,
) -> Result<(), String> {
    let put = |descriptor: &OwnedFd, place| {
        kernel::put_in_place(descriptor, place).during(|| "connecting standard streams".to_owned())
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

/// Becomes the program, in the process namespace of `company` if there is one.
fn become_process(
    process: &Process,
    label: Option<fs::File>,
    company: Option<&OwnedFd>,
    status: &OwnedFd,
) -> Never {
    let cwd = if process.cwd.is_empty() { "/" } else { &process.cwd };
    // As the image's user it might not be reachable, as root on some file systems it might not be either.
    let entered = enter_working_directory(cwd);
    for limit in &process.limits {
        let set = kernel::set_limit(limit.resource, limit.soft, limit.hard);
        set.during(|| format!("setting limit {}", limit.resource))?;
    }
    if let Some(mut label) = label {
        let written = label.write_all(format!("exec {}", process.apparmor).as_bytes());
        written.during(|| format!("taking on AppArmor profile {:?}", process.apparmor))?;
    }
    if let Some(company) = company {
        kernel::enter(company, CLONE_NEWPID).during(|| "entering the process namespace".to_owned())?;
    }
    kernel::close_all_but(&[status.as_raw_fd()]).during(|| "closing descriptors".to_owned())?;
    kernel::reset_signals().during(|| "resetting signals".to_owned())?;
    kernel::set_umask(process.umask);
    if !process.no_new_privileges {
        confine(process)?;
    }
    take_identity(process)?;
    if company.is_some() {
        descend(status)?;
    }
    if process.terminal {
        kernel::take_terminal().during(|| "taking the terminal".to_owned())?;
    }
    // After the last change of identity, which forgets it. Without its supervisor a container has no log and no keeper.
    kernel::die_with_parent().during(|| "binding to the supervisor".to_owned())?;
    if entered.is_err() {
        enter_working_directory(cwd).during(|| format!("changing to {cwd:?}"))?;
    }
    let program = find(process)?;
    if process.no_new_privileges {
        kernel::give_up_new_privileges().during(|| "giving up new privileges".to_owned())?;
        confine(process)?;
    }
    let error = kernel::execute(&program, &process.args, &process.env);
    Err(format!("exec: {:?}: {}", process.args[0], words(&error)))
}

/// The directory is found without following a link out of the root, and what was found is checked again: a working directory
/// outside of the root is a way out of the container.
fn enter_working_directory(path: &str) -> io::Result<()> {
    let directory = Root::open(Path::new("/"))?.find(path, Links::Inside)?;
    kernel::change_directory(&directory)?;
    match kernel::working_directory_is_inside_root()? {
        true => Ok(()),
        false => Err(io::Error::other("it is outside of the container's root")),
    }
}

/// Goes on in the process namespace that was entered; the supervisor is told which process it is from now on, and only then
/// does it go on.
fn descend(status: &OwnedFd) -> Result<(), String> {
    let say = || "starting in the process namespace".to_owned();
    let (told, mut tell) = kernel::pipe().map(|(read, write)| (read, fs::File::from(write))).during(say)?;
    let pid = kernel::fork_sibling().during(say)?;
    if pid != 0 {
        report(status, &[PROCESS, pid.to_string().as_bytes()].concat(), &[]);
        // From here on only the other one can say how it goes on. If it is gone, so is what it was to do.
        let _ = kernel::close_all_but(&[tell.as_raw_fd()]).and_then(|()| tell.write_all(b"."));
        kernel::exit(0);
    }
    drop(tell);
    let mut word = [0];
    fs::File::from(told).read_exact(&mut word).during(say)?;
    kernel::new_session().during(|| "starting a session".to_owned())
}

fn confine(process: &Process) -> Result<(), String> {
    if process.seccomp.is_empty() {
        return Ok(());
    }
    kernel::confine(&process.seccomp, process.seccomp_flags)
        .during(|| "loading the seccomp profile".to_owned())
}

fn take_identity(process: &Process) -> Result<(), String> {
    let allowed = kernel::permitted().during(|| "reading capabilities".to_owned())?;
    drop_bounding(process.bounding, allowed)?;
    kernel::keep_capabilities().during(|| "keeping capabilities".to_owned())?;
    kernel::set_groups(&process.groups).during(|| "setting groups".to_owned())?;
    kernel::set_user(process.uid, process.gid).during(|| format!("becoming user {}", process.uid))?;
    let effective = process.effective & allowed;
    let inheritable = process.inheritable & allowed;
    kernel::set_capabilities(effective, effective, inheritable)
        .during(|| "setting capabilities".to_owned())?;
    for capability in (0..64u32).filter(|bit| process.ambient & allowed & 1 << bit != 0) {
        kernel::raise_ambient(capability).during(|| format!("raising capability {capability}"))?;
    }
    Ok(())
}

/// No program that this process becomes has more capabilities than `kept`.
pub(crate) fn drop_bounding(kept: u64, allowed: u64) -> Result<(), String> {
    // The kernel knows fewer than there are bits.
    let failed = (0..64u32).find(|&capability| {
        kept & 1 << capability == 0
            && kernel::drop_from_bounding(capability).is_err()
            && allowed & 1 << capability != 0
    });
    failed.map_or(Ok(()), |capability| Err(format!("dropping capability {capability}")))
}

/// The program's file, as a shell would find it. It is looked for as the container itself, which has nothing of the node by now.
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

/// Where a descriptor can be reached as a path, while `/proc` is the node's.
pub(crate) fn path_of(descriptor: &OwnedFd) -> String {
    format!("/proc/self/fd/{}", descriptor.as_raw_fd())
}
