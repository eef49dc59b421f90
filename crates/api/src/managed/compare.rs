//! The differences between two objects of a type.
//!
//! Invariants: an added or removed subtree contributes every path in it, including those on the way; an
//! item that occurs twice in a keyed list or set is one value together with its duplicates. Equal subtrees
//! cost one comparison.

use std::cmp::Ordering;

use super::element::{Element, order};
use super::set::{Node, Set};
use super::shape::{Items, Shape};
use crate::schema::{Kind, Struct};
use crate::value::{Map, Str, Value};

/// From this number of changed items on they are matched by sorting.
const FEW_ITEMS: usize = 8;

/// The differences between two objects.
#[derive(Debug, Default)]
pub(super) struct Comparison {
    /// Added or given another value.
    pub(super) changed: Set,
    pub(super) removed: Set,
}

/// Compares two objects. An error names the list whose items have no unique keys.
pub(super) fn compare(old: &Value, new: &Value, schema: &Struct) -> Result<Comparison, String> {
    let mut found = Found::default();
    let empty = Map::new();
    let (old, new) = (old.as_object().unwrap_or(&empty), new.as_object().unwrap_or(&empty));
    members(old, new, Shape::Struct(schema), &mut found)?;
    Ok(Comparison { changed: found.changed, removed: found.removed })
}

/// A new object of a type before any field is set: creation is compared with it.
pub(super) fn zero_object(schema: &Struct) -> Value {
    let kept = schema.fields.iter().filter(|f| f.keep);
    Value::Object(kept.map(|f| (f.name.clone(), zero(&f.kind, f.pointer))).collect())
}

pub(super) fn zero(kind: &Kind, pointer: bool) -> Value {
    match kind {
        _ if pointer => Value::Null,
        Kind::String => Value::String(Str::new_static("")),
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => Value::Int(0),
        Kind::Quantity => Value::String(Str::new_static("0")),
        Kind::Struct(schema) => zero_object(schema),
        _ => Value::Null,
    }
}

/// Returns true if upstream considers two values equal.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    a == b || order(a, b) == Ordering::Equal
}

/// The differences at and below one place.
#[derive(Default)]
struct Found {
    is_changed: bool,
    is_removed: bool,
    changed: Set,
    removed: Set,
}

impl Found {
    /// Adds the differences of a place one step down.
    fn add(&mut self, below: Found, element: impl FnOnce() -> Element) {
        let changed = below.is_changed || !below.changed.is_empty();
        let removed = below.is_removed || !below.removed.is_empty();
        if !changed && !removed {
            return;
        }
        let element = element();
        if removed {
            let element = element.clone();
            self.removed.nodes.push(Node { element, member: below.is_removed, children: below.removed });
        }
        if changed {
            self.changed.nodes.push(Node { element, member: below.is_changed, children: below.changed });
        }
    }

    fn leaf(&mut self, old: Option<&Value>, new: Option<&Value>) {
        match (old, new) {
            (_, None) => self.is_removed = true,
            (None, _) => self.is_changed = true,
            (Some(old), Some(new)) => self.is_changed |= !same(old, new),
        }
    }
}

/// Compares the values at one place. At least one of them exists, and they are not trivially equal.
fn place(old: Option<&Value>, new: Option<&Value>, shape: Shape<'_>) -> Result<Found, String> {
    let mut found = Found::default();
    match (old, new) {
        (None, Some(new)) => {
            return Ok(Found { is_changed: true, changed: everything(new, shape)?, ..found });
        }
        (Some(old), None) => {
            return Ok(Found { is_removed: true, removed: everything(old, shape)?, ..found });
        }
        _ => {}
    }
    match shape {
        Shape::Leaf(_) => found.leaf(old, new),
        Shape::Struct(_) | Shape::Map(_) => objects(old, new, shape, &mut found)?,
        Shape::List(items) => lists(old, new, items, &mut found)?,
        Shape::Deduced => deduced(old, new, &mut found)?,
    }
    Ok(found)
}

/// All paths below a place that was added or removed as a whole.
pub(super) fn everything(value: &Value, shape: Shape<'_>) -> Result<Set, String> {
    let node = |element, children| Node { element, member: true, children };
    let nodes = match (shape, value) {
        (Shape::Struct(_) | Shape::Map(_) | Shape::Deduced, Value::Object(map)) => {
            let mut nodes = Vec::with_capacity(map.len());
            for (key, value) in map.iter() {
                nodes.push(node(Element::Field(key.clone()), everything(value, shape.member(key).0)?));
            }
            nodes
        }
        (Shape::List(items), Value::Array(list)) => {
            let mut nodes: Vec<Node> = Vec::with_capacity(list.len());
            for item in list {
                let element = items.element(item)?;
                nodes.push(node(element, everything(item, Shape::of(items.item))?));
            }
            if !nodes.is_sorted_by(|a, b| a.element < b.element) {
                nodes.sort_by(|a, b| a.element.cmp(&b.element));
                nodes.dedup_by(|later, first| {
                    let double = later.element == first.element;
                    if double {
                        first.children = Set::new();
                    }
                    double
                });
            }
            nodes
        }
        _ => Vec::new(),
    };
    Ok(Set { nodes })
}

/// Marks a place with parts as added or removed, unless it is one value.
fn mark_added_or_removed(old: Option<&Value>, new: Option<&Value>, found: &mut Found) {
    found.is_changed |= old.is_none();
    found.is_removed |= new.is_none();
}

fn objects(
    old: Option<&Value>,
    new: Option<&Value>,
    shape: Shape<'_>,
    found: &mut Found,
) -> Result<(), String> {
    let empty = Map::new();
    let old_map = old.and_then(Value::as_object).unwrap_or(&empty);
    let new_map = new.and_then(Value::as_object).unwrap_or(&empty);
    if old_map.is_empty() && new_map.is_empty() {
        found.leaf(old, new);
        return Ok(());
    }
    members(old_map, new_map, shape, found)?;
    mark_added_or_removed(old, new, found);
    Ok(())
}

fn deduced(old: Option<&Value>, new: Option<&Value>, found: &mut Found) -> Result<(), String> {
    let is_map = |v: Option<&Value>| v.is_none_or(|v| matches!(v, Value::Object(_) | Value::Null));
    match (is_map(old), is_map(new)) {
        (true, true) => objects(old, new, Shape::Deduced, found),
        (false, false) => {
            found.leaf(old, new);
            Ok(())
        }
        // The kind of value changed: it is another value, and its members are added or removed.
        _ => {
            found.leaf(old, new);
            let map = |v: Option<&Value>| v.and_then(Value::as_object).cloned().unwrap_or_default();
            members(&map(old), &map(new), Shape::Deduced, found)
        }
    }
}

/// Walks two objects' members together: both are sorted.
fn members(old: &Map, new: &Map, shape: Shape<'_>, found: &mut Found) -> Result<(), String> {
    let mut olds = old.iter().peekable();
    let mut news = new.iter().peekable();
    loop {
        let order = match (olds.peek(), news.peek()) {
            (None, None) => return Ok(()),
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((a, _)), Some((b, _))) => a.as_str().cmp(b.as_str()),
        };
        let old = if order.is_le() { olds.next() } else { None };
        let new = if order.is_ge() { news.next() } else { None };
        let Some((key, _)) = old.or(new) else { return Ok(()) };
        let (old, new) = (old.map(|(_, v)| v), new.map(|(_, v)| v));
        if old == new {
            continue;
        }
        let below = place(old, new, shape.member(key).0)?;
        found.add(below, || Element::Field(key.clone()));
    }
}

fn lists(
    old: Option<&Value>,
    new: Option<&Value>,
    items: Items<'_>,
    found: &mut Found,
) -> Result<(), String> {
    let old_items = old.and_then(Value::as_array).unwrap_or_default();
    let new_items = new.and_then(Value::as_array).unwrap_or_default();
    if old_items.is_empty() && new_items.is_empty() {
        found.leaf(old, new);
        return Ok(());
    }
    if !in_place(old_items, new_items, items, found)? {
        matched(old_items, new_items, items, found)?;
    }
    found.changed.nodes.sort_by(|a, b| a.element.cmp(&b.element));
    found.removed.nodes.sort_by(|a, b| a.element.cmp(&b.element));
    mark_added_or_removed(old, new, found);
    Ok(())
}

/// The usual case, a few items changed in place; false if it is not that.
fn in_place(old: &[Value], new: &[Value], items: Items<'_>, found: &mut Found) -> Result<bool, String> {
    if old.len() != new.len() {
        return Ok(false);
    }
    let mut changed: Vec<usize> = Vec::new();
    for (i, (old, new)) in old.iter().zip(new).enumerate() {
        if old == new {
            continue;
        }
        if changed.len() == FEW_ITEMS || !items.same_item(old, new) {
            return Ok(false);
        }
        changed.push(i);
    }
    let alone = |i: &usize| {
        let others = new.iter().enumerate().filter(|(other, _)| other != i);
        others.map(|(_, item)| item).all(|item| !items.same_item(item, &new[*i]))
    };
    if !changed.iter().all(alone) {
        return Ok(false);
    }
    for i in changed {
        let element = items.element(&new[i])?;
        let below = place(Some(&old[i]), Some(&new[i]), Shape::of(items.item))?;
        found.add(below, || element);
    }
    Ok(true)
}

/// Pairs items by their keys.
fn matched(old: &[Value], new: &[Value], items: Items<'_>, found: &mut Found) -> Result<(), String> {
    let (olds, news) = (sorted(old, items)?, sorted(new, items)?);
    let (mut olds, mut news) = (olds.as_slice(), news.as_slice());
    loop {
        let element = match (olds.first(), news.first()) {
            (None, None) => return Ok(()),
            (Some(a), None) | (None, Some(a)) => &a.0,
            (Some(a), Some(b)) => (&a.0).min(&b.0),
        };
        let (old, more_olds) = olds.split_at(olds.partition_point(|(e, _)| e <= element));
        let (new, more_news) = news.split_at(news.partition_point(|(e, _)| e <= element));
        (olds, news) = (more_olds, more_news);
        found.add(item(old, new, Shape::of(items.item))?, || element.clone());
    }
}

type Item<'v> = (Element, &'v Value);

fn sorted<'v>(list: &'v [Value], items: Items<'_>) -> Result<Vec<Item<'v>>, String> {
    let each = list.iter().map(|item| Ok((items.element(item)?, item)));
    let mut out = each.collect::<Result<Vec<_>, String>>()?;
    out.sort_by(|a, b| a.0.cmp(&b.0));
    Ok(out)
}

/// Compares the items of one key in two lists: one item each, unless there are duplicates.
fn item(old: &[Item<'_>], new: &[Item<'_>], shape: Shape<'_>) -> Result<Found, String> {
    match (old, new) {
        ([(_, old)], [(_, new)]) if old == new => Ok(Found::default()),
        ([] | [_], [] | [_]) => place(old.first().map(|i| i.1), new.first().map(|i| i.1), shape),
        ([_, _, ..], [_, _, ..]) => {
            let equal = old.len() == new.len() && old.iter().zip(new).all(|(a, b)| same(a.1, b.1));
            Ok(Found { is_changed: !equal, ..Found::default() })
        }
        ([_, _, ..], _) => {
            let mut found = match new.first() {
                Some((_, new)) => place(None, Some(new), shape)?,
                None => Found::default(),
            };
            found.is_removed = true;
            Ok(found)
        }
        (_, [_, _, ..]) => {
            let mut found = match old.first() {
                Some((_, old)) => place(Some(old), None, shape)?,
                None => Found::default(),
            };
            found.is_changed = true;
            Ok(found)
        }
    }
}
