//! Lists as sets: `sets.contains`, `sets.equivalent`, `sets.intersects`.

use super::arguments::{declare, list};
use super::costs::{argument, size};
use crate::cost::{Estimate, Range};
use crate::declare::{Declaration, Library, Rules};
use crate::error::{Error, Result};
use crate::value::{List, Value};

pub const LIBRARY: Library = Library { declarations: DECLARATIONS, types: &[] };

const DECLARATIONS: &[Declaration] = &[
    declare("sets.contains", "list_sets_contains_list", "(list(T), list(T)) bool", contains).with_cost(ONCE),
    declare("sets.intersects", "list_sets_intersects_list", "(list(T), list(T)) bool", intersects)
        .with_cost(ONCE),
    declare("sets.equivalent", "list_sets_equivalent_list", "(list(T), list(T)) bool", equivalent)
        .with_cost(TWICE),
];

/// Compares all pairs of items once.
const ONCE: Rules =
    Rules { estimate: |call| Estimate::of(pairs(call, 1.0)), actual: |a, _| compared(a, 1.0) };

const TWICE: Rules =
    Rules { estimate: |call| Estimate::of(pairs(call, 2.0)), actual: |a, _| compared(a, 2.0) };

/// Pairs that a call compares at most. No cost limit allows as many.
const MAX_PAIRS: usize = 100_000_000;

fn pairs(call: &crate::cost::Call<'_>, factor: f64) -> Range {
    argument(call, 0).times(argument(call, 1)).scaled(factor).plus(Range::ONE)
}

fn compared(arguments: &[Value<'_>], factor: f64) -> u64 {
    let pairs = size(arguments, 0).wrapping_mul(size(arguments, 1));
    ((pairs as f64 * factor) as u64).saturating_add(1)
}

fn operands<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>)> {
    let (a, b) = (list(arguments, 0)?, list(arguments, 1)?);
    if a.len().saturating_mul(b.len()) > MAX_PAIRS {
        return Err(Error::Cancelled);
    }
    Ok((a, b))
}

fn contains_all<'a>(list: &List<'a>, items: &List<'a>) -> Result<bool> {
    for item in items.iter() {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (list, items) = operands(arguments)?;
    Ok(contains_all(list, items)?.into())
}

fn equivalent<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (a, b) = operands(arguments)?;
    Ok((contains_all(a, b)? && contains_all(b, a)?).into())
}

/// Errors of comparisons count as differences.
fn intersects<'a>(arguments: &[Value<'a>]) -> Result<Value<'a>> {
    let (a, b) = operands(arguments)?;
    for item in a.iter() {
        if b.contains(&item?).is_ok_and(|found| found) {
            return Ok(true.into());
        }
    }
    Ok(false.into())
}
