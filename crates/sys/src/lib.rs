//! System calls: the only crate with unsafe code, except for the text type of `api`.
//!
//! [`supervisor`] is a separate program, embedded in this one: it holds a pod's namespaces and starts its
//! containers. [`wire`] is its protocol. [`devices`] restricts devices with cgroup version 2, [`files`] watches files.
//! [`rooted`] resolves paths inside untrusted roots, [`removal`] removes directories that containers wrote.
//! [`namespaces`] creates network namespaces, [`memory`] returns memory to the kernel, [`limits`] sets the limits of
//! this process, [`processes`] ends programs with it.

pub mod devices;
pub mod files;
pub mod limits;
pub mod memory;
pub mod namespaces;
pub mod processes;
pub mod removal;
pub mod rooted;
pub mod supervisor;
pub mod terminal;
pub mod wire;
