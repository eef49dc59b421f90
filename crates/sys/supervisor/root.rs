//! A container's root: mounted in its own mount namespace, so that the node never sees it and nothing stays when the
//! last process in it has exited.
//!
//! Neither the image nor the volumes are trusted: every path in them is resolved inside the root (`rooted`) and used as
//! a descriptor. Everything is mounted before the root is entered, while the node's `/proc` and `/dev` can be reached,
//! because those of the container may be anything.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::child::{While, path_of};
use crate::kernel::{self, CLONE_NEWNS, MS_BIND, MS_RDONLY, MS_REMOUNT, MS_SHARED};
use crate::rooted::{self, Links, PROCFS, Root, SYSFS};
use crate::wire::{Container, Device, Mount, Processes};

/// The source of the pod's shared memory, which is in the supervisor's own mount namespace.
pub(crate) const SHARED_MEMORY: &str = "shm:";

/// The procfs of the pod's shared process namespace, in the supervisor's own mount namespace.
pub(crate) const SHARED_PROC: &str = "proc";

/// Paths below `/proc` that may be mounted over: files that report on the node, which programs such as lxcfs replace.
/// The list is runc's.
const ALLOWED_IN_PROC: [&str; 10] = [
    "/proc/cpuinfo",
    "/proc/diskstats",
    "/proc/meminfo",
    "/proc/stat",
    "/proc/swaps",
    "/proc/uptime",
    "/proc/loadavg",
    "/proc/slabinfo",
    "/proc/sys/kernel/ns_last_pid",
    "/proc/sys/crypto/fips_enabled",
];

/// Copies of mounts of another mount namespace, by their index in the plan.
pub(crate) type Copies = Vec<(usize, OwnedFd)>;

/// Copies of the mounts of the pod: its shared memory, and procfs of its shared process namespace.
pub(crate) fn copies_from_pod(plan: &Container) -> Result<Copies, String> {
    copies(plan, |mount| match mount.kind.as_str() {
        "" if mount.source == SHARED_MEMORY => Some("shm"),
        "proc" if plan.processes == Processes::Pod => Some(SHARED_PROC),
        _ => None,
    })
}

/// Copies of the mounts that stay connected to the node in both directions, made before the namespaces separate.
pub(crate) fn copies_from_node(plan: &Container) -> Result<Copies, String> {
    copies(plan, |mount| (mount.propagation & MS_SHARED != 0).then_some(&mount.source))
}

/// A copy of procfs of the container whose process namespace this one shares. Mounting it anew would need a process
/// with all privileges in that namespace, where the other container's processes could trace it.
pub(crate) fn copies_from_target(plan: &Container, target: &OwnedFd) -> Result<Copies, String> {
    let Some(place) = plan.mounts.iter().position(|mount| mount.kind == "proc") else {
        return Ok(Vec::new());
    };
    kernel::enter(target, CLONE_NEWNS)
        .during(|| "cannot enter the target container's mount namespace".to_owned())?;
    let copy = || -> io::Result<OwnedFd> {
        let proc = Root::open(Path::new("/"))?.find("/proc", Links::Refused)?;
        if !rooted::is_proc_root(&proc)? {
            return Err(io::Error::other("it is not procfs"));
        }
        kernel::copy_mount_of(&proc, false)
    };
    Ok(vec![(place, copy().during(|| "cannot copy /proc of the target container".to_owned())?)])
}

fn copies<'a>(plan: &'a Container, wanted: impl Fn(&'a Mount) -> Option<&'a str>) -> Result<Copies, String> {
    let mounts = plan.mounts.iter().enumerate();
    let sources = mounts.filter_map(|(place, mount)| Some((place, wanted(mount)?)));
    sources
        .map(|(place, source)| {
            // A path of the node: a volume's, or one of the pod's own folder.
            let copy = kernel::copy_mount(source, true).during(|| format!("cannot copy mount {source:?}"))?;
            Ok((place, copy))
        })
        .collect()
}

/// Mounts the image at the path of the container's root.
pub(crate) fn mount_image(plan: &Container) -> Result<(), String> {
    // A path of the node, and below another path of the node.
    std::env::set_current_dir(&plan.layers).during(|| format!("cannot change to {}", plan.layers))?;
    // A path of the node.
    kernel::mount("overlay", &plan.root, "overlay", 0, &plan.overlay)
        .during(|| "cannot mount the image".to_owned())
}

/// Mounts the root file system.
pub(crate) fn build(plan: &Container, mut copies: Copies) -> Result<Root, String> {
    mount_image(plan)?;
    let root = Root::open(Path::new(&plan.root)).during(|| "cannot open the root".to_owned())?;
    for (place, one) in plan.mounts.iter().enumerate() {
        let copy =
            copies.iter().position(|(for_place, _)| *for_place == place).map(|at| copies.swap_remove(at).1);
        let mounted = mount(&root, one, copy)
            .map_err(|error| format!("cannot mount {:?} at {:?}: {error}", one.source, one.target));
        if !one.optional {
            mounted?;
        }
        // At once, before anything else can write there. A `/dev` that a volume brings stays as it is.
        if has_own_devices(one) {
            fill_dev(&root, plan)?;
        }
    }
    let cwd = &plan.process.cwd;
    root.directory(cwd, Links::Inside).during(|| format!("cannot create the working directory {cwd:?}"))?;
    verify(&root, plan)?;
    Ok(root)
}

/// Makes the mounted root the root of this process; the node's root is then unreachable.
pub(crate) fn enter(root: &Root, plan: &Container) -> Result<(), String> {
    kernel::change_directory(root.descriptor()).during(|| "cannot change to the root".to_owned())?;
    kernel::pivot_root_here().during(|| "cannot pivot the root".to_owned())?;
    kernel::detach(".").during(|| "cannot unmount the node's root".to_owned())?;
    // As the container itself: it has no other root now.
    std::env::set_current_dir("/").during(|| "cannot change to the root".to_owned())?;
    if plan.read_only {
        // As the container itself.
        let remounted = kernel::mount("", "/", "", MS_BIND | MS_REMOUNT | MS_RDONLY, "");
        remounted.during(|| "cannot make the root read-only".to_owned())?;
    }
    Ok(())
}

/// Returns true if a container's `/dev` is the default one, and not a volume.
pub(crate) fn has_own_devices(mount: &Mount) -> bool {
    mount.target == "/dev" && mount.kind == "tmpfs"
}

fn mount(root: &Root, one: &Mount, copy: Option<OwnedFd>) -> Result<(), String> {
    let during = |what: &'static str| move || what.to_owned();
    if one.target.trim_matches('/').is_empty() {
        return Err("nothing can be mounted over the root".to_owned());
    }
    let is_bind = one.kind.is_empty();
    let copy = match copy {
        None if is_bind => {
            // A path of the node: a volume's.
            Some(kernel::copy_mount(&one.source, true).during(|| format!("stat {}", one.source))?)
        }
        other => other,
    };
    let is_folder = match &copy {
        Some(copy) => rooted::is_directory(copy).during(during("cannot inspect the source"))?,
        None => true,
    };
    // File systems that the container's confinement relies on are mounted exactly at their targets; links of the image
    // are refused.
    let links = if is_bind { Links::Inside } else { Links::Refused };
    let place = if is_folder { root.directory(&one.target, links) } else { root.file(&one.target, links) };
    let place = place.during(during("cannot create the mount point"))?;
    guard_proc(root, one, copy.as_ref(), &place)?;
    let Some(copy) = copy else {
        let mounted = kernel::mount(&one.source, &path_of(&place), &one.kind, one.flags, &one.options);
        return mounted.during(during("mount"));
    };
    if is_bind {
        // Before it can be reached: another container may move the mount point, and then it could not be found again.
        restrict(&copy, one)?;
    }
    kernel::attach_mount(&copy, &place).during(during("attach"))
}

/// Applies the mount's options before it is attached.
fn restrict(copy: &OwnedFd, one: &Mount) -> Result<(), String> {
    let during = |what: &'static str| move || what.to_owned();
    // The attributes of mounts have the numbers of the old flags.
    let attributes = one.flags & kernel::MOUNT_ATTR_INERT;
    if attributes != one.flags {
        return Err(format!("unsupported flags {:#x} for a bind mount", one.flags));
    }
    if attributes != 0 {
        kernel::restrict_one_mount(copy, attributes).during(during("cannot set its mount options"))?;
    }
    if one.recursive_read_only {
        kernel::restrict_mount(copy, kernel::MOUNT_ATTR_RDONLY).during(during("cannot make it read-only"))?;
    }
    if one.propagation != 0 {
        kernel::set_propagation(copy, one.propagation).during(during("cannot set propagation"))?;
    }
    Ok(())
}

/// Refuses volumes in `/proc`, where they could hide that a path is not masked or fake the kernel's files.
fn guard_proc(root: &Root, one: &Mount, copy: Option<&OwnedFd>, place: &OwnedFd) -> Result<(), String> {
    let during = || "cannot inspect the mount point".to_owned();
    if one.kind.is_empty() && one.target == "/proc" {
        return match copy.map(rooted::is_proc_root).transpose().during(during)? {
            Some(true) => Ok(()),
            _ => Err("\"/proc\" cannot be mounted because it is not of type proc".to_owned()),
        };
    }
    if rooted::file_system(place).during(during)? != PROCFS {
        return Ok(());
    }
    let allowed =
        ALLOWED_IN_PROC.contains(&one.target.as_str()) && root.find(&one.target, Links::Refused).is_ok();
    if allowed {
        Ok(())
    } else {
        Err(format!("{:?} cannot be mounted because it is inside /proc", one.target))
    }
}

/// Verifies, when everything is mounted, that the kernel's own file systems are where the container's confinement
/// expects them.
fn verify(root: &Root, plan: &Container) -> Result<(), String> {
    for (kind, target, expected) in [("proc", "/proc", PROCFS), ("sysfs", "/sys", SYSFS)] {
        let planned = |mount: &Mount| mount.target == target && (mount.kind == kind || kind == "proc");
        if !plan.mounts.iter().any(planned) {
            continue;
        }
        let during = || format!("cannot verify {target}");
        let found = root.find(target, Links::Refused).during(during)?;
        if rooted::file_system(&found).during(during)? != expected {
            return Err(format!("cannot verify {target}: it is not {kind}"));
        }
    }
    Ok(())
}

fn fill_dev(root: &Root, plan: &Container) -> Result<(), String> {
    for device in &plan.devices {
        make_device(root, device).during(|| format!("cannot create device {}", device.path))?;
    }
    for (target, path) in &plan.links {
        let (folder, name) = rooted::split(path);
        let folder = root.directory(folder, Links::Refused).during(|| format!("cannot create {path}"))?;
        match kernel::make_link_at(target, &folder, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!("cannot link {path}: {error}"));
            }
            _ => {}
        }
    }
    Ok(())
}

/// An existing device is kept if it is the same; any other file in its place is refused.
fn make_device(root: &Root, device: &Device) -> io::Result<()> {
    use std::os::unix::fs::MetadataExt;
    const KIND: u32 = 0o170_000;
    let (folder, name) = rooted::split(&device.path);
    let folder = root.directory(folder, Links::Inside)?;
    match rooted::make_node(&folder, name, device.mode, device.major, device.minor) {
        Ok(()) => kernel::change_owner_at(&folder, name, device.uid, device.gid),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            let there = rooted::metadata(&root.find(&device.path, Links::Refused)?)?;
            let number = rooted::device_number(device.major, device.minor);
            let same = there.mode() & KIND == device.mode & KIND && there.rdev() == number;
            if same { Ok(()) } else { Err(error) }
        }
        Err(error) => Err(error),
    }
}
