//! Namespaces that nobody is in yet.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// A new network namespace. It lasts as long as somebody holds it: a descriptor, a thread within, a mount.
pub fn new_network() -> io::Result<OwnedFd> {
    let made = thread::spawn(|| {
        // SAFETY: descriptors stay shared; only this thread, which ends here, changes its network namespace.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
    });
    made.join().unwrap_or_else(|_panic| Err(io::Error::other("making a network namespace panicked")))
}
