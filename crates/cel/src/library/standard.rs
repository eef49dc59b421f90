//! The functions of the language itself: operators, conversions, text, timestamps and durations.

mod arithmetic;
mod comparisons;
mod conversions;
mod text;
mod times;

use crate::declare::{Declaration, Function, Implementation, Library};
use crate::error::{Error, Result};
use crate::value::Value;

/// Types that expressions can name.
pub const LIBRARY: Library = Library {
    declarations: &[],
    types: &[
        "bool",
        "bytes",
        "double",
        "google.protobuf.Duration",
        "int",
        "list(A)",
        "map(A, B)",
        "null_type",
        "string",
        "google.protobuf.Timestamp",
        "type",
        "uint",
    ],
};

/// The declarations of the language, in upstream's order.
pub const TABLES: [&[Declaration]; 6] = [
    LOGIC,
    arithmetic::DECLARATIONS,
    comparisons::DECLARATIONS,
    conversions::DECLARATIONS,
    text::DECLARATIONS,
    times::DECLARATIONS,
];

/// An operator, which checks the types of its operands itself.
const fn operator(
    function: &'static str,
    overload: &'static str,
    signature: &'static str,
    implementation: Function,
) -> Declaration {
    Declaration::new(function, overload, signature, Implementation::Values(implementation)).unguarded()
}

const fn special(function: &'static str, overload: &'static str, signature: &'static str) -> Declaration {
    Declaration::new(function, overload, signature, Implementation::Special)
}

const LOGIC: &[Declaration] = &[
    special("_?_:_", "conditional", "(bool, A, A) A"),
    special("_&&_", "logical_and", "(bool, bool) bool"),
    special("_||_", "logical_or", "(bool, bool) bool"),
    operator("!_", "logical_not", "(bool) bool", not),
    special("@not_strictly_false", "not_strictly_false", "(bool) bool"),
    special("_==_", "equals", "(A, A) bool"),
    special("_!=_", "not_equals", "(A, A) bool"),
    special("_[_]", "index_list", "(list(A), int) A"),
    special("_[_]", "index_map", "(map(A, B), A) B"),
    operator("@in", "in_list", "(A, list(A)) bool", contained),
    operator("@in", "in_map", "(A, map(A, B)) bool", contained),
];

fn not<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Bool(b)] => Ok(Value::Bool(!b)),
        _ => Err(Error::no_such_overload()),
    }
}

/// `value in list`, or `key in map`.
fn contained<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [value, Value::List(list)] => list.contains(value).map(Value::Bool),
        [key, Value::Map(map)] => map.find(key).map(|found| Value::Bool(found.is_some())),
        _ => Err(Error::no_such_overload()),
    }
}

/// The error of an operator that a type does not have. Types with methods answer for themselves upstream.
fn unsupported(function: &str, operand: Option<&Value<'_>>) -> Error {
    match operand {
        Some(Value::String(_) | Value::Timestamp(_) | Value::Duration(_)) => Error::no_such_overload(),
        _ => format!("no such overload: {function}").into(),
    }
}
