//! What Kubernetes *is*, without I/O: the schema of every type, the codecs, metadata, selectors,
//! patches and errors.
//!
//! Never in here: sockets, files, clocks, tasks. Everything is a function of its arguments.

pub mod conform;
pub mod convert;
pub mod json;
pub mod protobuf;
pub mod quantity;
pub mod resources;
pub mod schema;
pub mod status;
pub mod time;
mod value;
pub mod yaml;

pub use status::Status;
pub use value::{Map, Str, Value};
