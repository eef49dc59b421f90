//! Paths that are hidden from a container, or read-only for it.
//!
//! They are mounted while the node's own `/dev/null` can be reached: the container's may be anything. A path that does
//! not exist needs no mask, because `/proc` and `/sys` were verified to be the kernel's; a mask that cannot be mounted
//! fails the container.

use std::io;
use std::os::fd::OwnedFd;
use std::path::Path;

use crate::child::{While, path_of};
use crate::kernel::{self, MS_NODEV, MS_NOEXEC, MS_NOSUID, MS_RDONLY};
use crate::rooted::{self, Links, Root, TMPFS};
use crate::wire::Container;

pub(crate) fn place(root: &Root, plan: &Container) -> Result<(), String> {
    for path in &plan.masked {
        mask(root, path).during(|| format!("cannot mask {path}"))?;
    }
    for path in &plan.read_only_paths {
        protect(root, path).during(|| format!("cannot make {path} read-only"))?;
    }
    Ok(())
}

/// The kernel's file systems have no links on the way to masked paths; the image's may, and they stay inside.
fn links_of(path: &str) -> Links {
    let of_kernel = ["/proc", "/sys"].iter().any(|root| Path::new(path).starts_with(root));
    if of_kernel { Links::Refused } else { Links::Inside }
}

fn find(root: &Root, path: &str) -> io::Result<Option<OwnedFd>> {
    match root.find(path, links_of(path)) {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

fn mask(root: &Root, path: &str) -> io::Result<()> {
    let Some(found) = find(root, path)? else { return Ok(()) };
    let is_directory = rooted::is_directory(&found)?;
    if is_directory {
        let flags = MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC;
        kernel::mount("tmpfs", &path_of(&found), "tmpfs", flags, "nr_inodes=1,size=4k")?;
    } else {
        kernel::attach_mount(&null_device()?, &found)?;
    }
    let hidden = root.find(path, links_of(path))?;
    let is_hidden = match is_directory {
        true => rooted::file_system(&hidden)? == TMPFS,
        false => rooted::is_character_device(&hidden, 1, 3)?,
    };
    if is_hidden { Ok(()) } else { Err(io::Error::other("it is still visible")) }
}

/// A mount of the node's `/dev/null`, which is verified.
fn null_device() -> io::Result<OwnedFd> {
    let null = Root::open(Path::new("/dev"))?.find("null", Links::Refused)?;
    if !rooted::is_character_device(&null, 1, 3)? {
        return Err(io::Error::other("the node's /dev/null is another file"));
    }
    kernel::copy_mount_of(&null, false)
}

fn protect(root: &Root, path: &str) -> io::Result<()> {
    let Some(found) = find(root, path)? else { return Ok(()) };
    let copy = kernel::copy_mount_of(&found, true)?;
    kernel::restrict_mount(&copy, kernel::MOUNT_ATTR_INERT)?;
    kernel::attach_mount(&copy, &found)
}
