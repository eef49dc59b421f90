//! Comparisons in filters: only scalars of the same kind compare.

use std::cmp::Ordering;

use corten_api::Value;

const WRONG_TYPE: &str = "invalid type for comparison";
const DIFFERENT_TYPES: &str = "incompatible types for comparison";

/// Evaluates `left operator right`.
pub(super) fn compare(left: &Value, operator: &str, right: &Value) -> Result<bool, String> {
    match operator {
        "==" => equal(left, right),
        "!=" => equal(left, right).map(|equal| !equal),
        "<" => less(left, right),
        ">=" => less(left, right).map(|less| !less),
        "<=" => less_or_equal(left, right),
        ">" => less_or_equal(left, right).map(|less| !less),
        other => Err(format!("unrecognized filter operator {other}")),
    }
}

fn less_or_equal(left: &Value, right: &Value) -> Result<bool, String> {
    Ok(less(left, right)? || equal(left, right)?)
}

fn equal(left: &Value, right: &Value) -> Result<bool, String> {
    check_scalars(left, right)?;
    match (left, right) {
        (Value::Bool(left), Value::Bool(right)) => Ok(left == right),
        _ => order(left, right).map(|order| order == Some(Ordering::Equal)),
    }
}

fn less(left: &Value, right: &Value) -> Result<bool, String> {
    check_scalars(left, right)?;
    match (left, right) {
        (Value::Bool(_), Value::Bool(_)) => Err(WRONG_TYPE.to_owned()),
        _ => order(left, right).map(|order| order == Some(Ordering::Less)),
    }
}

fn check_scalars(left: &Value, right: &Value) -> Result<(), String> {
    let is_scalar =
        |value: &Value| matches!(value, Value::Bool(_) | Value::Int(_) | Value::Float(_) | Value::String(_));
    if is_scalar(left) && is_scalar(right) { Ok(()) } else { Err(WRONG_TYPE.to_owned()) }
}

fn order(left: &Value, right: &Value) -> Result<Option<Ordering>, String> {
    match (left, right) {
        (Value::Int(left), Value::Int(right)) => Ok(Some(left.cmp(right))),
        (Value::Float(left), Value::Float(right)) => Ok(left.partial_cmp(right)),
        (Value::String(left), Value::String(right)) => Ok(Some(left.as_str().cmp(right.as_str()))),
        _ => Err(DIFFERENT_TYPES.to_owned()),
    }
}
