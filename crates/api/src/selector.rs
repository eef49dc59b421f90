//! Label and field selectors: from query parameters and from objects, matching, and back to text.
//!
//! A selector is a conjunction of requirements, kept sorted so that equal selectors print alike. Grammar
//! and errors are upstream's.

mod fields;
mod labels;
mod parse;
#[cfg(test)]
mod tests;

pub use fields::{FieldRequirement, FieldSelector, escape_field_value};
pub use labels::{LabelSelector, Operator, Requirement};

/// The error of an invalid selector; messages are upstream's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(pub String);
