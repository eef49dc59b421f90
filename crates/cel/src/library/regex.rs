//! Regular expressions with Go's syntax and errors, and the functions `find` and `findAll`.
//!
//! Compiled programs and their caches are bounded, see `budget` and `pattern`; matching takes linear time.

mod budget;
mod classes;
mod pattern;
mod syntax;
#[cfg(test)]
mod tests;

pub use budget::{Budget, Patterns};
pub use pattern::{CompactPattern, Pattern};

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

/// Nested groups of a pattern.
const NEST_LIMIT: u32 = 2000;

/// Compiles a pattern within a budget. The error is that of Go's parser.
pub(crate) fn compile(pattern: &str, budget: &Budget) -> std::result::Result<Pattern, String> {
    Pattern::build(pattern, &budget.translate(pattern).map_err(|refused| refused.why)?)
}

/// Compiles a pattern whose size a budget already allows.
pub(crate) fn compile_checked(pattern: &str) -> std::result::Result<Pattern, String> {
    Pattern::build(pattern, &syntax::translate(pattern)?.text)
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
fn find<'a>(pattern: &Pattern, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = receiver(arguments)?;
    let range = pattern.find(text).unwrap_or(0..0);
    Ok(Value::String(text.slice(range)))
}

/// All matches; at most as many as the last argument says, unless that is negative.
fn find_all<'a>(pattern: &Pattern, arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let text = receiver(arguments)?;
    let limit = if arguments.len() > 2 { int(arguments, 2)? } else { -1 };
    let mut found = Vec::new();
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Value::list(found));
    }
    pattern.find_each(text, |range| -> Result<bool> {
        check_list(found.len())?;
        found.push(Value::String(text.slice(range)));
        Ok(found.len() < limit)
    })?;
    Ok(Value::list(found))
}
