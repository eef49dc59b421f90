//! The Kubernetes API without I/O: the schema of every type, the codecs, metadata, selectors,
//! patches and errors.
//!
//! Never in here: sockets, files, clocks, tasks. Every result is a function of its arguments.

mod by_content;
pub mod conform;
pub mod convert;
pub mod discovery;
pub mod duration;
pub mod encoded;
pub mod field;
pub mod go;
pub mod json;
pub mod managed;
pub mod meta;
pub mod names;
pub mod openapi;
pub mod patch;
pub mod placement;
pub mod pods;
pub mod protobuf;
pub mod quantity;
pub mod resource_list;
pub mod resources;
pub mod schedule;
pub mod schema;
pub mod selector;
pub mod status;
pub mod stored;
#[expect(unsafe_code, reason = "a text is three words, one of which may be an address; see there")]
mod text;
pub mod time;
mod value;
pub mod yaml;

pub use by_content::{ByContent, set_of};
pub use field::Field;
pub use status::Status;
pub use value::{Map, Str, Value};
