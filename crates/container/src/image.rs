//! Images on this machine: blobs by digest, layers unpacked for overlayfs, and the names that lead to them.
//!
//! [`Store`] is one directory. Several processes may use it at once: changes take its lock and replace its index
//! as a whole, and readers notice the replacement. Content is checked against its digest before anything refers to it,
//! and synced to disk before a name does.
//!
//! Nothing here runs programs or uses the network. Imported content is not trusted: documents that are read as a
//! whole have a maximum size, and unpacking is limited in size, entries and time ([`Limits`]).

mod archive;
mod busybox;
mod content;
mod digest;
mod error;
mod export;
#[doc(hidden)]
pub mod fuzz;
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
pub(crate) use manifest::check_one_kind;
