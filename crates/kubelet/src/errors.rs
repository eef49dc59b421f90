//! Texts of errors for logs.

use std::error::Error;

/// An error and its sources, separated by colons.
pub(crate) fn chain(err: &dyn Error) -> String {
    let mut text = err.to_string();
    let mut source = err.source();
    while let Some(err) = source {
        text.push_str(": ");
        text.push_str(&err.to_string());
        source = err.source();
    }
    text
}
