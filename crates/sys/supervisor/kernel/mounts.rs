//! Mounts, and files within a root that is not trusted.

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

/// The current folder becomes the root; the old root lies on top of it until it is detached.
pub(crate) fn pivot_root_here() -> io::Result<()> {
    let here = text(".")?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::PIVOT_ROOT, [here.as_ptr() as i64, here.as_ptr() as i64, 0, 0, 0, 0]) }.map(drop)
}

/// A copy of what is mounted at a path, to be attached elsewhere.
pub(crate) fn copy_mount(path: &str, recursive: bool) -> io::Result<OwnedFd> {
    const OPEN_TREE_CLONE: u64 = 1;
    let flags = OPEN_TREE_CLONE | O_CLOEXEC | if recursive { AT_RECURSIVE } else { 0 };
    let path = text(path)?;
    // SAFETY: the text outlives the call.
    unsafe { call(number::OPEN_TREE, [AT_FDCWD, path.as_ptr() as i64, flags as i64, 0, 0, 0]) }.map(owned)
}

pub(crate) fn attach_mount(copy: &OwnedFd, target: &OwnedFd) -> io::Result<()> {
    const BOTH_EMPTY: i64 = 0x4 | 0x40;
    let nothing = text("")?;
    let (from, to) = (i64::from(copy.as_raw_fd()), i64::from(target.as_raw_fd()));
    let pointer = nothing.as_ptr() as i64;
    // SAFETY: the text outlives the call.
    unsafe { call(number::MOVE_MOUNT, [from, pointer, to, pointer, BOTH_EMPTY, 0]) }.map(drop)
}

/// Makes a mount and everything below it read-only.
pub(crate) fn make_read_only(target: &OwnedFd) -> io::Result<()> {
    const MOUNT_ATTR_RDONLY: u64 = 1;
    let attributes = [MOUNT_ATTR_RDONLY, 0, 0, 0];
    let nothing = text("")?;
    let flags = (AT_EMPTY_PATH | AT_RECURSIVE) as i64;
    let arguments = [
        i64::from(target.as_raw_fd()),
        nothing.as_ptr() as i64,
        flags,
        address(&attributes),
        size_of_val(&attributes) as i64,
        0,
    ];
    // SAFETY: text and attributes outlive the call, and the size is theirs.
    unsafe { call(number::MOUNT_SETATTR, arguments) }.map(drop)
}

/// Opens a path as if `root` were the root: no link leads out.
pub(crate) fn open_within(root: &OwnedFd, path: &str, flags: u64) -> io::Result<OwnedFd> {
    const RESOLVE_IN_ROOT: u64 = 0x10;
    let how = [flags | O_CLOEXEC, 0, RESOLVE_IN_ROOT];
    let path = text(path)?;
    let arguments =
        [i64::from(root.as_raw_fd()), path.as_ptr() as i64, address(&how), size_of_val(&how) as i64, 0, 0];
    // SAFETY: text and instructions outlive the call, and the size is theirs.
    unsafe { call(number::OPENAT2, arguments) }.map(owned)
}

pub(crate) fn make_folder_at(folder: &OwnedFd, name: &str) -> io::Result<()> {
    let name = text(name)?;
    let arguments = [i64::from(folder.as_raw_fd()), name.as_ptr() as i64, 0o755, 0, 0, 0];
    // SAFETY: the text outlives the call.
    unsafe { call(number::MKDIRAT, arguments) }.map(drop)
}

/// Makes a file or device; the mode says which.
pub(crate) fn make_node_at(
    folder: &OwnedFd,
    name: &str,
    mode: u32,
    major: u32,
    minor: u32,
) -> io::Result<()> {
    let (major, minor) = (u64::from(major), u64::from(minor));
    let device = ((major & 0xfff) << 8) | (minor & 0xff) | ((minor & !0xff) << 12) | ((major & !0xfff) << 32);
    let name = text(name)?;
    let arguments =
        [i64::from(folder.as_raw_fd()), name.as_ptr() as i64, i64::from(mode), device as i64, 0, 0];
    // SAFETY: the text outlives the call.
    unsafe { call(number::MKNODAT, arguments) }.map(drop)
}

pub(crate) fn change_owner_at(folder: &OwnedFd, name: &str, uid: u32, gid: u32) -> io::Result<()> {
    let name = text(name)?;
    let arguments =
        [i64::from(folder.as_raw_fd()), name.as_ptr() as i64, i64::from(uid), i64::from(gid), 0, 0];
    // SAFETY: the text outlives the call.
    unsafe { call(number::FCHOWNAT, arguments) }.map(drop)
}

pub(crate) fn make_link_at(target: &str, folder: &OwnedFd, name: &str) -> io::Result<()> {
    let (target, name) = (text(target)?, text(name)?);
    let arguments = [target.as_ptr() as i64, i64::from(folder.as_raw_fd()), name.as_ptr() as i64, 0, 0, 0];
    // SAFETY: the texts outlive the call.
    unsafe { call(number::SYMLINKAT, arguments) }.map(drop)
}
