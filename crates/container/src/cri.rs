//! The CRI: its two services as traits, its messages as types.

mod container;
mod error;
mod image;
mod sandbox;
mod security;
mod services;
mod stats;
mod status;
mod streaming;

pub use container::*;
pub use error::Error;
pub use image::*;
pub(crate) use sandbox::includes;
pub use sandbox::*;
pub use security::*;
pub use services::{Images, Runtime};
pub use stats::*;
pub use status::*;
pub use streaming::*;

/// Labels, annotations, sysctls.
pub type Map = std::collections::BTreeMap<String, String>;

pub type Result<T, E = Error> = std::result::Result<T, E>;
