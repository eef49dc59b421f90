//! Costs of the functions of the language itself, by overload.

use super::functions::{Actual, actual_size};
use super::{Argument, Estimate, REGEX, Range, TRAVERSAL, traversal};
use crate::value::Value;

fn of(arguments: &[Value<'_>], at: usize) -> u64 {
    arguments.get(at).map_or(1, actual_size)
}

/// The rule at run time; `None` for calls that cost 1.
pub(super) fn actual(overload: &str) -> Option<Actual> {
    Some(Actual::Before(match overload {
        "starts_with_string" | "ends_with_string" => |a| traversal(of(a, 1), TRAVERSAL),
        "string_to_bytes" | "bytes_to_string" | "strings_quote" | "string_format" => {
            |a| traversal(of(a, 0), TRAVERSAL)
        }
        "in_list" => |a| of(a, 1),
        "add_string" | "add_bytes" => |a| traversal(of(a, 0).saturating_add(of(a, 1)), TRAVERSAL),
        "matches" | "matches_string" => {
            |a| traversal(of(a, 0).saturating_add(1), TRAVERSAL).saturating_mul(traversal(of(a, 1), REGEX))
        }
        "contains_string" => {
            |a| traversal(of(a, 0), TRAVERSAL).saturating_mul(traversal(of(a, 1), TRAVERSAL))
        }
        _ if compares_text(overload) => |a| traversal(of(a, 0).min(of(a, 1)), TRAVERSAL),
        _ => return None,
    }))
}

/// Comparisons whose cost depends on sizes.
fn compares_text(overload: &str) -> bool {
    matches!(
        overload,
        "less_string"
            | "greater_string"
            | "less_equals_string"
            | "greater_equals_string"
            | "less_bytes"
            | "greater_bytes"
            | "less_equals_bytes"
            | "greater_equals_bytes"
            | "equals"
            | "not_equals"
    )
}

/// The estimate for an overload, without the costs of its arguments; `None` for calls that cost 1.
///
/// Operators that do not evaluate all of their arguments are not here.
pub(super) fn estimate(
    overload: &str,
    target: Option<&Argument<'_>>,
    arguments: &[Argument<'_>],
) -> Option<Estimate> {
    let at = |at: usize| arguments.get(at).map(sure);
    let target = target.map(sure);
    Some(match (overload, arguments.len()) {
        ("string_format", _) => Estimate::of(target?.scaled(TRAVERSAL)),
        ("string_to_bytes", 1) => {
            let size = at(0)?;
            // Upstream does not check this product for overflow.
            Estimate::sized(size.scaled(TRAVERSAL), Range::new(size.min, size.max.wrapping_mul(4)))
        }
        ("bytes_to_string", 1) => {
            let size = at(0)?;
            Estimate::sized(size.scaled(TRAVERSAL), Range::new(size.min / 4, size.max))
        }
        ("strings_quote", 1) => {
            let size = at(0)?;
            let result = Range::new(size.min.wrapping_add(2), size.max.wrapping_mul(2).wrapping_add(2));
            Estimate::sized(size.scaled(TRAVERSAL), result)
        }
        ("starts_with_string" | "ends_with_string", 1) => Estimate::of(at(0)?.scaled(TRAVERSAL)),
        ("in_list", 2) => Estimate::of(at(1)?.scaled(1.0)),
        ("matches_string", 1) => matched(target?, at(0)?),
        ("matches", 2) => matched(at(0)?, at(1)?),
        ("contains_string", 1) => Estimate::of(target?.scaled(TRAVERSAL).times(at(0)?.scaled(TRAVERSAL))),
        ("add_list", 2) => Estimate::sized(Range::ONE, at(0)?.plus(at(1)?)),
        ("add_string" | "add_bytes", 2) => {
            let size = at(0)?.plus(at(1)?);
            Estimate::sized(size.scaled(TRAVERSAL), size)
        }
        _ if compares_text(overload) => {
            let smaller = at(0)?.max.min(at(1)?.max);
            Estimate::of(Range::new(u64::from(smaller > 0), smaller).scaled(TRAVERSAL))
        }
        _ => return None,
    })
}

/// The size that the expression determines.
fn sure(argument: &Argument<'_>) -> Range {
    argument.computed.unwrap_or(Range::UNKNOWN)
}

fn matched(text: Range, pattern: Range) -> Estimate {
    Estimate::of(text.plus(Range::ONE).scaled(TRAVERSAL).times(pattern.scaled(REGEX)))
}
