//! A whole Corten for tests: starts the real binary, speaks to it, ends it; or runs its parts within the test, on a
//! clock that the test moves (`Cluster`).
//!
//! Everything here blocks, with a deadline on every wait, so that a test is a straight line and a server that
//! hangs is a failure with a reason. What cannot go wrong in a passing test panics with the server's last
//! words; what a test may want to see go wrong is a `Result`.
//!
//! Invariants:
//! - A server listens on a port of its own choosing and keeps its data in a directory of its own.
//! - Processes are ended by the handle that started them, at the latest when it is dropped.
//!
//! Not here: what a right answer is. That is for the tests to say.

mod binary;
mod client;
mod cluster;
mod containerd;
mod http;
mod image;
mod server;
mod tools;

pub use binary::{corten_binary, repository, target_directory};
pub use client::{Client, Identity, Request, Response, Watch, WatchEnd};
pub use cluster::{Between, Cluster, ClusterOptions};
pub use containerd::Containerd;
pub use http::{Connection, DEADLINE};
pub use image::{busybox_archive, image_archive};
pub use server::{DataDirectory, Server, StartFailure};
pub use tools::{Output, Running, Tool};
