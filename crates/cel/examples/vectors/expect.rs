//! Expectations of conformance tests: values, types and errors.

use std::sync::Arc;

use corten_cel::value::{Entries, Map, Timestamp, equal};
use corten_cel::{Error, Type, Value};

use crate::Verdict;
use crate::textproto::{Field, Message};

/// The verdict on an expression that does not compile.
pub(crate) fn refused(test: &Message, message: &str) -> Verdict {
    if test.get("eval_error").is_some() || test.get("any_eval_errors").is_some() {
        return Verdict::Passed;
    }
    if test.flag("disable_check") {
        return Verdict::Skipped("expressions that are not checked");
    }
    if message.contains("undeclared reference to 'math'") {
        return Verdict::Skipped("math library");
    }
    Verdict::Failed(message.lines().next().unwrap_or_default().to_owned())
}

/// The verdict on a result.
pub(crate) fn compare(test: &Message, result: &Result<Value<'_>, Error>) -> Verdict {
    let wants_error = test.get("eval_error").is_some() || test.get("any_eval_errors").is_some();
    match (result, wants_error) {
        (Err(_), true) => return Verdict::Passed,
        (Err(error), false) => return Verdict::Failed(format!("error {error}")),
        (Ok(found), true) => return Verdict::Failed(format!("{found} instead of an error")),
        (Ok(_), false) => {}
    }
    let expected = match test.message("value") {
        Some(message) => value(message),
        None => match test.message("typed_result").and_then(|result| result.message("result")) {
            Some(message) => value(message),
            None => Some(Value::Bool(true)),
        },
    };
    let Some(expected) = expected else { return Verdict::Skipped("messages") };
    let Ok(found) = result else { return Verdict::Passed };
    match same(&expected, found) {
        true => Verdict::Passed,
        false => Verdict::Failed(format!("{found} instead of {expected}")),
    }
}

fn same(expected: &Value<'_>, found: &Value<'_>) -> bool {
    match (expected, found) {
        (Value::Double(a), Value::Double(b)) if a.is_nan() => b.is_nan(),
        _ => expected.type_name() == found.type_name() && equal(expected, found) == Ok(true),
    }
}

/// The value of a test; `None` for messages and enums.
pub(crate) fn value(message: &Message) -> Option<Value<'static>> {
    let (kind, field) = message.0.first()?;
    let word = || match field {
        Field::Word(word) => Some(word.as_str()),
        _ => None,
    };
    Some(match (kind.as_str(), field) {
        ("null_value", _) => Value::Null,
        ("bool_value", _) => Value::Bool(word()? == "true"),
        ("int64_value", _) => Value::Int(word()?.parse().ok()?),
        ("uint64_value", _) => Value::Uint(word()?.parse().ok()?),
        ("double_value", _) => Value::Double(double(word()?)?),
        ("string_value", Field::Text(text)) => Value::text(String::from_utf8(text.clone()).ok()?),
        ("bytes_value", Field::Text(bytes)) => Value::bytes(bytes.clone()),
        ("type_value", _) => Value::Type(Arc::new(Type::parse(&message.text(kind)?))),
        ("list_value", Field::Message(list)) => {
            Value::list(list.messages("values").map(value).collect::<Option<Vec<_>>>()?)
        }
        ("map_value", Field::Message(map)) => {
            let mut entries = Entries::default();
            for entry in map.messages("entries") {
                entries.insert(value(entry.message("key")?)?, value(entry.message("value")?)?);
            }
            Value::Map(Map::of(entries))
        }
        ("object_value", Field::Message(any)) => object(any)?,
        _ => return None,
    })
}

fn double(word: &str) -> Option<f64> {
    match word {
        "inf" | "infinity" => Some(f64::INFINITY),
        "-inf" | "-infinity" => Some(f64::NEG_INFINITY),
        _ => word.trim_end_matches('f').parse().ok(),
    }
}

/// Timestamps and durations, which are messages in tests.
fn object(any: &Message) -> Option<Value<'static>> {
    let (name, field) = any.0.first()?;
    let Field::Message(fields) = field else { return None };
    let number = |name: &str| fields.text(name).map_or(Some(0), |text| text.parse::<i64>().ok());
    let (seconds, nanos) = (number("seconds")?, number("nanos")?);
    match name.as_str() {
        "[type.googleapis.com/google.protobuf.Duration]" => {
            Some(Value::Duration(seconds.checked_mul(1_000_000_000)?.checked_add(nanos)?))
        }
        "[type.googleapis.com/google.protobuf.Timestamp]" => {
            Timestamp::new(seconds, u32::try_from(nanos).ok()?).map(Value::Timestamp)
        }
        _ => None,
    }
}

/// A declared or deduced type; `None` for messages.
pub(crate) fn declared_type(message: &Message) -> Option<Type> {
    let (kind, field) = message.0.first()?;
    Some(match (kind.as_str(), field) {
        ("dyn", _) => Type::Dyn,
        ("null", _) => Type::Null,
        ("primitive", Field::Word(name)) => match name.as_str() {
            "BOOL" => Type::Bool,
            "INT64" => Type::Int,
            "UINT64" => Type::Uint,
            "DOUBLE" => Type::Double,
            "STRING" => Type::String,
            "BYTES" => Type::Bytes,
            _ => return None,
        },
        ("well_known", Field::Word(name)) => match name.as_str() {
            "DURATION" => Type::Duration,
            "TIMESTAMP" => Type::Timestamp,
            _ => return None,
        },
        ("list_type", Field::Message(list)) => Type::list(declared_type(list.message("elem_type")?)?),
        ("map_type", Field::Message(map)) => {
            Type::map(declared_type(map.message("key_type")?)?, declared_type(map.message("value_type")?)?)
        }
        ("abstract_type", Field::Message(named)) if named.text("name")? == "optional_type" => {
            Type::optional(declared_type(named.message("parameter_types")?)?)
        }
        ("type", Field::Message(inner)) => Type::Type(declared_type(inner).map(Arc::new)),
        _ => return None,
    })
}
