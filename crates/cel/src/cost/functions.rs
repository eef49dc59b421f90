//! Costs of the functions that upstream's API server prices by name, whatever their overload, and the choice of the
//! rule that applies to a call.

use std::sync::Arc;

use super::{Argument, Call, Estimate, LIST, REGEX, Range, STRUCT, TRAVERSAL, standard, traversal};
use crate::declare::{Cost, Overload};
use crate::types::{Kind, Type};
use crate::value::Value;

/// Cost of an authorization check: two of them fit into an expression.
const CHECK: u64 = 350_000;
/// Length of the regular expressions of named formats, in estimates.
const MAX_FORMAT_REGEX: f64 = 128.0;
/// Size of a named format, in estimates.
const MAX_FORMAT: u64 = 64;

/// The rule for the cost of a call at run time.
#[derive(Clone, Copy)]
pub(crate) enum Actual {
    One,
    /// From the arguments.
    Before(fn(&[Value<'_>]) -> u64),
    /// From the arguments and the result.
    After(fn(&[Value<'_>], Option<&Value<'_>>) -> u64),
}

impl Actual {
    /// The rule of a call. The overload is empty where several match.
    pub(crate) fn of(function: &str, overload: &str, overloads: &[Arc<Overload>]) -> Actual {
        if let [one] = overloads
            && let Cost::Rules(rules) = one.cost
        {
            return Actual::After(rules.actual);
        }
        by_name(function, overload).or_else(|| standard::actual(overload)).unwrap_or(Actual::One)
    }

    pub(crate) fn of_call(self, arguments: &[Value<'_>], result: Option<&Value<'_>>) -> u64 {
        match self {
            Actual::One => 1,
            Actual::Before(rule) => rule(arguments),
            Actual::After(rule) => rule(arguments, result),
        }
    }
}

/// The size of a value in costs of the language itself: optional values have the size of what they hold.
pub(crate) fn actual_size(value: &Value<'_>) -> u64 {
    match value {
        Value::Optional(Some(inner)) => actual_size(inner),
        _ => size(Some(value)),
    }
}

/// The size of a value, or 1 if it has none.
fn size(value: Option<&Value<'_>>) -> u64 {
    value.and_then(Value::size).unwrap_or(1)
}

fn by_name(function: &str, overload: &str) -> Option<Actual> {
    use Actual::{After, Before, One};
    Some(match function {
        "check" => Before(|_| CHECK),
        "serviceAccount" | "path" | "group" | "resource" | "subresource" | "namespace" | "name"
        | "allowed" | "reason" | "error" | "errored" => One,
        "fieldSelector" | "labelSelector" => Before(|a| selector(Range::exactly(size(a.get(1)))).max),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            Before(|a| a.first().map_or(0, whole_traversal))
        }
        "url"
        | "lowerAscii"
        | "upperAscii"
        | "substring"
        | "trim"
        | "jsonpatch.escapeKey"
        | "cidr"
        | "isIP"
        | "isCIDR"
        | "quantity"
        | "isQuantity"
        | "semver"
        | "isSemver" => Before(|a| traversal(size(a.first()), TRAVERSAL)),
        "replace" | "split" | "ip.isCanonical" => Before(|a| traversal(size(a.first()), 2.0 * TRAVERSAL)),
        "join" => After(|_, result| traversal(size(result), 2.0 * TRAVERSAL)),
        "find" | "findAll" => Before(|a| pattern(size(a.first()), traversal(size(a.get(1)), REGEX))),
        "ip" if overload == "cidr_ip" => One,
        "ip" => Before(|a| traversal(size(a.first()), TRAVERSAL)),
        "containsIP" if overload == "cidr_contains_ip_string" => Before(|a| contains_ip(a) + parsed(a)),
        "containsIP" => Before(contains_ip),
        "containsCIDR" if overload == "cidr_contains_cidr_string" => Before(|a| contains_cidr(a) + parsed(a)),
        "containsCIDR" => Before(contains_cidr),
        "validate" => Before(|a| pattern(size(a.get(1)), traversal(format_regex(a), REGEX))),
        "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => One,
        _ => return None,
    })
}

/// Cost of matching a text against a regular expression of a cost.
fn pattern(text: u64, regex: u64) -> u64 {
    traversal(text.saturating_add(1), TRAVERSAL).saturating_mul(regex)
}

/// The size of a named format's regular expression, which its value gives.
fn format_regex(arguments: &[Value<'_>]) -> u64 {
    size(arguments.first())
}

fn contains_ip(arguments: &[Value<'_>]) -> u64 {
    traversal(size(arguments.first()).saturating_mul(2), TRAVERSAL)
}

fn contains_cidr(arguments: &[Value<'_>]) -> u64 {
    contains_ip(arguments) + traversal(size(arguments.first()), TRAVERSAL) + 1
}

/// Cost of parsing the second argument.
fn parsed(arguments: &[Value<'_>]) -> u64 {
    traversal(size(arguments.get(1)), TRAVERSAL)
}

/// Cost of traversing a value with all that it contains.
///
/// Concatenated lists can be far longer than the cost limit, so the count stops there.
fn whole_traversal(value: &Value<'_>) -> u64 {
    const ENOUGH: u64 = 1 << 24;
    let mut total = 0u64;
    let mut pending = vec![value.clone()];
    while let Some(value) = pending.pop() {
        match &value {
            Value::String(text) => total += (text.len() as f64 * TRAVERSAL) as u64,
            Value::Bytes(bytes) => total += (bytes.len() as f64 * TRAVERSAL) as u64,
            Value::List(list) => {
                if list.len() as u64 > ENOUGH {
                    return u64::MAX;
                }
                for item in list.iter() {
                    match item {
                        Ok(item @ (Value::List(_) | Value::Map(_) | Value::String(_) | Value::Bytes(_))) => {
                            pending.push(item);
                        }
                        _ => total += 1,
                    }
                }
            }
            Value::Map(map) => {
                for (key, value) in map.iter() {
                    pending.push(key);
                    pending.extend(value);
                }
            }
            _ => total += 1,
        }
        if total > ENOUGH {
            return u64::MAX;
        }
    }
    total
}

/// Cost of parsing a selector of some length.
fn selector(length: Range) -> Range {
    let requirements = length.scaled(0.5).scaled((LIST + STRUCT) as f64);
    Range::exactly(LIST).plus(length.scaled(TRAVERSAL)).plus(requirements)
}

/// The estimate for a function that is priced by name.
pub(super) fn estimate(function: &str, call: &Call<'_>) -> Option<Estimate> {
    let first = call.arguments.first();
    Some(match function {
        "check" => Estimate::of(Range::exactly(CHECK)),
        "serviceAccount"
        | "path"
        | "group"
        | "resource"
        | "subresource"
        | "namespace"
        | "name"
        | "allowed"
        | "reason"
        | "error"
        | "errored"
        | "masked"
        | "prefixLength"
        | "family"
        | "isUnspecified"
        | "isLoopback"
        | "isLinkLocalMulticast"
        | "isLinkLocalUnicast"
        | "isGlobalUnicast"
        | "format.named"
        | "sign"
        | "asInteger"
        | "isInteger"
        | "asApproximateFloat"
        | "isGreaterThan"
        | "isLessThan"
        | "compareTo"
        | "add"
        | "sub"
        | "major"
        | "minor"
        | "patch"
        | "getScheme"
        | "getHostname"
        | "getHost"
        | "getPort"
        | "getEscapedPath"
        | "getQuery" => Estimate::of(Range::ONE),
        "fieldSelector" | "labelSelector" if call.arguments.len() == 1 => Estimate::of(selector(first?.size)),
        "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" | "includes" => {
            Estimate::of(list_traversal(function, call.target.as_ref()?))
        }
        "url" | "jsonpatch.escapeKey" if call.arguments.len() == 1 => scanned(first?),
        "lowerAscii" | "upperAscii" | "substring" | "trim" => scanned(call.target.as_ref()?),
        "replace" if call.arguments.len() >= 2 => replaced(call)?,
        "split" => split(call)?,
        "join" => joined(call)?,
        "find" | "findAll" => {
            let target = call.target.as_ref()?.size;
            let text = target.plus(Range::ONE).scaled(TRAVERSAL);
            Estimate::sized(text.times(first?.size.scaled(REGEX)), Range::new(0, target.max))
        }
        "ip" if call.overload == "cidr_ip" => Estimate::of(Range::ONE),
        "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
            Estimate::of(first?.size.scaled(TRAVERSAL))
        }
        "ip.isCanonical" => Estimate::of(first?.size.scaled(2.0 * TRAVERSAL)),
        "containsIP" | "containsCIDR" => Estimate::of(contained(function, call.overload, first?)),
        "validate" => Estimate::of(first?.size.scaled(TRAVERSAL).scaled(MAX_FORMAT_REGEX * REGEX)),
        "_==_" => Estimate::of(compared(call)?),
        _ => return None,
    })
}

/// A call that traverses a text and gives one that is not longer.
fn scanned(text: &Argument<'_>) -> Estimate {
    Estimate::sized(text.size.scaled(TRAVERSAL), text.size)
}

fn list_traversal(function: &str, target: &Argument<'_>) -> Range {
    match target.item_type() {
        Some(item) => {
            let text = matches!(item.kind(), Kind::String | Kind::Bytes);
            let each = if text { Range::ONE.plus(target.item_size.scaled(TRAVERSAL)) } else { Range::ONE };
            target.size.times(each)
        }
        None if function == "includes" => target.size.times(Range::ONE),
        None => target.size.scaled(TRAVERSAL),
    }
}

fn replaced(call: &Call<'_>) -> Option<Estimate> {
    let text = call.target.as_ref()?.size;
    let (old, new) = (call.arguments.first()?.size, call.arguments.get(1)?.size);
    let (mut count, mut kept) = (Range::ZERO, Range::ZERO);
    if old.min == 0 {
        // An empty text is replaced before and after each character.
        (count.max, kept.max) = (text.max.saturating_add(1), text.max);
    } else if new.max <= old.min {
        (count.max, kept.max) = (0, text.max);
    } else {
        count.max = (text.max as f64 / old.min as f64).ceil() as u64;
    }
    if old.max == 0 {
        (count.min, kept.min) = (text.min.saturating_add(1), text.min);
    } else if old.max <= new.min {
        (count.min, kept.min) = (0, text.min);
    } else {
        count.min = (text.min as f64 / old.max as f64).ceil() as u64;
    }
    Some(Estimate::sized(text.scaled(2.0 * TRAVERSAL), count.times(new).plus(kept)))
}

fn split(call: &Call<'_>) -> Option<Estimate> {
    let text = call.target.as_ref()?.size;
    let limit = match call.arguments.get(1).and_then(|argument| argument.literal) {
        Some(crate::ast::Literal::Int(limit)) => Some(*limit as u64),
        _ => None,
    };
    Some(Estimate::sized(text.scaled(2.0 * TRAVERSAL), Range::new(0, limit.unwrap_or(text.max))))
}

fn joined(call: &Call<'_>) -> Option<Estimate> {
    let list = call.target.as_ref()?;
    let mut size = list.item_type().map_or(Range::ZERO, |_| list.size.times(list.item_size));
    if let Some(separator) = call.arguments.first() {
        let gaps = Range::new(list.size.min.saturating_sub(1), list.size.max.saturating_sub(1));
        size = size.plus(separator.size.times(gaps));
    }
    Some(Estimate::sized(size.scaled(TRAVERSAL), size))
}

fn contained(function: &str, overload: &str, other: &Argument<'_>) -> Range {
    // Addresses have 4 or 16 bytes.
    let bytes = Range::new(4, 16);
    let mut cost = bytes.plus(bytes).scaled(TRAVERSAL);
    if function == "containsCIDR" {
        cost = cost.plus(bytes.scaled(TRAVERSAL)).plus(Range::ONE);
    }
    if matches!(overload, "cidr_contains_ip_string" | "cidr_contains_cidr_string") {
        cost = cost.plus(other.size.scaled(TRAVERSAL));
    }
    cost
}

/// Equality of values of libraries.
fn compared(call: &Call<'_>) -> Option<Range> {
    let [a, b] = call.arguments.as_slice() else { return None };
    let name = match (a.ty, b.ty) {
        (Type::Opaque(a, _), Type::Opaque(b, _)) if a == b => &**a,
        (Type::Object(a), Type::Object(b)) if a == b => &*a.name,
        _ => return None,
    };
    Some(match name {
        "net.IP" | "net.CIDR" | "kubernetes.Quantity" | "kubernetes.Semver" => Range::ONE,
        _ if name.starts_with("kubernetes.authorization.") => Range::ONE,
        "kubernetes.NamedFormat" => Range::new(1, MAX_FORMAT).scaled(TRAVERSAL),
        // Upstream looks at the second operand only.
        "kubernetes.URL" => Range::new(1, b.computed.map_or(1, |size| size.max)).scaled(TRAVERSAL),
        _ => return None,
    })
}
