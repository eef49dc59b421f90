//! Terminals of containers: created from the container's own `devpts`, which is verified to be one.

use std::io;
use std::os::fd::OwnedFd;

use crate::child::While;
use crate::kernel;
use crate::rooted::{self, DEVPTS, Links, O_NOCTTY, O_RDWR, Root};
use crate::wire::Process;

/// A new terminal: its master, and its other side.
pub(crate) fn open(root: &Root, process: &Process) -> Result<(OwnedFd, OwnedFd), String> {
    let open = || -> io::Result<(OwnedFd, OwnedFd)> {
        let path = "/dev/pts/ptmx";
        // Inspected before it is opened: opening another device could have any effect.
        check(&root.find(path, Links::Refused)?)?;
        let master = root.open_with(path, Links::Refused, O_RDWR | O_NOCTTY)?;
        check(&master)?;
        let peer = kernel::prepare_terminal(&master, process.columns, process.rows)?;
        Ok((master, peer))
    };
    open().during(|| "cannot open a terminal".to_owned())
}

fn check(master: &OwnedFd) -> io::Result<()> {
    let is_master = rooted::file_system(master)? == DEVPTS && rooted::is_character_device(master, 5, 2)?;
    if is_master { Ok(()) } else { Err(io::Error::other("/dev/pts/ptmx is not one of devpts")) }
}

/// Mounts the terminal as the container's console. Where a volume is mounted at `/dev`, there is none.
pub(crate) fn mount(root: &Root, peer: &OwnedFd) -> Result<(), String> {
    let mount = || -> io::Result<()> {
        let place = root.file("/dev/console", Links::Refused)?;
        kernel::attach_mount(&kernel::copy_mount_of(peer, false)?, &place)
    };
    mount().during(|| "cannot mount the console".to_owned())
}
