//! The lists extension of the language: `slice`, `flatten`, `sort`, `lists.range`, `reverse`, `distinct`, and
//! `@sortByAssociatedKeys`, which the macro `sortBy` expands to.
//!
//! Upstream's sort is not stable beyond 12 items; this one always is.

use super::arguments::{check_list, declare, int, list};
use super::costs::{size, subject};
use super::lists::is_comparable;
use crate::ast::Literal;
use crate::cost::{Argument, Estimate, LIST, Range, TRAVERSAL};
use crate::declare::{Declaration, Function, Library, Rules};
use crate::error::{Error, Result};
use crate::value::{List, Value, compare, equal};
use crate::work;

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("slice", "list_slice", "list(T).(int, int) list(T)", slice).with_cost(SLICE),
    declare("flatten", "list_flatten", "list(list(T)).() list(T)", flatten).with_cost(FLATTEN).unguarded(),
    declare("flatten", "list_flatten_int", "list(dyn).(int) list(dyn)", flatten)
        .with_cost(FLATTEN)
        .unguarded(),
    sorts("list_int_sort", "list(int).() list(int)"),
    sorts("list_uint_sort", "list(uint).() list(uint)"),
    sorts("list_double_sort", "list(double).() list(double)"),
    sorts("list_bool_sort", "list(bool).() list(bool)"),
    sorts("list_google.protobuf.Duration_sort", "list(duration).() list(duration)"),
    sorts("list_google.protobuf.Timestamp_sort", "list(timestamp).() list(timestamp)"),
    sorts("list_string_sort", "list(string).() list(string)"),
    sorts("list_bytes_sort", "list(bytes).() list(bytes)"),
    sorts_by("list_int_sortByAssociatedKeys", "list(T).(list(int)) list(T)"),
    sorts_by("list_uint_sortByAssociatedKeys", "list(T).(list(uint)) list(T)"),
    sorts_by("list_double_sortByAssociatedKeys", "list(T).(list(double)) list(T)"),
    sorts_by("list_bool_sortByAssociatedKeys", "list(T).(list(bool)) list(T)"),
    sorts_by("list_google.protobuf.Duration_sortByAssociatedKeys", "list(T).(list(duration)) list(T)"),
    sorts_by("list_google.protobuf.Timestamp_sortByAssociatedKeys", "list(T).(list(timestamp)) list(T)"),
    sorts_by("list_string_sortByAssociatedKeys", "list(T).(list(string)) list(T)"),
    sorts_by("list_bytes_sortByAssociatedKeys", "list(T).(list(bytes)) list(T)"),
    declare("lists.range", "lists_range", "(int) list(int)", range).with_cost(RANGE),
    declare("reverse", "list_reverse", "list(T).() list(T)", reverse).with_cost(REVERSE),
    declare("distinct", "list_distinct", "list(T).() list(T)", distinct).with_cost(DISTINCT),
];

const fn sorts(overload: &'static str, signature: &'static str) -> Declaration {
    let implementation: Function = sort;
    declare("sort", overload, signature, implementation).with_cost(SORT).unguarded()
}

const fn sorts_by(overload: &'static str, signature: &'static str) -> Declaration {
    let implementation: Function = sort_by_keys;
    declare("@sortByAssociatedKeys", overload, signature, implementation).with_cost(SORT_BY).unguarded()
}

/// The longest list that `lists.range` gives.
const MAX_RANGE: i64 = 1_000_000;
/// The longest list whose items are compared with each other. No cost limit allows a longer one.
const MAX_COMPARED: usize = 10_000;

const SLICE: Rules = Rules {
    estimate: |call| {
        let start = literal(call.arguments.first(), 0);
        let end = literal(call.arguments.get(1), subject(call).max);
        allocated(Range::exactly(end.wrapping_sub(start)), 1.0)
    },
    actual: |_, result| allocated_actual(result.and_then(Value::size).unwrap_or(1), 1.0),
};

const RANGE: Rules = Rules {
    estimate: |call| allocated(Range::exactly(literal(call.arguments.first(), u64::MAX)), 1.0),
    actual: SLICE.actual,
};

const REVERSE: Rules = Rules { estimate: |call| allocated(subject(call), 1.0), actual: SLICE.actual };

const FLATTEN: Rules = Rules {
    estimate: |call| {
        let depth = call.arguments.first().map_or(1, |depth| literal(Some(depth), u64::MAX));
        allocated(subject(call), depth as f64)
    },
    actual: |arguments, _| {
        let depth = arguments.get(1).map_or(1.0, |depth| depth.as_int().unwrap_or(1) as f64);
        allocated_actual(size(arguments, 0), depth)
    },
};

const DISTINCT: Rules = Rules {
    estimate: |call| allocated(subject(call).times(subject(call)), 2.0),
    actual: |arguments, _| compared_actual(arguments.first()),
};

const SORT: Rules = Rules {
    estimate: |call| compared(call.target.as_ref(), call.overload),
    actual: |arguments, _| compared_actual(arguments.first()),
};

const SORT_BY: Rules = Rules {
    estimate: |call| compared(call.arguments.first(), call.overload),
    actual: |arguments, _| compared_actual(arguments.get(1)),
};

/// The value of a literal that is an integer; negative ones count as 0.
fn literal(argument: Option<&Argument<'_>>, default: u64) -> u64 {
    match argument.and_then(|argument| argument.literal) {
        Some(Literal::Int(value)) => u64::try_from(*value).unwrap_or(0),
        _ => default,
    }
}

/// A call that makes a list and works on `size` items.
fn allocated(size: Range, factor: f64) -> Estimate {
    Estimate::sized(size.scaled(factor).plus(Range::exactly(1 + LIST)), size)
}

fn allocated_actual(size: u64, factor: f64) -> u64 {
    let factor = if factor < 0.0 { 1.0 } else { factor };
    ((size as f64 * factor) as u64).saturating_add(1 + LIST)
}

/// A call that compares all items of a list with each other; the overload tells their type.
fn compared(list: Option<&Argument<'_>>, overload: &str) -> Estimate {
    let size = list.map_or(Range::UNKNOWN, |list| list.size);
    let reads = overload.starts_with("list_string_") || overload.starts_with("list_bytes_");
    allocated(size.times(size), if reads { 2.0 + TRAVERSAL } else { 2.0 })
}

fn compared_actual(value: Option<&Value<'_>>) -> u64 {
    let Some(Value::List(list)) = value else { return allocated_actual(1, 2.0) };
    let size = list.len() as u64;
    let reads = matches!(list.get(0), Some(Ok(Value::String(_) | Value::Bytes(_))));
    allocated_actual(size.saturating_mul(size), if reads { 2.0 + TRAVERSAL } else { 2.0 })
}

fn slice<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (list, start, end) = (list(arguments, 0)?, int(arguments, 1)?, int(arguments, 2)?);
    let error = |reason: String| Err(Error::from(format!("cannot slice({start}, {end}), {reason}")));
    if start < 0 || end < 0 {
        return error("negative indexes not supported".to_owned());
    }
    if start > end {
        return error("start index must be less than or equal to end index".to_owned());
    }
    let (Ok(first), Ok(after)) = (usize::try_from(start), usize::try_from(end)) else {
        return error(format!("list is length {}", list.len()));
    };
    if list.len() < after {
        return error(format!("list is length {}", list.len()));
    }
    check_list(after - first)?;
    let items: Result<Vec<Value<'a>>> = list.iter().skip(first).take(after - first).collect();
    Ok(Value::list(items?))
}

fn flatten<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (list, depth) = match arguments {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        _ => {
            let types: Vec<String> =
                arguments.iter().map(|argument| argument.type_of().to_string()).collect();
            let (receiver, rest) = types.split_first().ok_or(Error::no_such_overload())?;
            return Err(format!("no such overload: {receiver}.flatten({})", rest.join(", ")).into());
        }
    };
    if depth < 0 {
        return Err(Error::new("level must be non-negative"));
    }
    let mut items = Vec::new();
    // The depth that remains, and the values that follow. No recursion: lists can be nested deeply.
    let mut pending: Vec<(i64, Value<'a>)> = Vec::new();
    push_reversed(&mut pending, list, depth)?;
    while let Some((depth, value)) = pending.pop() {
        work::spend(1)?;
        match value {
            Value::List(nested) if depth > 0 => push_reversed(&mut pending, &nested, depth - 1)?,
            value => {
                check_list(items.len())?;
                items.push(value);
            }
        }
    }
    Ok(Value::list(items))
}

/// Adds the items of a list so that the first is taken next.
fn push_reversed<'a>(pending: &mut Vec<(i64, Value<'a>)>, list: &List<'a>, depth: i64) -> Result<()> {
    check_list(pending.len().saturating_add(list.len()))?;
    let start = pending.len();
    for item in list.iter() {
        pending.push((depth, item?));
    }
    pending[start..].reverse();
    Ok(())
}

fn sort<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let list = list(arguments, 0).map_err(|_| Error::new("no such overload: sort"))?;
    sorted(list, list)
}

fn sort_by_keys<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    sorted(list(arguments, 0)?, list(arguments, 1)?)
}

/// The items of a list in the order of their keys.
fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Result<Value<'a>> {
    if list.len() != keys.len() {
        return Err(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )
        .into());
    }
    if list.len() > MAX_COMPARED {
        return Err(Error::Cancelled);
    }
    let keys = keys.iter().collect::<Result<Vec<Value<'a>>>>()?;
    let items = list.iter().collect::<Result<Vec<Value<'a>>>>()?;
    let Some(first) = keys.first() else { return Ok(Value::List(list.clone())) };
    if !is_comparable(first) {
        return Err(Error::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != first.type_name()) {
        return Err(Error::new("list elements must have the same type"));
    }
    let mut order: Vec<usize> = (0..keys.len()).collect();
    // Not `slice::sort_by`: NaN makes the order inconsistent, which that may punish with a panic.
    for end in 1..order.len() {
        let at = insertion_point(&order[..end], &keys, &keys[order[end]]);
        order[at..=end].rotate_right(1);
    }
    Ok(Value::list(order.into_iter().map(|index| items[index].clone()).collect::<Vec<_>>()))
}

/// The position in sorted keys behind all that are not greater than a key.
///
/// Short lists are searched from their end, as upstream does: that decides where keys without an order go.
fn insertion_point(order: &[usize], keys: &[Value<'_>], key: &Value<'_>) -> usize {
    let is_less = |a: &Value<'_>, b: &Value<'_>| compare(a, b).is_ok_and(|order| order.is_lt());
    if order.len() < 12 {
        let greater = order.iter().rev().take_while(|index| is_less(key, &keys[**index])).count();
        return order.len() - greater;
    }
    order.partition_point(|index| !is_less(key, &keys[*index]))
}

fn range<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    match int(arguments, 0)? {
        count if count < 0 => Err(format!("lists.range: size must be non-negative, got {count}").into()),
        count if count > MAX_RANGE => {
            Err(format!("lists.range: size {count} exceeds maximum allowed ({MAX_RANGE})").into())
        }
        count => Ok(Value::list((0..count).map(Value::Int).collect::<Vec<_>>())),
    }
}

fn reverse<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let list = list(arguments, 0)?;
    check_list(list.len())?;
    let mut items = list.iter().collect::<Result<Vec<Value<'a>>>>()?;
    items.reverse();
    Ok(Value::list(items))
}

fn any_equal<'a>(items: &[Value<'a>], item: &Value<'a>) -> Result<bool> {
    for known in items {
        if equal(item, known).or_else(Error::unless_cancelled)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Keeps the first of equal items. Errors of comparisons count as differences.
fn distinct<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let list = list(arguments, 0)?;
    if list.len() > MAX_COMPARED {
        return Err(Error::Cancelled);
    }
    let mut unique: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        if !any_equal(&unique, &item)? {
            unique.push(item);
        }
    }
    Ok(Value::list(unique))
}
