//! Where Corten meets the kernel: the only crate with unsafe code but for how `api` keeps texts.
//!
//! [`supervisor`] is a program of its own, carried within this one: it holds a pod's namespaces and starts its
//! containers. [`wire`] is what it is told. [`devices`] is the kernel's other way of guarding devices, [`files`] its way
//! of telling that a file is written to. [`rooted`] resolves paths inside roots that are not trusted, [`removal`]
//! removes what containers wrote. [`namespaces`] makes network namespaces, [`memory`] gives memory back, [`limits`]
//! keeps it from others.

pub mod devices;
pub mod files;
pub mod limits;
pub mod memory;
pub mod namespaces;
pub mod removal;
pub mod rooted;
pub mod supervisor;
pub mod terminal;
pub mod wire;
