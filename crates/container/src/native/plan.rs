//! Plans: requests of the CRI converted to requests to a supervisor, by pure functions.

pub(super) mod capabilities;
pub(super) mod container;
pub(super) mod devices;
pub(super) mod mounts;
pub(super) mod sandbox;
pub(super) mod user;

/// Mount flags of the kernel.
pub(super) mod flag {
    pub(crate) const RDONLY: u64 = 1;
    pub(crate) const NOSUID: u64 = 2;
    pub(crate) const NODEV: u64 = 4;
    pub(crate) const NOEXEC: u64 = 8;
    pub(crate) const REC: u64 = 16384;
    pub(crate) const PRIVATE: u64 = 1 << 18;
    pub(crate) const SLAVE: u64 = 1 << 19;
    pub(crate) const SHARED: u64 = 1 << 20;
    pub(crate) const STRICTATIME: u64 = 1 << 24;
}
