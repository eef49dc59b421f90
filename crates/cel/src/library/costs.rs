//! Sizes of arguments in cost rules.

use crate::cost::{Call, Range};
use crate::value::Value;

/// The size of the receiver, or of the first argument of a function.
pub(super) fn subject(call: &Call<'_>) -> Range {
    call.target.as_ref().or(call.arguments.first()).map_or(Range::UNKNOWN, |argument| argument.size)
}

/// The size of an argument after the receiver.
pub(super) fn argument(call: &Call<'_>, index: usize) -> Range {
    call.arguments.get(index).map_or(Range::UNKNOWN, |argument| argument.size)
}

/// The size of a value at run time; values without a size count as 1.
pub(super) fn size(arguments: &[Value<'_>], index: usize) -> u64 {
    arguments.get(index).and_then(Value::size).unwrap_or(1)
}
