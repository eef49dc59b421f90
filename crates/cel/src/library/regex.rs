//! Regular expressions with Go's syntax and errors, and the functions `find` and `findAll`.
//!
//! Compiled programs and their caches are bounded, see `budget`; matching takes linear time.

mod budget;
mod classes;
mod syntax;
#[cfg(test)]
mod tests;

use budget::TOO_LARGE;
pub use budget::{Budget, Patterns};
use regex::{Regex, RegexBuilder};
use regex_automata::meta;
use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::syntax::Config as SyntaxConfig;

use super::arguments::{check_list, int};
use crate::declare::{Declaration, Implementation, Library, PatternFunction};
use crate::error::{Error, Result};
use crate::value::{Text, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("find", "string_find_string", "string.(string) string", find),
    declare("findAll", "string_find_all_string", "string.(string) list(string)", find_all),
    declare("findAll", "string_find_all_string_int", "string.(string, int) list(string)", find_all),
];

/// A method of a text whose first argument is the pattern.
const fn declare(
    function: &'static str,
    overload: &'static str,
    signature: &'static str,
    implementation: PatternFunction,
) -> Declaration {
    Declaration::new(function, overload, signature, Implementation::Pattern(1, implementation))
}

/// Bytes of a compiled program. The estimate of its size keeps patterns far below it.
const SIZE_LIMIT: usize = 8 << 20;
/// Bytes of the states that matching caches.
const CACHE_LIMIT: usize = 1 << 20;

/// Nested groups of a pattern.
const NEST_LIMIT: u32 = 2000;

/// A pattern for many short texts, of which there are thousands in memory. It has none of the automata that make a
/// [`Regex`] fast for long texts, because those take ten kilobytes for each pattern; it takes linear time nevertheless.
#[derive(Debug)]
pub struct CompactPattern(meta::Regex);

impl CompactPattern {
    /// Compiles a pattern within a budget. The error is that of Go's parser.
    pub fn compile(pattern: &str, budget: &Budget) -> std::result::Result<CompactPattern, String> {
        let translated = budget.translate(pattern).map_err(|refused| refused.why)?;
        let config = meta::Config::new()
            .which_captures(WhichCaptures::None)
            .nfa_size_limit(Some(SIZE_LIMIT))
            .hybrid(false)
            .dfa(false);
        meta::Regex::builder()
            .configure(config)
            .syntax(SyntaxConfig::new().nest_limit(NEST_LIMIT))
            .build(&translated)
            .map(CompactPattern)
            .map_err(|_| syntax::error(TOO_LARGE, pattern))
    }

    pub fn is_match(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Compiles a pattern within a budget. The error is that of Go's parser.
pub(crate) fn compile(pattern: &str, budget: &Budget) -> std::result::Result<Regex, String> {
    build(pattern, &budget.translate(pattern).map_err(|refused| refused.why)?)
}

/// Compiles a pattern whose size a budget already allows.
pub(crate) fn compile_checked(pattern: &str) -> std::result::Result<Regex, String> {
    build(pattern, &syntax::translate(pattern)?.text)
}

fn build(pattern: &str, translated: &str) -> std::result::Result<Regex, String> {
    RegexBuilder::new(translated)
        .size_limit(SIZE_LIMIT)
        .dfa_size_limit(CACHE_LIMIT)
        .nest_limit(NEST_LIMIT)
        .build()
        .map_err(|_| syntax::error(TOO_LARGE, pattern))
}

/// Returns true if Go's parser accepts a pattern, whatever its size.
pub(crate) fn is_valid(pattern: &str) -> bool {
    syntax::translate(pattern).is_ok()
}

fn receiver<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<&'v Text<'a>> {
    match arguments.first() {
        Some(Value::String(text)) => Ok(text),
        _ => Err(Error::no_such_overload()),
    }
}

/// The first match, or an empty text.
fn find<'a>(pattern: &Regex, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = receiver(arguments)?;
    let range = pattern.find(text).map_or(0..0, |found| found.range());
    Ok(Value::String(text.slice(range)))
}

/// All matches; at most as many as the last argument says, unless that is negative.
fn find_all<'a>(pattern: &Regex, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = receiver(arguments)?;
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    let mut found = Vec::new();
    for range in pattern.find_iter(text).take(usize::try_from(limit).unwrap_or(usize::MAX)) {
        check_list(found.len())?;
        found.push(Value::String(text.slice(range.range())));
    }
    Ok(Value::list(found))
}
