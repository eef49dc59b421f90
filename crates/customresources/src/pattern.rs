//! Patterns of strings: Go's syntax, compiled when a string is first validated.
//!
//! Those of a schema share a budget. New definitions that exceed it are refused; a pattern of a stored one that no longer
//! fits is as an invalid pattern.

use std::sync::{Arc, OnceLock};

use corten_api::Str;
use corten_cel::library::regex::{Budget, CompactPattern};

/// A pattern and its compiled form.
#[derive(Debug)]
pub(crate) struct Pattern {
    text: Str,
    budget: Arc<Budget>,
    compiled: OnceLock<Result<Arc<CompactPattern>, String>>,
}

impl Pattern {
    pub(crate) fn new(text: &str, budget: &Arc<Budget>) -> Pattern {
        Pattern { text: Str::new(text), budget: budget.clone(), compiled: OnceLock::new() }
    }

    /// The reason for which a text is refused, if it is.
    pub(crate) fn complaint(&self, value: &str) -> Option<String> {
        let pattern = &self.text;
        match self.compiled.get_or_init(|| CompactPattern::compile(pattern, &self.budget)) {
            Ok(compiled) if compiled.is_match(value) => None,
            Ok(_) => Some(format!("should match '{pattern}'")),
            Err(why) => Some(format!("should match '{pattern}, but pattern is invalid: {why}'")),
        }
    }
}

/// The budget of the patterns of one schema.
pub fn pattern_budget() -> Budget {
    Budget::new(Budget::SCHEMA)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(pattern: &str, value: &str, expected: Option<&str>) {
        assert_eq!(
            Pattern::new(pattern, &Arc::new(pattern_budget())).complaint(value).as_deref(),
            expected,
            "{pattern} {value}"
        );
    }

    #[test]
    fn patterns_are_those_of_go() {
        check("^\\d+$", "15", None);
        check("^\\d+$", "٣", Some("should match '^\\d+$'"));
        check("^[[a]+$", "[a[", None);
        check("^a{,3}{x}$", "a{,3}{x}", None);
        check(
            "a(",
            "a",
            Some("should match 'a(, but pattern is invalid: error parsing regexp: missing closing ): `a(`'"),
        );
    }
}
