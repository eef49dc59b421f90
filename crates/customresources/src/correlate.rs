//! Correlation of an object's values with those of its previous state, for ratcheting and transition rules.
//!
//! Fields correlate by name if the schema knows them, items of lists of the type `map` by their keys, and no other
//! items. Two values are equal if their correlated parts are, so the order of such items does not matter.

use std::collections::HashMap;

use corten_api::Value;

use crate::schema::{ListType, Node, Type};

/// The items of an old list by their keys.
pub(crate) struct OldItems<'v> {
    items: HashMap<String, &'v Value>,
}

impl<'v> OldItems<'v> {
    /// None if the list is not of the type `map`.
    pub(crate) fn new(node: &Node, old: &'v Value) -> Option<OldItems<'v>> {
        let old = old.as_array().filter(|_| node.list_type == ListType::Map)?;
        let mut items = HashMap::with_capacity(old.len());
        if node.kind == Type::Array && !node.list_map_keys.is_empty() {
            for item in old {
                if let Some(key) = composite_key(node, item) {
                    // Of equal keys, the first counts.
                    items.entry(key).or_insert(item);
                }
            }
        }
        Some(OldItems { items })
    }

    /// The old item with the key of a new one.
    pub(crate) fn find(&self, node: &Node, item: &Value) -> Option<&'v Value> {
        self.items.get(&composite_key(node, item)?).copied()
    }
}

/// The keys of an item as one text; none if one is absent or no scalar. Values of different kinds differ.
fn composite_key(node: &Node, item: &Value) -> Option<String> {
    let map = item.as_object()?;
    let mut out = String::new();
    for key in &node.list_map_keys {
        match map.get(key)? {
            value @ (Value::Bool(_) | Value::Int(_) | Value::String(_)) => {
                out.push_str(&corten_api::json::write_to_string(value));
            }
            // A float that is integral does not equal the integer.
            Value::Float(number) => out.push_str(&format!("f{number:?}")),
            _ => return None,
        }
        out.push('\0');
    }
    Some(out)
}

/// The old value of a field, and its schema; none if they do not correlate.
pub(crate) fn old_field<'v>(node: &Node, old: Option<&'v Value>, key: &str) -> Option<&'v Value> {
    let old = old?.as_object()?.get(key)?;
    node.field(key).map(|_| old)
}

/// Returns true if all correlated parts of two values are equal, and they have no others.
pub(crate) fn is_unchanged(node: &Node, new: &Value, old: &Value) -> bool {
    match (new, old) {
        (Value::Array(new_items), Value::Array(old_items)) => {
            if new_items.len() != old_items.len() {
                return false;
            }
            match OldItems::new(node, old) {
                None => new == old,
                Some(items) => {
                    let Some(item_node) = &node.items else { return new_items.is_empty() };
                    new_items.iter().all(|item| {
                        items.find(node, item).is_some_and(|old| is_unchanged(item_node, item, old))
                    })
                }
            }
        }
        (Value::Object(new_map), Value::Object(old_map)) => {
            new_map.len() == old_map.len()
                && new_map.iter().all(|(key, value)| match (old_map.get(key), node.field(key)) {
                    (Some(old), Some(inner)) => is_unchanged(inner, value, old),
                    _ => false,
                })
        }
        _ => new == old,
    }
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;
    use crate::Schema;

    const SCHEMA: &str = r#"{"type":"object","properties":{
        "map":{"type":"array","x-kubernetes-list-type":"map","x-kubernetes-list-map-keys":["k"],"items":{"type":"object","properties":{"k":{"type":"string"},"v":{"type":"integer"}}}},
        "list":{"type":"array","items":{"type":"integer"}},"free":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}"#;

    #[track_caller]
    fn check(new: &str, old: &str, expected: bool) {
        let parse = |text: &str| json::parse(text.as_bytes()).unwrap();
        let schema = Schema::compile(&parse(SCHEMA)).unwrap();
        assert_eq!(is_unchanged(schema.root(), &parse(new), &parse(old)), expected, "{new} {old}");
    }

    #[test]
    fn equality_follows_correlation() {
        check(r#"{"map":[{"k":"a"},{"k":"b"}]}"#, r#"{"map":[{"k":"b"},{"k":"a"}]}"#, true);
        check(r#"{"map":[{"k":"a","v":1}]}"#, r#"{"map":[{"k":"a","v":2}]}"#, false);
        check(r#"{"list":[1,2]}"#, r#"{"list":[1,2]}"#, true);
        check(r#"{"list":[1,2]}"#, r#"{"list":[2,1]}"#, false);
        check(r#"{"list":[1]}"#, r#"{"list":[1.0]}"#, false);
        // A field without a schema does not correlate.
        check(r#"{"free":{"a":1}}"#, r#"{"free":{"a":1}}"#, false);
        check(r#"{"free":{}}"#, r#"{"free":{}}"#, true);
    }
}
