//! Images on this machine: blobs by digest, layers unpacked for overlayfs, and the names that lead to them.
//!
//! [`Store`] is one directory. Several processes may use it at once: changes take its lock and replace its index
//! as a whole, readers notice that it was replaced. Everything that comes in is checked against its digest before
//! anything refers to it, and on disk before a name does.
//!
//! Nothing here runs anything, and nothing here talks to a network. Nothing that comes in is trusted: what is read as a
//! whole has a largest size, and what is unpacked has limits on its size, its entries and its time ([`Limits`]).

mod archive;
mod busybox;
mod content;
mod digest;
mod error;
mod export;
mod index;
mod limits;
mod manifest;
pub(crate) mod merged;
mod reference;
mod snapshot;
mod store;
#[cfg(test)]
mod tests;
mod unpack;

pub use archive::{Imported, ImportedFile};
pub use busybox::busybox_archive;
pub use digest::Digest;
pub use error::ImageError;
pub use index::{Named, Record};
pub use limits::Limits;
pub use manifest::{Config, Descriptor, Index, Manifest, Platform, Process, media};
pub use reference::Reference;
pub use store::Store;
pub use unpack::Compression;

pub(crate) use content::Content;
pub(crate) use digest::Verified;
pub(crate) use error::At;
pub(crate) use limits::{LARGEST_DOCUMENT, MOST_INDEXES};
