//! Validation of numbers: the range of their type and format, bounds, multiples.
//!
//! Upstream computes with integers if the value is one, and cuts off the fractions of bounds then.

use corten_api::{Value, go};

use super::outcome::{Outcome, Path};
use super::{Check, Node, Type};

/// Validates a value that is a number.
pub(super) fn validate(value: &Value, node: &Node, path: &Path<'_>, outcome: &mut Outcome<'_>) {
    let range = Range::of(node);
    if !range.contains(value) {
        outcome.unplaced(path, |name| range.complaint("Checked", name));
    }
    for check in &node.checks {
        match check {
            Check::MultipleOf(factor) => {
                let fits = range.check_bound(*factor, "MultipleOf", path, outcome);
                validate_multiple(value, *factor, fits, path, outcome);
            }
            Check::Minimum(least, exclusive) => {
                let fits = range.check_bound(*least, "Minimum boundary", path, outcome);
                let bound = Bound { limit: *least, exclusive: *exclusive, is_minimum: true };
                bound.validate(value, fits, path, outcome);
            }
            Check::Maximum(most, exclusive) => {
                let fits = range.check_bound(*most, "Maximum boundary", path, outcome);
                let bound = Bound { limit: *most, exclusive: *exclusive, is_minimum: false };
                bound.validate(value, fits, path, outcome);
            }
            _ => {}
        }
    }
    outcome.matches += 2;
}

/// The values that a type and format can hold.
struct Range<'n> {
    is_integer: bool,
    is_number: bool,
    format: &'n str,
}

impl<'n> Range<'n> {
    fn of(node: &'n Node) -> Range<'n> {
        let kind = if node.int_or_string { Type::Any } else { node.kind };
        let (is_integer, is_number) = (kind == Type::Integer, kind == Type::Number);
        let supported = node.checks.iter().find_map(|check| match check {
            Check::Format(format) => Some(format.name.as_str()),
            _ => None,
        });
        let format = supported.filter(|_| is_integer || is_number).unwrap_or_default();
        Range { is_integer, is_number, format }
    }

    fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Int(number) if self.is_integer => self.format != "int32" || i32::try_from(*number).is_ok(),
            Value::Int(number) => self.contains_float(*number as f64),
            Value::Float(number) => self.contains_float(*number),
            _ => true,
        }
    }

    fn contains_float(&self, number: f64) -> bool {
        match (self.is_integer, self.format) {
            (true, "int32") => number.to_string().parse::<i32>().is_ok(),
            (true, _) => number.to_string().parse::<i64>().is_ok(),
            (false, "float") => (number as f32).is_finite(),
            (false, _) => true,
        }
    }

    fn complaint(&self, what: &str, name: &str) -> String {
        let kind = if self.is_integer {
            "integer"
        } else if self.is_number {
            "number"
        } else {
            ""
        };
        match self.format {
            "" => format!("{what} value must be of type {kind} (default format) in {name}"),
            format => format!("{what} value must be of type {kind} with format {format} in {name}"),
        }
    }

    /// Returns true if a bound is itself in the range.
    fn check_bound(&self, bound: f64, what: &str, path: &Path<'_>, outcome: &mut Outcome<'_>) -> bool {
        let fits = self.contains_float(bound);
        if !fits {
            outcome.unplaced(path, |name| self.complaint(what, name));
        }
        fits
    }
}

fn as_float(value: &Value) -> f64 {
    match value {
        Value::Int(number) => *number as f64,
        Value::Float(number) => *number,
        _ => 0.0,
    }
}

struct Bound {
    limit: f64,
    exclusive: bool,
    is_minimum: bool,
}

impl Bound {
    /// `as_integer` is true if integers are compared as such.
    fn validate(&self, value: &Value, as_integer: bool, path: &Path<'_>, outcome: &mut Outcome<'_>) {
        let (fits, limit, shown) = match value {
            Value::Int(number) if as_integer => {
                let limit = go::integer(self.limit);
                (self.holds(number.cmp(&limit)), limit.to_string(), number.to_string())
            }
            _ => {
                let number = as_float(value);
                let order = number.partial_cmp(&self.limit).unwrap_or(std::cmp::Ordering::Equal);
                (self.holds(order), go::float(self.limit), go::float(number))
            }
        };
        if !fits {
            let than = match (self.is_minimum, self.exclusive) {
                (true, true) => "greater than",
                (true, false) => "greater than or equal to",
                (false, true) => "less than",
                (false, false) => "less than or equal to",
            };
            outcome.invalid(path, shown, &format!("should be {than} {limit}"));
        }
    }

    fn holds(&self, order: std::cmp::Ordering) -> bool {
        if order.is_eq() {
            return !self.exclusive;
        }
        if self.is_minimum { order.is_gt() } else { order.is_lt() }
    }
}

fn validate_multiple(
    value: &Value,
    factor: f64,
    as_integer: bool,
    path: &Path<'_>,
    outcome: &mut Outcome<'_>,
) {
    let (is_positive, is_multiple, shown_factor, shown) = match value {
        Value::Int(number) if as_integer => {
            let factor = go::integer(factor);
            let is_multiple = factor > 0 && number % factor == 0;
            (factor > 0, is_multiple, factor.to_string(), number.to_string())
        }
        _ => {
            let number = as_float(value);
            let times = if factor < 1.0 { 1.0 / factor * number } else { number / factor };
            (factor > 0.0, is_integral(times), go::float(factor), go::float(number))
        }
    };
    if !is_positive {
        let why = format!("must be positive: {shown_factor}");
        outcome
            .invalid_text(path, shown_factor, |name| format!("factor MultipleOf declared for {name} {why}"));
    } else if !is_multiple {
        outcome.invalid(path, shown, &format!("should be a multiple of {shown_factor}"));
    }
}

/// Returns true for a float that is an integer in JSON, up to rounding errors.
pub(super) fn is_integral(number: f64) -> bool {
    const MAX_JSON_INTEGER: f64 = 9_007_199_254_740_991.0;
    const EPSILON: f64 = 1e-9;
    if !number.is_finite() || number.abs() > MAX_JSON_INTEGER {
        return false;
    }
    let rounded = number.round();
    number == rounded || (rounded != 0.0 && (number - rounded).abs() < EPSILON * rounded.abs())
}
