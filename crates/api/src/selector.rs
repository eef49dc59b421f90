//! Label and field selectors: from query parameters and from objects, matching, and back to text.
//!
//! A selector is a conjunction of requirements, kept sorted so that equal selectors print alike. Grammar
//! and complaints are upstream's.

mod fields;
mod labels;
mod parse;
#[cfg(test)]
mod tests;

pub use fields::{FieldRequirement, FieldSelector, escape_field_value};
pub use labels::{LabelSelector, Operator, Requirement};

/// A selector that cannot be understood, in upstream's words.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
