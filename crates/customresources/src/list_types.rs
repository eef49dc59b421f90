//! Uniqueness in lists of the types `set` and `map`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Str, Value, json};

use crate::schema::{ListType, Node, Schema};

/// Validates that sets have no equal items and lists of the type `map` no items with the same keys.
pub fn validate(object: &Value, schema: &Schema, errors: &mut ErrorList) {
    if let Value::Object(map) = object {
        members(map, schema.root(), &Field::ROOT, errors);
    }
}

/// Returns true if all sets and maps of an object have unique items.
pub fn is_valid(object: &Value, schema: &Schema) -> bool {
    let mut errors = ErrorList::new();
    validate(object, schema, &mut errors);
    errors.is_empty()
}

fn value(value: &Value, node: &Node, at: &Field<'_>, errors: &mut ErrorList) {
    match value {
        Value::Array(items) => list(items, node, at, errors),
        Value::Object(map) => members(map, node, at, errors),
        _ => {}
    }
}

fn members(map: &Map, node: &Node, at: &Field<'_>, errors: &mut ErrorList) {
    if let Some(additional) = node.additional.schema() {
        map.iter().for_each(|(key, member)| value(member, additional, &at.key(key), errors));
    }
    let mut properties = node.in_order();
    for (key, member) in map.iter() {
        if let Some(property) = properties.property(key) {
            value(member, property, &at.child(key), errors);
        }
    }
}

fn list(items: &[Value], node: &Node, at: &Field<'_>, errors: &mut ErrorList) {
    match node.list_type {
        ListType::Set => {
            for i in repeated(items.iter().map(identity)) {
                errors.duplicate(at.index(i), &items[i]);
            }
        }
        ListType::Map => keyed(items, node, at, errors),
        ListType::Unset | ListType::Atomic => {}
    }
    if let Some(item_node) = &node.items {
        for (i, item) in items.iter().enumerate() {
            value(item, item_node, &at.index(i), errors);
        }
    }
}

/// The second occurrence of each value that occurs more than once.
fn repeated(identities: impl Iterator<Item = String>) -> Vec<usize> {
    let mut seen: HashMap<String, u32> = HashMap::new();
    let mut found = Vec::new();
    for (i, identity) in identities.enumerate() {
        match seen.entry(identity) {
            Entry::Vacant(entry) => drop(entry.insert(1)),
            Entry::Occupied(mut entry) => {
                *entry.get_mut() += 1;
                found.extend((*entry.get() == 2).then_some(i));
            }
        }
    }
    found
}

/// A text that only equal values share. Integers differ from floats as long as they are no part of another value.
fn identity(value: &Value) -> String {
    match value {
        Value::Float(number) => format!("f{number:?}"),
        other => json::write_to_string(other),
    }
}

fn keyed(items: &[Value], node: &Node, at: &Field<'_>, errors: &mut ErrorList) {
    let is_wrong = |item: &Value| !matches!(item, Value::Object(_) | Value::Null);
    if let Some(i) = items.iter().position(is_wrong) {
        errors.invalid(at.index(i), &items[i], "must be an object for an array of list-type map");
        return;
    }
    let keys: Vec<Value> =
        items.iter().map(|item| Value::Object(keys_of(item, &node.list_map_keys))).collect();
    let only_key = |item: &Value| item.get(&node.list_map_keys[0]).map_or_else(String::new, identity);
    let found = match node.list_map_keys.len() {
        1 => repeated(items.iter().map(only_key)),
        _ => repeated(keys.iter().map(identity)),
    };
    for i in found {
        errors.duplicate(at.index(i), &keys[i]);
    }
}

/// The keys that an item has.
fn keys_of(item: &Value, keys: &[Str]) -> Map {
    let value = |key: &Str| item.get(key).map(|value| (key.clone(), value.clone()));
    keys.iter().filter_map(value).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "set":{"type":"array","x-kubernetes-list-type":"set","items":{"type":"string"}},
        "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a","b"],"items":{"type":"object"}},
        "one":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["a"],"items":{"type":"object"}},
        "nested":{"type":"object","additionalProperties":{"type":"array","x-kubernetes-list-type":"set"}}}}"#;

    #[track_caller]
    fn check(object: &str, expected: &str) {
        let schema = Schema::compile(&json::parse(SCHEMA.as_bytes()).unwrap()).unwrap();
        let mut errors = ErrorList::new();
        validate(&json::parse(object.as_bytes()).unwrap(), &schema, &mut errors);
        assert_eq!(errors.summary(), expected, "{object}");
    }

    #[test]
    fn items_are_unique() {
        check(
            r#"{"set":["a","b","a","a","b"]}"#,
            r#"[set[2]: Duplicate value: "a", set[4]: Duplicate value: "b"]"#,
        );
        check(r#"{"set":[1,1.0,"1",{"a":1},{"a":1}]}"#, r#"set[4]: Duplicate value: {"a":1}"#);
        check(
            r#"{"map":[{"a":1},{"a":1,"b":2},{"b":2,"a":1,"c":3}]}"#,
            r#"map[2]: Duplicate value: {"a":1,"b":2}"#,
        );
        check(r#"{"one":[{},null,{"a":1}]}"#, "one[1]: Duplicate value: {}");
        check(
            r#"{"one":[{"a":1},3]}"#,
            "one[1]: Invalid value: 3: must be an object for an array of list-type map",
        );
        check(r#"{"nested":{"k":["a","a"]}}"#, r#"nested[k][1]: Duplicate value: "a""#);
    }
}
