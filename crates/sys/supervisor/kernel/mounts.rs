//! Mounts. Paths here are of the node; files inside an untrusted root are named by a descriptor (`rooted`).

use super::*;

pub(crate) fn mount(source: &str, target: &str, kind: &str, flags: u64, options: &str) -> io::Result<()> {
    let (source, target, kind, options) = (text(source)?, text(target)?, text(kind)?, text(options)?);
    let pointer = |text: &CString| if text.is_empty() { 0 } else { text.as_ptr() as i64 };
    let arguments = [pointer(&source), pointer(&target), pointer(&kind), flags as i64, pointer(&options), 0];
    // SAFETY: the texts outlive the call; absent ones are null, as the kernel allows.
    unsafe { call(number::MOUNT, arguments) }.map(drop)
}

pub(crate) fn detach(target: &str) -> io::Result<()> {
    const MNT_DETACH: i64 = 2;
    let target = text(target)?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::UMOUNT, [target.as_ptr() as i64, MNT_DETACH, 0, 0, 0, 0]) }.map(drop)
}

/// The current folder becomes the root; the old root is mounted on top of it until it is detached.
pub(crate) fn pivot_root_here() -> io::Result<()> {
    let here = text(".")?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::PIVOT_ROOT, [here.as_ptr() as i64, here.as_ptr() as i64, 0, 0, 0, 0]) }.map(drop)
}

/// A copy of the mount at a path, to be attached elsewhere.
pub(crate) fn copy_mount(path: &str, recursive: bool) -> io::Result<OwnedFd> {
    copy_mount_at(AT_FDCWD, path, if recursive { AT_RECURSIVE } else { 0 })
}

/// A copy of the mount at a descriptor's file, to be attached elsewhere.
pub(crate) fn copy_mount_of(file: &OwnedFd, recursive: bool) -> io::Result<OwnedFd> {
    let flags = AT_EMPTY_PATH | if recursive { AT_RECURSIVE } else { 0 };
    copy_mount_at(i64::from(file.as_raw_fd()), "", flags)
}

fn copy_mount_at(directory: Argument, path: &str, flags: u64) -> io::Result<OwnedFd> {
    const OPEN_TREE_CLONE: u64 = 1;
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | flags;
    let path = text(path)?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::OPEN_TREE, [directory, path.as_ptr() as i64, flags as i64, 0, 0, 0]) }.map(owned)
}

pub(crate) fn attach_mount(copy: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    const BOTH_EMPTY: i64 = 0x4 | 0x40;
    let nothing = text("")?;
    let (from, to) = (i64::from(copy.as_raw_fd()), i64::from(target.as_raw_fd()));
    let pointer = nothing.as_ptr() as i64;
    // SAFETY: the text outlives the call.
    unsafe { call(number::MOVE_MOUNT, [from, pointer, to, pointer, BOTH_EMPTY, 0]) }.map(drop)
}

pub(crate) const MOUNT_ATTR_RDONLY: u64 = 1;
/// Read-only, without set-user-ID programs, executables or devices.
pub(crate) const MOUNT_ATTR_INERT: u64 = MOUNT_ATTR_RDONLY | 2 | 4 | 8;

/// Restricts a mount and everything below it.
pub(crate) fn restrict_mount(target: &OwnedFd, attributes: u64) -> io::Result<()> {
    set_attributes(target, AT_RECURSIVE, [attributes, 0, 0, 0])
}

/// Restricts a mount, but not the mounts below it.
pub(crate) fn restrict_one_mount(target: &OwnedFd, attributes: u64) -> io::Result<()> {
    set_attributes(target, 0, [attributes, 0, 0, 0])
}

/// Sets the propagation of a mount: `MS_PRIVATE`, `MS_SLAVE` or `MS_SHARED`, with `MS_REC` also of the mounts below it.
pub(crate) fn set_propagation(target: &OwnedFd, propagation: u64) -> io::Result<()> {
    let flags = if propagation & MS_REC != 0 { AT_RECURSIVE } else { 0 };
    set_attributes(target, flags, [0, 0, propagation & !MS_REC, 0])
}

/// `attributes`: those to set, those to clear, the propagation, a user namespace.
fn set_attributes(target: &OwnedFd, flags: u64, attributes: [u64; 4]) -> io::Result<()> {
    let nothing = text("")?;
    let arguments = [
        i64::from(target.as_raw_fd()),
        nothing.as_ptr() as i64,
        (AT_EMPTY_PATH | flags) as i64,
        address(&attributes),
        size_of_val(&attributes) as i64,
        0,
    ];
    // SAFETY: text and attributes outlive the call, and the size is theirs.
    unsafe { call(number::MOUNT_SETATTR, arguments) }.map(drop)
}

/// Changes the owner of an entry of a directory; a link is not followed.
pub(crate) fn change_owner_at(folder: &OwnedFd, name: &str, uid: u32, gid: u32) -> io::Result<()> {
    const AT_SYMLINK_NOFOLLOW: i64 = 0x100;
    let name = text(name)?;
    let (uid, gid) = (i64::from(uid), i64::from(gid));
    let arguments = [i64::from(folder.as_raw_fd()), name.as_ptr() as i64, uid, gid, AT_SYMLINK_NOFOLLOW, 0];
    // SAFETY: the text outlives the call.
    unsafe { call(number::FCHOWNAT, arguments) }.map(drop)
}

pub(crate) fn make_link_at(target: &str, folder: &OwnedFd, name: &str) -> io::Result<()> {
    let (target, name) = (text(target)?, text(name)?);
    let arguments = [target.as_ptr() as i64, i64::from(folder.as_raw_fd()), name.as_ptr() as i64, 0, 0, 0];
    // SAFETY: the texts outlive the call.
    unsafe { call(number::SYMLINKAT, arguments) }.map(drop)
}
