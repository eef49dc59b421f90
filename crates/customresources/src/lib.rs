//! Custom resources without I/O: the structural schema of one version of a CustomResourceDefinition, and the steps
//! that use it.
//!
//! `Version` is compiled once and shared. Decoding (`decode`, `prune`, `metadata`), `defaults` and validation
//! (`validate`, `list_types`) walk its `Schema` together with the object; `columns`, `selectable` and `scale` are views
//! of an object. Every result is a function of its arguments; every walk is bounded by the sizes of schema and object.

pub mod columns;
mod correlate;
pub mod decode;
pub mod defaults;
mod format;
pub mod jsonpath;
pub mod list_types;
pub mod metadata;
mod pattern;
pub mod prune;
pub mod rules;
pub mod scale;
pub mod schema;
pub mod selectable;
pub mod typed;
pub mod validate;
pub mod version;

pub use pattern::pattern_budget;
pub use schema::Schema;
pub use version::Version;
