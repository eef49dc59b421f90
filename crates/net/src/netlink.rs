//! Netlink: how programs talk to the kernel about networks. Messages are built and read here, and exchanged.

mod message;
mod socket;

pub use message::{Attributes, Message, attributes};
pub use socket::{Reply, Socket};

/// Flags of a request.
pub mod flag {
    pub const REQUEST: u16 = 1;
    /// Answer even if all went well.
    pub const ACK: u16 = 4;
    /// All there are, rather than one.
    pub const DUMP: u16 = 0x300;
    pub const REPLACE: u16 = 0x100;
    /// Refuse if it exists.
    pub const EXCL: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
}
