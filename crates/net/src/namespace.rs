//! Network namespaces: to open one, and to do something within one.
//!
//! A namespace belongs to a thread, so whatever must happen within one happens on a thread of its own, which ends
//! with it: no thread that does other work ever changes its namespace. A socket stays where it was opened, and may
//! be used from anywhere.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// The one that the caller is in.
    pub fn current() -> io::Result<Namespace> {
        Namespace::open("/proc/thread-self/ns/net")
    }

    /// The one that a path opens, such as `/proc/<pid>/ns/net`.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Namespace> {
        Ok(Namespace(File::open(path)?.into()))
    }

    /// Another handle to the same.
    pub fn duplicate(&self) -> io::Result<Namespace> {
        self.0.try_clone().map(Namespace)
    }

    /// Does something within the namespace and waits for it.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside =
                thread::Builder::new().name("net-namespace".to_owned()).spawn_scoped(scope, || {
                    move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
                    work()
                })?;
            inside.join().unwrap_or_else(|_panic| Err(io::Error::other("the work in the namespace panicked")))
        })
    }
}

impl From<OwnedFd> for Namespace {
    fn from(descriptor: OwnedFd) -> Namespace {
        Namespace(descriptor)
    }
}

impl AsFd for Namespace {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
