//! New namespaces.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::thread;

use rustix::thread::{UnshareFlags, unshare_unsafe};

/// Creates a network namespace. It lasts as long as a descriptor, a thread or a mount holds it.
pub fn new_network() -> io::Result<OwnedFd> {
    let made = thread::spawn(|| {
        // SAFETY: descriptors stay shared; only this thread, which ends here, changes its network namespace.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }?;
        File::open("/proc/thread-self/ns/net").map(OwnedFd::from)
    });
    made.join().unwrap_or_else(|_panic| {
        Err(io::Error::other("the thread that creates a network namespace panicked"))
    })
}
