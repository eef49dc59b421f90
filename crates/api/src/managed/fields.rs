//! The fields that an object mentions, and the object without some of them.
//!
//! Invariants: struct fields on the way are not mentioned; keys of maps and items of
//! lists are, besides their content. Removing everything from a list or map leaves null, which decoding
//! then drops or keeps as the type requires.

use super::element::Element;
use super::set::{Node, Set};
use super::shape::{Items, Shape};
use crate::schema::Struct;
use crate::value::{Map, Value};

/// Every leaf and item that an object mentions.
pub(super) fn field_set(object: &Value, schema: &Struct) -> Set {
    level(object, Shape::Struct(schema)).0
}

/// The paths below a place, and true if the place itself is one value.
fn level(value: &Value, shape: Shape<'_>) -> (Set, bool) {
    match (shape.deduce(value), value) {
        (Shape::Leaf(_), _) => (Set::new(), true),
        (Shape::List(items), Value::Array(list)) => (list_items(list, items), false),
        (Shape::Struct(_) | Shape::Map(_) | Shape::Deduced, Value::Object(map)) => {
            (members(map, shape), false)
        }
        _ => (Set::new(), false),
    }
}

fn members(map: &Map, shape: Shape<'_>) -> Set {
    let mut nodes = Vec::with_capacity(map.len());
    for (key, value) in map.iter() {
        let (below, named) = shape.member(key);
        let (children, leaf) = level(value, below);
        let empty = value.is_null() || value.as_object().is_some_and(Map::is_empty);
        let member = leaf || empty || !named;
        if member || !children.is_empty() {
            nodes.push(Node { element: Element::Field(key.clone()), member, children });
        }
    }
    Set { nodes }
}

fn list_items(list: &[Value], items: Items<'_>) -> Set {
    let mut nodes: Vec<Node> = Vec::with_capacity(list.len());
    for item in list {
        let Ok(element) = items.element(item) else { continue };
        let children = level(item, Shape::of(items.item)).0;
        nodes.push(Node { element, member: true, children });
    }
    nodes.sort_by(|a, b| a.element.cmp(&b.element));
    // An item that occurs twice is one value.
    nodes.dedup_by(|later, first| {
        let double = later.element == first.element;
        if double {
            first.children = Set::new();
        }
        double
    });
    Set { nodes }
}

/// The object without the fields and items of a set.
pub(super) fn without(object: &Value, gone: &Set, schema: &Struct) -> Value {
    remove(object, gone, Shape::Struct(schema))
}

fn remove(value: &Value, gone: &Set, shape: Shape<'_>) -> Value {
    match (shape.deduce(value), value) {
        (Shape::Leaf(_), Value::Array(_) | Value::Object(_)) => Value::Null,
        (Shape::Leaf(_), scalar) => scalar.clone(),
        (Shape::List(items), Value::Array(list)) => remove_items(list, gone, items),
        (Shape::Struct(_) | Shape::Map(_) | Shape::Deduced, Value::Object(map)) => {
            let mut out = Map::with_capacity(map.len());
            for (key, value) in map.iter() {
                let node = gone.find_field(key).ok().map(|at| &gone.nodes[at]);
                match node {
                    Some(node) if node.member => {}
                    Some(node) => {
                        out.insert(key.clone(), remove(value, &node.children, shape.member(key).0));
                    }
                    None => drop(out.insert(key.clone(), value.clone())),
                }
            }
            if out.is_empty() { Value::Null } else { Value::Object(out) }
        }
        _ => Value::Null,
    }
}

fn remove_items(list: &[Value], gone: &Set, items: Items<'_>) -> Value {
    let mut out = Vec::with_capacity(list.len());
    for item in list {
        let node = items.element(item).ok().and_then(|element| gone.node(&element));
        match node {
            Some(node) if node.member => {}
            Some(node) => out.push(remove(item, &node.children, Shape::of(items.item))),
            None => out.push(item.clone()),
        }
    }
    if out.is_empty() { Value::Null } else { Value::Array(out) }
}
