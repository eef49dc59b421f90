//! Comparisons.

use std::cmp::Ordering;

use super::{operator, unsupported};
use crate::declare::Declaration;
use crate::error::{Error, Result};
use crate::value::{Value, compare};

pub(super) const DECLARATIONS: &[Declaration] = &[
    operator("_<_", "less_bool", "(bool, bool) bool", less),
    operator("_<_", "less_int64", "(int, int) bool", less),
    operator("_<_", "less_int64_double", "(int, double) bool", less),
    operator("_<_", "less_int64_uint64", "(int, uint) bool", less),
    operator("_<_", "less_uint64", "(uint, uint) bool", less),
    operator("_<_", "less_uint64_double", "(uint, double) bool", less),
    operator("_<_", "less_uint64_int64", "(uint, int) bool", less),
    operator("_<_", "less_double", "(double, double) bool", less),
    operator("_<_", "less_double_int64", "(double, int) bool", less),
    operator("_<_", "less_double_uint64", "(double, uint) bool", less),
    operator("_<_", "less_string", "(string, string) bool", less),
    operator("_<_", "less_bytes", "(bytes, bytes) bool", less),
    operator("_<_", "less_timestamp", "(timestamp, timestamp) bool", less),
    operator("_<_", "less_duration", "(duration, duration) bool", less),
    operator("_<=_", "less_equals_bool", "(bool, bool) bool", less_equals),
    operator("_<=_", "less_equals_int64", "(int, int) bool", less_equals),
    operator("_<=_", "less_equals_int64_double", "(int, double) bool", less_equals),
    operator("_<=_", "less_equals_int64_uint64", "(int, uint) bool", less_equals),
    operator("_<=_", "less_equals_uint64", "(uint, uint) bool", less_equals),
    operator("_<=_", "less_equals_uint64_double", "(uint, double) bool", less_equals),
    operator("_<=_", "less_equals_uint64_int64", "(uint, int) bool", less_equals),
    operator("_<=_", "less_equals_double", "(double, double) bool", less_equals),
    operator("_<=_", "less_equals_double_int64", "(double, int) bool", less_equals),
    operator("_<=_", "less_equals_double_uint64", "(double, uint) bool", less_equals),
    operator("_<=_", "less_equals_string", "(string, string) bool", less_equals),
    operator("_<=_", "less_equals_bytes", "(bytes, bytes) bool", less_equals),
    operator("_<=_", "less_equals_timestamp", "(timestamp, timestamp) bool", less_equals),
    operator("_<=_", "less_equals_duration", "(duration, duration) bool", less_equals),
    operator("_>_", "greater_bool", "(bool, bool) bool", greater),
    operator("_>_", "greater_int64", "(int, int) bool", greater),
    operator("_>_", "greater_int64_double", "(int, double) bool", greater),
    operator("_>_", "greater_int64_uint64", "(int, uint) bool", greater),
    operator("_>_", "greater_uint64", "(uint, uint) bool", greater),
    operator("_>_", "greater_uint64_double", "(uint, double) bool", greater),
    operator("_>_", "greater_uint64_int64", "(uint, int) bool", greater),
    operator("_>_", "greater_double", "(double, double) bool", greater),
    operator("_>_", "greater_double_int64", "(double, int) bool", greater),
    operator("_>_", "greater_double_uint64", "(double, uint) bool", greater),
    operator("_>_", "greater_string", "(string, string) bool", greater),
    operator("_>_", "greater_bytes", "(bytes, bytes) bool", greater),
    operator("_>_", "greater_timestamp", "(timestamp, timestamp) bool", greater),
    operator("_>_", "greater_duration", "(duration, duration) bool", greater),
    operator("_>=_", "greater_equals_bool", "(bool, bool) bool", greater_equals),
    operator("_>=_", "greater_equals_int64", "(int, int) bool", greater_equals),
    operator("_>=_", "greater_equals_int64_double", "(int, double) bool", greater_equals),
    operator("_>=_", "greater_equals_int64_uint64", "(int, uint) bool", greater_equals),
    operator("_>=_", "greater_equals_uint64", "(uint, uint) bool", greater_equals),
    operator("_>=_", "greater_equals_uint64_double", "(uint, double) bool", greater_equals),
    operator("_>=_", "greater_equals_uint64_int64", "(uint, int) bool", greater_equals),
    operator("_>=_", "greater_equals_double", "(double, double) bool", greater_equals),
    operator("_>=_", "greater_equals_double_int64", "(double, int) bool", greater_equals),
    operator("_>=_", "greater_equals_double_uint64", "(double, uint) bool", greater_equals),
    operator("_>=_", "greater_equals_string", "(string, string) bool", greater_equals),
    operator("_>=_", "greater_equals_bytes", "(bytes, bytes) bool", greater_equals),
    operator("_>=_", "greater_equals_timestamp", "(timestamp, timestamp) bool", greater_equals),
    operator("_>=_", "greater_equals_duration", "(duration, duration) bool", greater_equals),
];

fn less<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    ordered("_<_", arguments, Ordering::is_lt)
}

fn less_equals<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    ordered("_<=_", arguments, Ordering::is_le)
}

fn greater<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    ordered("_>_", arguments, Ordering::is_gt)
}

fn greater_equals<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    ordered("_>=_", arguments, Ordering::is_ge)
}

fn ordered<'a>(function: &str, arguments: &[Value<'a>], accept: fn(Ordering) -> bool) -> Result<Value<'a>> {
    match arguments {
        [
            a @ (Value::Bool(_)
            | Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::Timestamp(_)
            | Value::Duration(_)),
            b,
        ] => compare(a, b).map(|order| Value::Bool(accept(order))),
        [a, _] => Err(unsupported(function, Some(a))),
        _ => Err(Error::no_such_overload()),
    }
}
