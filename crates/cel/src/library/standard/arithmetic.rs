//! Arithmetic, with checks for overflow.

use super::{operator, unsupported};
use crate::declare::{Declaration, MAX_RESULT};
use crate::error::{Error, Result};
use crate::value::Value;

pub(super) const DECLARATIONS: &[Declaration] = &[
    operator("_+_", "add_bytes", "(bytes, bytes) bytes", add),
    operator("_+_", "add_double", "(double, double) double", add),
    operator("_+_", "add_duration_duration", "(duration, duration) duration", add),
    operator("_+_", "add_duration_timestamp", "(duration, timestamp) timestamp", add),
    operator("_+_", "add_timestamp_duration", "(timestamp, duration) timestamp", add),
    operator("_+_", "add_int64", "(int, int) int", add),
    operator("_+_", "add_list", "(list(A), list(A)) list(A)", add),
    operator("_+_", "add_string", "(string, string) string", add),
    operator("_+_", "add_uint64", "(uint, uint) uint", add),
    operator("_/_", "divide_double", "(double, double) double", divide),
    operator("_/_", "divide_int64", "(int, int) int", divide),
    operator("_/_", "divide_uint64", "(uint, uint) uint", divide),
    operator("_%_", "modulo_int64", "(int, int) int", modulo),
    operator("_%_", "modulo_uint64", "(uint, uint) uint", modulo),
    operator("_*_", "multiply_double", "(double, double) double", multiply),
    operator("_*_", "multiply_int64", "(int, int) int", multiply),
    operator("_*_", "multiply_uint64", "(uint, uint) uint", multiply),
    operator("-_", "negate_double", "(double) double", negate),
    operator("-_", "negate_int64", "(int) int", negate),
    operator("_-_", "subtract_double", "(double, double) double", subtract),
    operator("_-_", "subtract_duration_duration", "(duration, duration) duration", subtract),
    operator("_-_", "subtract_int64", "(int, int) int", subtract),
    operator("_-_", "subtract_timestamp_duration", "(timestamp, duration) timestamp", subtract),
    operator("_-_", "subtract_timestamp_timestamp", "(timestamp, timestamp) duration", subtract),
    operator("_-_", "subtract_uint64", "(uint, uint) uint", subtract),
];

const INT_OVERFLOW: Error = Error::new("integer overflow");
const UINT_OVERFLOW: Error = Error::new("unsigned integer overflow");
const DIVISION_BY_ZERO: Error = Error::new("division by zero");
const MODULUS_BY_ZERO: Error = Error::new("modulus by zero");

fn int<'a>(result: Option<i64>) -> Result<Value<'a>> {
    result.map(Value::Int).ok_or(INT_OVERFLOW)
}

fn uint<'a>(result: Option<u64>) -> Result<Value<'a>> {
    result.map(Value::Uint).ok_or(UINT_OVERFLOW)
}

fn duration<'a>(result: Option<i64>) -> Result<Value<'a>> {
    result.map(Value::Duration).ok_or(INT_OVERFLOW)
}

fn add<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Int(a), Value::Int(b)] => int(a.checked_add(*b)),
        [Value::String(a), Value::String(b)] => {
            if a.len().saturating_add(b.len()) > MAX_RESULT {
                return Err(Error::Cancelled);
            }
            Ok(Value::text([&**a, &**b].concat()))
        }
        [Value::List(a), Value::List(b)] => a.join(b).map(Value::List),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a + b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_add(*b)),
        [Value::Bytes(a), Value::Bytes(b)] => {
            if a.len().saturating_add(b.len()) > MAX_RESULT {
                return Err(Error::Cancelled);
            }
            Ok(Value::bytes([&**a, &**b].concat()))
        }
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_add(*b)),
        [Value::Timestamp(time), Value::Duration(by)] | [Value::Duration(by), Value::Timestamp(time)] => {
            time.plus(*by).map(Value::Timestamp).map_err(Error::new)
        }
        [
            Value::Int(_)
            | Value::Uint(_)
            | Value::Double(_)
            | Value::String(_)
            | Value::Bytes(_)
            | Value::List(_)
            | Value::Duration(_)
            | Value::Timestamp(_),
            _,
        ] => Err(Error::no_such_overload()),
        _ => Err(unsupported("_+_", arguments.first())),
    }
}

fn subtract<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Int(a), Value::Int(b)] => int(a.checked_sub(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a - b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_sub(*b)),
        [Value::Duration(a), Value::Duration(b)] => duration(a.checked_sub(*b)),
        [Value::Timestamp(time), Value::Duration(by)] => {
            let by = by.checked_neg().ok_or(INT_OVERFLOW)?;
            time.plus(by).map(Value::Timestamp).map_err(Error::new)
        }
        [Value::Timestamp(a), Value::Timestamp(b)] => a.since(*b).map(Value::Duration).map_err(Error::new),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Error::no_such_overload()),
        _ => Err(unsupported("_-_", arguments.first())),
    }
}

fn multiply<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Int(a), Value::Int(b)] => int(a.checked_mul(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a * b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_mul(*b)),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Error::no_such_overload()),
        _ => Err(unsupported("_*_", arguments.first())),
    }
}

fn divide<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(DIVISION_BY_ZERO),
        [Value::Int(a), Value::Int(b)] => int(a.checked_div(*b)),
        [Value::Double(a), Value::Double(b)] => Ok(Value::Double(a / b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_div(*b)),
        [Value::Int(_) | Value::Uint(_) | Value::Double(_), _] => Err(Error::no_such_overload()),
        _ => Err(unsupported("_/_", arguments.first())),
    }
}

fn modulo<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(MODULUS_BY_ZERO),
        [Value::Int(a), Value::Int(b)] => int(a.checked_rem(*b)),
        [Value::Uint(a), Value::Uint(b)] => uint(a.checked_rem(*b)),
        [Value::Int(_) | Value::Uint(_), _] => Err(Error::no_such_overload()),
        _ => Err(unsupported("_%_", arguments.first())),
    }
}

fn negate<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Int(i)] => int(i.checked_neg()),
        [Value::Double(d)] => Ok(Value::Double(-d)),
        [Value::Duration(d)] => duration(d.checked_neg()),
        [Value::Bool(_)] => Err(Error::no_such_overload()),
        _ => Err(unsupported("-_", arguments.first())),
    }
}
