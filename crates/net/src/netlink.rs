//! Netlink: encodes, decodes and exchanges messages with the kernel.

#[doc(hidden)]
pub mod fuzz;
mod message;
mod socket;

pub use message::{Attributes, Message, attributes};
pub use socket::{Reply, Socket};

/// Flags of a request.
pub mod flag {
    pub const REQUEST: u16 = 1;
    /// Requests an acknowledgement.
    pub const ACK: u16 = 4;
    /// Lists all objects.
    pub const DUMP: u16 = 0x300;
    pub const REPLACE: u16 = 0x100;
    /// Fails if the object exists.
    pub const EXCL: u16 = 0x200;
    pub const CREATE: u16 = 0x400;
    pub const APPEND: u16 = 0x800;
}
