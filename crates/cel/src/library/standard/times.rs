//! Parts of timestamps and durations.
//!
//! Timestamps are in UTC unless a time zone is given.

use crate::declare::{Declaration, Function, Implementation};
use crate::error::{Error, Result};
use crate::value::Value;
use crate::value::time::{Civil, NANOS};

const fn part(
    function: &'static str,
    overload: &'static str,
    signature: &'static str,
    implementation: Function,
) -> Declaration {
    Declaration::new(function, overload, signature, Implementation::Values(implementation))
}

const UTC: &str = "timestamp.() int";
const ZONED: &str = "timestamp.(string) int";
const LENGTH: &str = "duration.() int";

pub(super) const DECLARATIONS: &[Declaration] = &[
    part("getFullYear", "timestamp_to_year", UTC, year),
    part("getFullYear", "timestamp_to_year_with_tz", ZONED, year),
    part("getMonth", "timestamp_to_month", UTC, month),
    part("getMonth", "timestamp_to_month_with_tz", ZONED, month),
    part("getDayOfYear", "timestamp_to_day_of_year", UTC, day_of_year),
    part("getDayOfYear", "timestamp_to_day_of_year_with_tz", ZONED, day_of_year),
    part("getDayOfMonth", "timestamp_to_day_of_month", UTC, day_of_month),
    part("getDayOfMonth", "timestamp_to_day_of_month_with_tz", ZONED, day_of_month),
    part("getDate", "timestamp_to_day_of_month_1_based", UTC, date),
    part("getDate", "timestamp_to_day_of_month_1_based_with_tz", ZONED, date),
    part("getDayOfWeek", "timestamp_to_day_of_week", UTC, day_of_week),
    part("getDayOfWeek", "timestamp_to_day_of_week_with_tz", ZONED, day_of_week),
    part("getHours", "timestamp_to_hours", UTC, hours),
    part("getHours", "timestamp_to_hours_with_tz", ZONED, hours),
    part("getHours", "duration_to_hours", LENGTH, hours),
    part("getMinutes", "timestamp_to_minutes", UTC, minutes),
    part("getMinutes", "timestamp_to_minutes_with_tz", ZONED, minutes),
    part("getMinutes", "duration_to_minutes", LENGTH, minutes),
    part("getSeconds", "timestamp_to_seconds", UTC, seconds),
    part("getSeconds", "timestamp_to_seconds_tz", ZONED, seconds),
    part("getSeconds", "duration_to_seconds", LENGTH, seconds),
    part("getMilliseconds", "timestamp_to_milliseconds", UTC, milliseconds),
    part("getMilliseconds", "timestamp_to_milliseconds_with_tz", ZONED, milliseconds),
    part("getMilliseconds", "duration_to_milliseconds", LENGTH, milliseconds),
];

/// The calendar fields of the first argument, in the time zone that the second names.
fn civil(arguments: &[Value<'_>]) -> Result<Civil> {
    match arguments {
        [Value::Timestamp(time)] => Ok(time.civil(0)),
        [Value::Timestamp(time), Value::String(zone)] => Ok(time.civil(time.offset_in(zone)?)),
        _ => Err(Error::no_such_overload()),
    }
}

fn year<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    civil(arguments).map(|civil| Value::Int(civil.year))
}

fn month<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    civil(arguments).map(|civil| Value::Int(i64::from(civil.month) - 1))
}

fn day_of_year<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    civil(arguments).map(|civil| Value::Int(civil.year_day.into()))
}

fn day_of_month<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    civil(arguments).map(|civil| Value::Int(i64::from(civil.day) - 1))
}

fn date<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    civil(arguments).map(|civil| Value::Int(civil.day.into()))
}

fn day_of_week<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    civil(arguments).map(|civil| Value::Int(civil.week_day.into()))
}

fn hours<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / (3600 * NANOS))),
        _ => civil(arguments).map(|civil| Value::Int(civil.hour.into())),
    }
}

fn minutes<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / (60 * NANOS))),
        _ => civil(arguments).map(|civil| Value::Int(civil.minute.into())),
    }
}

fn seconds<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / NANOS)),
        _ => civil(arguments).map(|civil| Value::Int(civil.second.into())),
    }
}

fn milliseconds<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match arguments {
        [Value::Duration(nanos)] => Ok(Value::Int(nanos / 1_000_000)),
        [Value::Timestamp(time), ..] => {
            civil(arguments)?;
            Ok(Value::Int(i64::from(time.nanos / 1_000_000)))
        }
        _ => Err(Error::no_such_overload()),
    }
}
