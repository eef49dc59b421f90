//! Values that are a number or a percentage: `3`, `"25%"`.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::fields::NOT_NEGATIVE;

/// A number that is not negative, or a percentage.
pub(crate) fn validate_int_or_percent(amount: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match amount {
        Value::String(text) if percent(text).is_none() => {
            let why = "a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')";
            errors.invalid(*at, amount, why);
        }
        Value::Int(number) if *number < 0 => errors.invalid(*at, amount, NOT_NEGATIVE),
        _ => {}
    }
}

/// A percentage of at most 100.
pub(crate) fn validate_at_most_100_percent(amount: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if amount.as_str().and_then(percent).is_some_and(|share| share > 100) {
        errors.invalid(*at, amount, "must not be greater than 100%");
    }
}

/// The number itself, or the percentage; other text is a number if it parses as one.
pub(crate) fn magnitude(amount: &Value) -> i64 {
    match amount {
        Value::Int(number) => *number,
        Value::String(text) => percent(text).or_else(|| text.parse().ok()).unwrap_or(0),
        _ => 0,
    }
}

fn percent(text: &str) -> Option<i64> {
    let digits = text.strip_suffix('%')?;
    let numeric = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    numeric.then(|| digits.parse().unwrap_or(i64::MAX))
}
