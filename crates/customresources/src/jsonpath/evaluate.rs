//! Evaluates templates.

use std::borrow::Cow;

use corten_api::{Value, go};

use super::compare::compare;
use super::{Bound, Filter, MissingKeys, Node};

/// Maximum number of values that one evaluation visits.
const MAX_STEPS: usize = 2_000_000;
/// Maximum number of ranges within each other.
const MAX_RANGES: usize = 64;

const NOT_FOUND: &str = " is not found";
const NOT_IN_RANGE: &str = "not in range, nothing to end";

/// A selected value, or one that the template itself contains.
#[derive(Debug, Clone, PartialEq)]
pub struct Found<'a>(pub Cow<'a, Value>);

impl<'a> Found<'a> {
    fn borrowed(value: &'a Value) -> Found<'a> {
        Found(Cow::Borrowed(value))
    }

    fn made(value: impl Into<Value>) -> Found<'a> {
        Found(Cow::Owned(value.into()))
    }
}

pub(super) fn find<'a>(
    nodes: &'a [Node],
    data: &'a Value,
    missing: MissingKeys,
) -> Result<Vec<Vec<Found<'a>>>, String> {
    let mut evaluator = Evaluator { missing, nodes, ..Evaluator::default() };
    evaluator.template(0, Found::borrowed(data))
}

struct Evaluator<'a> {
    missing: MissingKeys,
    nodes: &'a [Node],
    steps: usize,
    /// Ranges that begin with the current expression.
    beginning: usize,
    /// Ranges around the current expression.
    open: usize,
    /// Ends of ranges that are still to be applied.
    ending: usize,
    last_end: usize,
}

impl Default for Evaluator<'_> {
    fn default() -> Self {
        let missing = MissingKeys::Refused;
        Evaluator { missing, nodes: &[], steps: 0, beginning: 0, open: 0, ending: 0, last_end: 0 }
    }
}

type Values<'a> = Vec<Found<'a>>;

impl<'a> Evaluator<'a> {
    /// Evaluates the template from one of its parts up to the end of the current range.
    fn template(&mut self, from: usize, data: Found<'a>) -> Result<Vec<Values<'a>>, String> {
        let current = vec![data];
        let mut all = Vec::new();
        let mut i = from;
        while let Some(node) = self.nodes.get(i) {
            let results = self.walk(current.clone(), node)?;
            if self.ending > 0 && self.ending <= self.open {
                self.ending -= 1;
                self.last_end = i;
                break;
            }
            if self.beginning > 0 {
                self.beginning -= 1;
                self.range(i, results, &mut all)?;
                i = self.last_end.max(i);
            } else {
                all.push(results);
            }
            i += 1;
        }
        Ok(all)
    }

    /// Evaluates the parts after `{range}` for each of its values; without values once, to find its end.
    fn range(&mut self, at: usize, values: Values<'a>, all: &mut Vec<Values<'a>>) -> Result<(), String> {
        if self.open >= MAX_RANGES {
            return Err("too many nested ranges".to_owned());
        }
        self.open += 1;
        if values.is_empty() {
            self.template(at + 1, Found::made(Value::Null))?;
        }
        for value in values {
            let mut results = self.template(at + 1, value)?;
            all.append(&mut results);
        }
        self.open -= 1;
        Ok(())
    }

    fn count(&mut self, values: usize) -> Result<(), String> {
        self.steps += values + 1;
        if self.steps > MAX_STEPS { Err("the expression selects too many values".to_owned()) } else { Ok(()) }
    }

    fn list(&mut self, values: Values<'a>, nodes: &'a [Node]) -> Result<Values<'a>, String> {
        nodes.iter().try_fold(values, |values, node| self.walk(values, node))
    }

    fn walk(&mut self, values: Values<'a>, node: &'a Node) -> Result<Values<'a>, String> {
        self.count(values.len())?;
        let repeated = |value: Value| values.iter().map(|_| Found::made(value.clone())).collect();
        match node {
            Node::List(nodes) => self.list(values, nodes),
            Node::Text(text) => Ok(vec![Found::made(text.as_str())]),
            Node::Field(name) => self.field(values, name),
            Node::Slice(bounds) => self.slice(values, bounds),
            Node::Filter(filter) => self.filter(values, filter),
            Node::Int(number) => Ok(repeated(Value::Int(*number))),
            Node::Float(number) => Ok(repeated(Value::Float(*number))),
            Node::Bool(value) => Ok(repeated(Value::Bool(*value))),
            Node::Wildcard => Ok(values.iter().flat_map(parts).collect()),
            Node::Recursive => {
                let mut found = Vec::new();
                values.into_iter().try_for_each(|value| self.descend(value, &mut found))?;
                Ok(found)
            }
            Node::Union(lists) => {
                let mut found = Vec::new();
                for nodes in lists {
                    found.append(&mut self.list(values.clone(), nodes)?);
                }
                Ok(found)
            }
            Node::Identifier(name) => self.identifier(values, name),
        }
    }

    fn identifier(&mut self, values: Values<'a>, name: &str) -> Result<Values<'a>, String> {
        match name {
            "range" => {
                self.beginning += 1;
                Ok(values)
            }
            "end" if self.open > 0 => {
                self.ending += 1;
                Ok(Vec::new())
            }
            "end" => Err(NOT_IN_RANGE.to_owned()),
            name => Err(format!("unrecognized identifier {name}")),
        }
    }

    fn field(&mut self, values: Values<'a>, name: &str) -> Result<Values<'a>, String> {
        let is_empty = values.is_empty();
        let member = |value: Found<'a>| match value.0 {
            Cow::Borrowed(value) => value.get(name).map(Found::borrowed),
            Cow::Owned(value) => value.get(name).cloned().map(|member| Found(Cow::Owned(member))),
        };
        let found: Values<'a> = values.into_iter().filter_map(member).collect();
        if found.is_empty() && !is_empty && self.missing == MissingKeys::Refused {
            return Err(format!("{name}{NOT_FOUND}"));
        }
        Ok(found)
    }

    fn slice(&mut self, values: Values<'a>, bounds: &[Bound; 3]) -> Result<Values<'a>, String> {
        let mut found = Vec::new();
        for value in values {
            let items = match &value.0 {
                Cow::Borrowed(Value::Null) | Cow::Owned(Value::Null) => continue,
                Cow::Borrowed(Value::Array(items)) => items,
                other => return Err(format!("{} is not array or slice", go::type_name(other))),
            };
            let Some((start, end)) = range(bounds, items.len())? else { return Ok(found) };
            let step = match bounds[2] {
                Bound { is_known: true, value, .. } if value <= 0 => {
                    return Err("step must be > 0".to_owned());
                }
                Bound { is_known: true, value, .. } => usize::try_from(value).unwrap_or(usize::MAX),
                Bound { is_known: false, .. } => 1,
            };
            let items = items.get(start..end).unwrap_or_default();
            self.count(items.len())?;
            found.extend(items.iter().step_by(step).map(Found::borrowed));
        }
        Ok(found)
    }

    fn descend(&mut self, value: Found<'a>, found: &mut Values<'a>) -> Result<(), String> {
        let parts = parts(&value);
        self.count(parts.len())?;
        if parts.is_empty() {
            return Ok(());
        }
        found.push(value);
        parts.into_iter().try_for_each(|part| self.descend(part, found))
    }

    fn filter(&mut self, values: Values<'a>, filter: &'a Filter) -> Result<Values<'a>, String> {
        let mut found = Vec::new();
        for value in values {
            let Cow::Borrowed(Value::Array(items)) = value.0 else {
                let shown = go::plain(&value.0);
                return Err(format!("{shown} is not array or slice and cannot be filtered"));
            };
            for item in items {
                let item = Found::borrowed(item);
                if self.passes(&item, filter)? {
                    found.push(item);
                }
            }
        }
        Ok(found)
    }

    fn passes(&mut self, item: &Found<'a>, filter: &'a Filter) -> Result<bool, String> {
        let lefts = self.list(vec![item.clone()], &filter.left);
        if filter.operator == "exists" {
            return match lefts {
                Ok(lefts) => Ok(!lefts.is_empty()),
                Err(why) if self.steps > MAX_STEPS => Err(why),
                // Upstream ignores errors here and finds the values before them, of which a missing field leaves none.
                Err(why) => Ok(!why.ends_with(NOT_FOUND) && why != NOT_IN_RANGE),
            };
        }
        let Some(left) = only(lefts?)? else { return Ok(false) };
        let Some(right) = only(self.list(vec![item.clone()], &filter.right)?)? else { return Ok(false) };
        compare(&left.0, &filter.operator, &right.0)
    }
}

fn only(values: Values<'_>) -> Result<Option<Found<'_>>, String> {
    if values.len() > 1 {
        return Err("can only compare one element at a time".to_owned());
    }
    Ok(values.into_iter().next())
}

/// The members of an object, the items of a list, the bytes of a text.
fn parts<'a>(value: &Found<'a>) -> Values<'a> {
    match &value.0 {
        Cow::Borrowed(Value::Object(map)) => map.iter().map(|(_, value)| Found::borrowed(value)).collect(),
        Cow::Borrowed(Value::Array(items)) => items.iter().map(Found::borrowed).collect(),
        Cow::Borrowed(Value::String(text)) => text.bytes().map(|byte| Found::made(i64::from(byte))).collect(),
        Cow::Owned(Value::String(text)) => text.bytes().map(|byte| Found::made(i64::from(byte))).collect(),
        _ => Vec::new(),
    }
}

/// The start and end of a slice of a list; none for an empty one.
fn range(bounds: &[Bound; 3], length: usize) -> Result<Option<(usize, usize)>, String> {
    let length = i64::try_from(length).unwrap_or(i64::MAX);
    let mut start = if bounds[0].is_known { bounds[0].value } else { 0 };
    if start < 0 {
        start = start.saturating_add(length);
    }
    let mut end = if bounds[1].is_known { bounds[1].value } else { length };
    if end < 0 || (end == 0 && bounds[1].is_derived) {
        end = end.saturating_add(length);
    }
    let outside = |index: i64| Err(format!("array index out of bounds: index {index}, length {length}"));
    match (usize::try_from(start), usize::try_from(end)) {
        _ if start == end => Ok(None),
        _ if start >= length => outside(start),
        (Err(_), _) => outside(start),
        _ if end > length => outside(end - 1),
        (_, Err(_)) => outside(end.saturating_sub(1)),
        _ if start > end => Err(format!("starting index {start} is greater than ending index {end}")),
        (Ok(start), Ok(end)) => Ok(Some((start, end))),
    }
}
