//! A container's root: put together in its own mount namespace, so that nothing of it is ever seen on the node and
//! nothing stays when the last process in it is gone.
//!
//! The image is not trusted: every path in it is resolved as if the container's root were the root.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use crate::child::{While, path_of};
use crate::kernel::{
    self, MS_BIND, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY, MS_REC, MS_REMOUNT, MS_SHARED, O_PATH,
};
use crate::wire::{Container, Device, Mount};

/// The source that means the pod's shared memory; it lies in the supervisor's own mount namespace.
pub(crate) const SHARED_MEMORY: &str = "shm:";

/// Mounts taken along from another mount namespace, by their place in the plan.
pub(crate) type Copies = Vec<(usize, OwnedFd)>;

/// What only the pod has.
pub(crate) fn copies_from_pod(plan: &Container) -> Result<Copies, String> {
    copies(plan, |mount| (mount.source == SHARED_MEMORY).then_some("shm"))
}

/// What must stay connected to the node in both directions has to be copied before we part from it.
pub(crate) fn copies_from_node(plan: &Container) -> Result<Copies, String> {
    copies(plan, |mount| (mount.propagation & MS_SHARED != 0).then_some(&mount.source))
}

fn copies<'a>(plan: &'a Container, wanted: impl Fn(&'a Mount) -> Option<&'a str>) -> Result<Copies, String> {
    let mounts = plan.mounts.iter().enumerate();
    let sources = mounts.filter_map(|(place, mount)| Some((place, wanted(mount)?)));
    sources
        .map(|(place, source)| {
            let copy = kernel::copy_mount(source, true).during(|| format!("copying the mount {source:?}"))?;
            Ok((place, copy))
        })
        .collect()
}

/// Mounts the image, where the container's root is to be.
pub(crate) fn mount_image(plan: &Container) -> Result<(), String> {
    std::env::set_current_dir(&plan.layers).during(|| format!("changing to {}", plan.layers))?;
    kernel::mount("overlay", &plan.root, "overlay", 0, &plan.overlay)
        .during(|| "mounting the image".to_owned())
}

/// Puts the root together and makes it the root.
pub(crate) fn build(plan: &Container, from_pod: Copies, from_node: Copies) -> Result<(), String> {
    mount_image(plan)?;
    std::env::set_current_dir(&plan.root).during(|| format!("changing to {}", plan.root))?;
    let root = OwnedFd::from(std::fs::File::open(".").during(|| "opening the root".to_owned())?);
    let mut copies: Copies = from_pod.into_iter().chain(from_node).collect();
    for (place, one) in plan.mounts.iter().enumerate() {
        let copy =
            copies.iter().position(|(for_place, _)| *for_place == place).map(|at| copies.swap_remove(at).1);
        let mounted = mount(&root, one, copy)
            .map_err(|error| format!("mounting {:?} at {:?}: {error}", one.source, one.target));
        if !one.optional {
            mounted?;
        }
    }
    for device in &plan.devices {
        make_device(&root, device).during(|| format!("making device {}", device.path))?;
    }
    for (target, path) in &plan.links {
        let (folder, name) = split(path);
        let folder = folder_within(&root, folder).during(|| format!("making {path}"))?;
        match kernel::make_link_at(target, &folder, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                return Err(format!("linking {path}: {error}"));
            }
            _ => {}
        }
    }
    make_working_folder(&root, plan)?;
    kernel::pivot_root_here().during(|| "changing the root".to_owned())?;
    kernel::detach(".").during(|| "leaving the node's root".to_owned())?;
    std::env::set_current_dir("/").during(|| "changing to the root".to_owned())
}

/// Hides and protects; the last thing before the container's own program.
pub(crate) fn close(plan: &Container) -> Result<(), String> {
    for path in &plan.masked {
        mask(path).during(|| format!("masking {path}"))?;
    }
    for path in &plan.read_only_paths {
        let bound = kernel::mount(path, path, "", MS_BIND | MS_REC, "");
        match bound {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other.during(|| format!("protecting {path}"))?,
        }
        let flags = MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
        kernel::mount("", path, "", flags, "").during(|| format!("protecting {path}"))?;
    }
    if plan.read_only {
        let remounted = kernel::mount("", "/", "", MS_BIND | MS_REMOUNT | MS_RDONLY, "");
        remounted.during(|| "making the root read-only".to_owned())?;
    }
    Ok(())
}

fn mask(path: &str) -> io::Result<()> {
    match kernel::mount("/dev/null", path, "", MS_BIND, "") {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            kernel::mount("tmpfs", path, "tmpfs", MS_RDONLY, "")
        }
        other => other,
    }
}

fn mount(root: &OwnedFd, one: &Mount, copy: Option<OwnedFd>) -> Result<(), String> {
    let say = |what: &'static str| move || what.to_owned();
    let is_bind = one.kind.is_empty();
    let is_folder = !is_bind
        || one.source == SHARED_MEMORY
        || std::fs::metadata(&one.source).during(|| format!("stat {}", one.source))?.is_dir();
    let place = place(root, &one.target, is_folder).during(say("making the mount point"))?;
    if !is_bind {
        let mounted = kernel::mount(&one.source, &path_of(&place), &one.kind, one.flags, &one.options);
        return mounted.during(say("mount"));
    }
    match copy {
        Some(copy) => kernel::attach_mount(&copy, &place).during(say("attach"))?,
        None => kernel::mount(&one.source, &path_of(&place), "", MS_BIND | MS_REC, "").during(say("bind"))?,
    }
    // What was opened before lies under the mount now.
    let mounted = kernel::open_within(root, &one.target, O_PATH).during(say("opening the mount"))?;
    if one.flags != 0 {
        let flags = MS_BIND | MS_REMOUNT | one.flags;
        kernel::mount("", &path_of(&mounted), "", flags, "").during(say("remount"))?;
    }
    if one.recursive_read_only {
        kernel::make_read_only(&mounted).during(say("making it read-only"))?;
    }
    if one.propagation != 0 {
        kernel::mount("", &path_of(&mounted), "", one.propagation, "").during(say("setting propagation"))?;
    }
    Ok(())
}

/// A file or folder to mount on, made if it is missing.
fn place(root: &OwnedFd, path: &str, is_folder: bool) -> io::Result<OwnedFd> {
    if is_folder {
        return folder_within(root, path);
    }
    if let Ok(there) = kernel::open_within(root, path, O_PATH) {
        return Ok(there);
    }
    let (folder, name) = split(path);
    const REGULAR: u32 = 0o100644;
    kernel::make_node_at(&folder_within(root, folder)?, name, REGULAR, 0, 0)?;
    kernel::open_within(root, path, O_PATH)
}

/// A folder, made with all above it if it is missing.
fn folder_within(root: &OwnedFd, path: &str) -> io::Result<OwnedFd> {
    let path = path.trim_end_matches('/');
    if path.is_empty() {
        return root.try_clone();
    }
    match kernel::open_within(root, path, O_PATH) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        other => return other,
    }
    let (folder, name) = split(path);
    match kernel::make_folder_at(&folder_within(root, folder)?, name) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    kernel::open_within(root, path, O_PATH)
}

fn split(path: &str) -> (&str, &str) {
    path.trim_end_matches('/').rsplit_once('/').unwrap_or(("", path))
}

fn make_device(root: &OwnedFd, device: &Device) -> io::Result<()> {
    let (folder, name) = split(&device.path);
    let folder = folder_within(root, folder)?;
    match kernel::make_node_at(&folder, name, device.mode, device.major, device.minor) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
        _ => {}
    }
    kernel::change_owner_at(&folder, name, device.uid, device.gid)
}

/// Images may name a working directory that they do not have.
fn make_working_folder(root: &OwnedFd, plan: &Container) -> Result<(), String> {
    let cwd = &plan.process.cwd;
    let made = folder_within(root, cwd).during(|| format!("making the working directory {cwd:?}"));
    // In a root that somebody else owns, changing to it says what is wrong.
    made.map(drop)
}

/// The terminal is also the container's console.
pub(crate) fn make_console(peer: &OwnedFd) -> Result<(), String> {
    let console = "/dev/console";
    match std::fs::File::create_new(console) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            return Err(format!("making the console: {error}"));
        }
        _ => {}
    }
    let peer = format!("/proc/self/fd/{}", peer.as_raw_fd());
    let name = std::fs::read_link(peer).during(|| "finding the terminal".to_owned())?;
    kernel::mount(&name.to_string_lossy(), console, "", MS_BIND, "")
        .during(|| "mounting the console".to_owned())
}
