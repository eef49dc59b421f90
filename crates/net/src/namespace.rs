//! Network namespaces: opens them, and runs functions in them.
//!
//! A namespace is a property of a thread, so functions run on a thread of their own, which ends with them: no other thread ever
//! changes its namespace. A socket stays in the namespace it was opened in, and may be used by any thread.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

#[derive(Debug)]
pub struct Namespace(OwnedFd);

impl Namespace {
    /// The namespace of the calling thread.
    pub fn current() -> io::Result<Namespace> {
        Namespace::open("/proc/thread-self/ns/net")
    }

    /// Opens the namespace of a path such as `/proc/<pid>/ns/net`.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Namespace> {
        Ok(Namespace(File::open(path)?.into()))
    }

    /// Another handle to the same namespace.
    pub fn duplicate(&self) -> io::Result<Namespace> {
        self.0.try_clone().map(Namespace)
    }

    /// Runs a function in the namespace and returns its result.
    pub fn run<T: Send>(&self, work: impl FnOnce() -> io::Result<T> + Send) -> io::Result<T> {
        thread::scope(|scope| {
            let inside =
                thread::Builder::new().name("net-namespace".to_owned()).spawn_scoped(scope, || {
                    move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::Network))?;
                    work()
                })?;
            inside
                .join()
                .unwrap_or_else(|_panic| Err(io::Error::other("thread in network namespace panicked")))
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
