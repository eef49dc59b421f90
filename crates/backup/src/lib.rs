//! Backups of a cluster: the archive format, and the places that hold archives.
//!
//! ```text
//! keys, certificates, objects ─► records ─► deflate ─► chunks (sealed with a passphrase) ─► archive ─► place
//! ```
//!
//! An archive has every Secret and the private keys of the cluster, so its file is for the owner only. It may come back from a
//! server of others or be damaged: reading one takes bounded memory, whatever it says, and nothing of it counts before its
//! end was verified. This crate knows neither stores nor the API: it takes and returns keys and bytes.

pub mod archive;
mod name;
mod passphrase;
pub mod place;
mod s3;

pub use name::{Name, surplus};
pub use passphrase::Passphrase;
pub use s3::{S3Credentials, S3Error, S3Options};

#[doc(hidden)]
pub mod fuzz;
