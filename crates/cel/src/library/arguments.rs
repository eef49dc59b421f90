//! Typed access to the arguments of a function, and the shape of a line in a table of functions.
//!
//! The evaluator checks types before it calls a function, so a wrong type is a defect of a table; it is reported as
//! upstream reports it.

use crate::declare::{Declaration, Function, Implementation, MAX_RESULT};
use crate::error::{Error, Result};
use crate::value::{List, Opaque, Value};

/// An overload that is a function of its arguments.
pub(super) const fn declare(
    function: &'static str,
    overload: &'static str,
    signature: &'static str,
    implementation: Function,
) -> Declaration {
    Declaration::new(function, overload, signature, Implementation::Values(implementation))
}

pub(super) fn text<'v>(arguments: &'v [Value<'_>], index: usize) -> Result<&'v str> {
    arguments.get(index).and_then(Value::as_str).ok_or(Error::no_such_overload())
}

pub(super) fn int(arguments: &[Value<'_>], index: usize) -> Result<i64> {
    arguments.get(index).and_then(Value::as_int).ok_or(Error::no_such_overload())
}

pub(super) fn list<'v, 'a>(arguments: &'v [Value<'a>], index: usize) -> Result<&'v List<'a>> {
    arguments.get(index).and_then(Value::as_list).ok_or(Error::no_such_overload())
}

pub(super) fn opaque<'v, T: Opaque>(arguments: &'v [Value<'_>], index: usize) -> Result<&'v T> {
    arguments.get(index).and_then(Value::as_opaque).ok_or(Error::no_such_overload())
}

/// Fails if a text of so many bytes is larger than results may be.
pub(super) fn check_text(bytes: usize) -> Result<()> {
    if bytes > MAX_RESULT { Err(Error::Cancelled) } else { Ok(()) }
}

/// Fails if a list of so many items is larger than results may be.
pub(super) fn check_list(items: usize) -> Result<()> {
    check_text(items.saturating_mul(size_of::<Value<'_>>()))
}
