//! YAML text to `Value` and back, as upstream's YAML library reads and writes it.
//!
//! That library implements YAML 1.1: `yes`, `no`, `on` and `off` are booleans, `0644` is octal, `<<` merges.
//! The result is limited to JSON: keys become strings, times stay strings. Only the first document
//! is read. Aliases are expanded within upstream's limits, so that a small text cannot become a large tree.
//!
//! Errors have upstream's wording; where an apply patch is decoded, upstream puts
//! `PATCH_ERROR_PREFIX` before them, elsewhere nothing.

mod read;
mod resolve;
mod write;

pub use read::to_value;
pub use write::to_string;

use thiserror::Error;

/// The prefix of an error when the YAML is an apply patch.
pub const PATCH_ERROR_PREFIX: &str = "error converting YAML to JSON: ";

#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum YamlError {
    #[error("yaml: line {line}: {problem}")]
    Syntax { line: usize, problem: String },
    #[error("yaml: {0}")]
    Content(String),
    #[error("unsupported map key of type: %!s(<nil>), key: <nil>")]
    NullKey,
    #[error("json: unsupported value: {0}")]
    NotJson(&'static str),
}

/// A duplicate key of a mapping.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("line {line}: key {key} already set in map")]
pub struct Duplicate {
    /// Of the value, counted from one.
    pub line: usize,
    /// As Go prints it: strings in quotes.
    pub key: String,
}

/// The error of upstream's strict decoder about duplicate keys.
pub fn strict_error(duplicates: &[Duplicate]) -> Option<String> {
    let lines: Vec<String> = duplicates.iter().map(|d| format!("  {d}")).collect();
    (!lines.is_empty()).then(|| format!("yaml: unmarshal errors:\n{}", lines.join("\n")))
}
