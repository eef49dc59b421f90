//! Request policies of shared capacities: certain quantities, or steps in a range.

use corten_api::quantity::Quantity;
use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::text::{list, member};

const VALUES_MAX: usize = 10;

/// The `requestPolicy` of a capacity, if there is one.
pub(super) fn validate_request_policy(capacity: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(policy) = member(capacity, "requestPolicy") else { return };
    let at = at.child("requestPolicy");
    let Some(most) = amount(capacity, "value") else { return };
    let (values, range) = (list(policy, "validValues"), member(policy, "validRange"));
    match (amount(policy, "default"), range) {
        (_, Some(_)) if !values.is_empty() => {
            let why = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.forbidden(at, why);
        }
        (None, Some(_)) => errors.required(at.child("default"), "required when validRange is defined"),
        (Some(default), Some(range)) => validate_range(default, range, most, &at.child("validRange"), errors),
        (_, None) if values.is_empty() => {}
        (None, None) => errors.required(at.child("default"), "required when validValues is defined"),
        (Some(default), None) => validate_values(default, values, most, &at.child("validValues"), errors),
    }
}

fn amount(value: &Value, key: &str) -> Option<Quantity> {
    parsed(value.get(key)?)
}

fn parsed(value: &Value) -> Option<Quantity> {
    Quantity::parse(value.as_str()?).ok()
}

fn shown(amount: Quantity) -> Value {
    Value::from(amount.to_str())
}

/// Quantities in order, none above the capacity, with the default among them.
fn validate_values(
    default: Quantity,
    values: &[Value],
    most: Quantity,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let values: Vec<Quantity> = values.iter().filter_map(parsed).collect();
    for (i, pair) in values.windows(2).enumerate() {
        if let [before, after] = pair
            && before > after
        {
            errors.invalid(at.index(i + 1), &shown(*after), "values must be sorted in ascending order");
        }
    }
    if values.len() > VALUES_MAX {
        errors.too_many(at, values.len(), VALUES_MAX);
    } else {
        for (i, value) in values.iter().enumerate().filter(|(_, value)| **value > most) {
            let why = format!("option is larger than capacity value: {most}");
            errors.invalid(at.index(i), &shown(*value), why);
        }
        for (i, value) in values.iter().enumerate() {
            if values.iter().take(i).any(|earlier| earlier == value) {
                errors.duplicate(at.index(i), &shown(*value));
            }
        }
    }
    if values.len() > VALUES_MAX || !values.contains(&default) {
        errors.invalid(at, &shown(default), "default value is not valid according to the requestPolicy");
    }
}

fn validate_range(default: Quantity, range: &Value, most: Quantity, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(min) = amount(range, "min") else {
        return errors.required(at.child("min"), "required when validRange is defined");
    };
    let max = amount(range, "max");
    let mut refuse =
        |key: &str, value: Quantity, why: String| errors.invalid(at.child(key), &shown(value), why);
    if min > most {
        refuse("min", min, format!("min is larger than capacity value: {most}"));
    }
    if default < min {
        refuse("default", default, format!("default is less than min: {min}"));
    }
    if let Some(max) = max {
        if min > max {
            refuse("max", min, format!("min is larger than max: {max}"));
        }
        if max > most {
            refuse("max", max, format!("max is larger than capacity value: {most}"));
        }
        if default > max {
            refuse("default", default, format!("default is more than max: {max}"));
        }
    }
    let Some(step) = amount(range, "step") else { return };
    if step.is_zero() || step.is_negative() {
        refuse("step", step, "must be greater than zero".to_owned());
        return;
    }
    let mut first = min;
    first.add(step);
    if first > most {
        refuse("step", step, format!("one step {first} is larger than capacity value: {most}"));
    }
    for value in [Some(default), max].into_iter().flatten() {
        let offset = value.milli_value().saturating_sub(min.milli_value());
        if offset.checked_rem(step.milli_value()).is_some_and(|rest| rest != 0) {
            refuse("step", value, format!("value is not a multiple of a given step ({step}) from ({min})"));
        }
    }
}
