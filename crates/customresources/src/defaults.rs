//! Structural defaulting.
//!
//! A default is copied for an absent field, and for a null that the schema does not allow; its own fields are defaulted
//! like those of any other value. Defaults of list items within defaults multiply, so their total is bounded.

mod validate;

use corten_api::{Field, Str, Value};

use crate::metadata::{Malformed, coerce_node};
use crate::prune::prune_node;
use crate::schema::{Additional, Node, Schema};
pub use validate::{are_pruned, validate_defaults};

/// Maximum size of all defaults that one object receives, as JSON: more than can be stored.
const MAX_ADDED_BYTES: usize = 2 << 20;

/// Defaults would make the object larger than any that can be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TooLarge;

/// Sets the defaults of absent fields.
pub fn set_defaults(object: &mut Value, schema: &Schema) -> Result<(), TooLarge> {
    let mut defaulter = Defaulter { left: MAX_ADDED_BYTES };
    defaulter.value(object, schema.root())
}

struct Defaulter {
    left: usize,
}

impl Defaulter {
    fn value(&mut self, value: &mut Value, node: &Node) -> Result<(), TooLarge> {
        match value {
            Value::Object(map) => {
                for (name, property) in &node.properties {
                    let Some(default) = &property.default else { continue };
                    if map.get(name).is_none_or(|value| is_refused_null(value, property)) {
                        map.insert(name.clone(), self.copy(default)?);
                    }
                }
                let mut properties = node.in_order();
                for (key, value) in map.iter_mut() {
                    match (properties.property(key), node.additional.schema()) {
                        (Some(property), _) => self.value(value, property)?,
                        (None, Some(additional)) => self.item(value, additional)?,
                        (None, None) => {}
                    }
                }
            }
            Value::Array(items) => {
                let Some(node) = &node.items else { return Ok(()) };
                for item in items {
                    self.item(item, node)?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn item(&mut self, item: &mut Value, node: &Node) -> Result<(), TooLarge> {
        if let Some(default) = node.default.as_ref().filter(|_| is_refused_null(item, node)) {
            *item = self.copy(default)?;
        }
        self.value(item, node)
    }

    fn copy(&mut self, default: &Value) -> Result<Value, TooLarge> {
        self.left = self.left.checked_sub(encoded_size(default)).ok_or(TooLarge)?;
        Ok(default.clone())
    }
}

/// The size of a value as JSON, approximately.
fn encoded_size(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Int(_) | Value::Float(_) => 5,
        Value::String(text) | Value::Raw(text) => text.len() + 3,
        Value::Array(items) => 3 + items.iter().map(encoded_size).sum::<usize>(),
        Value::Object(map) => {
            3 + map.iter().map(|(key, value)| key.len() + 3 + encoded_size(value)).sum::<usize>()
        }
    }
}

fn is_refused_null(value: &Value, node: &Node) -> bool {
    value.is_null() && !node.nullable
}

/// Removes fields that are null, may not be, and have no default.
pub fn prune_nulls(object: &mut Value, schema: &Schema) {
    prune_nulls_of(object, Some(schema.root()));
}

fn prune_nulls_of(value: &mut Value, node: Option<&Node>) {
    let Some(node) = node else { return };
    match value {
        Value::Object(map) => {
            let mut properties = node.in_order();
            map.retain(|key, value| {
                let field = properties.property(key).or_else(|| node.additional.schema());
                let is_dropped =
                    field.is_some_and(|node| is_refused_null(value, node) && node.default.is_none());
                if !is_dropped {
                    prune_nulls_of(value, field);
                }
                !is_dropped
            });
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| prune_nulls_of(item, node.items.as_deref()));
        }
        _ => {}
    }
}

/// A step from a schema to one within it.
enum Step {
    Field(Str),
    Item,
}

/// Prunes every default by the schema that it is part of, as fields of a resource.
pub(crate) fn prune_defaults(root: &mut Node) {
    let mut places = Vec::new();
    find_defaults(root, &mut Vec::new(), &mut places);
    for place in places {
        let Some(default) = default_at(root, &place).and_then(Option::take) else { continue };
        let pruned = pruned(*default, root, &place);
        if let Some(default) = default_at(root, &place) {
            *default = pruned.map(Box::new);
        }
    }
}

type Place = Vec<Step>;

/// The places of all defaults that pruning could change.
fn find_defaults(node: &Node, path: &mut Vec<Step>, places: &mut Vec<Place>) {
    let in_metadata =
        || path.iter().any(|step| matches!(step, Step::Field(name) if name.as_str() == "metadata"));
    let has_parts = |default: &Value| matches!(default, Value::Object(_) | Value::Array(_));
    if node.default.as_ref().is_some_and(|default| has_parts(default) || in_metadata()) {
        places.push(path.iter().map(Step::copy).collect());
    }
    let items = node.items.as_deref().map(|items| (Step::Item, items));
    let additional = node.additional.schema().map(|node| (Step::Field(Str::new_static("*")), node));
    let properties = node.properties.iter().map(|(name, node)| (Step::Field(name.clone()), node));
    for (step, inner) in items.into_iter().chain(additional).chain(properties) {
        path.push(step);
        find_defaults(inner, path, places);
        path.pop();
    }
}

impl Step {
    fn copy(&self) -> Step {
        match self {
            Step::Field(name) => Step::Field(name.clone()),
            Step::Item => Step::Item,
        }
    }
}

fn default_at<'n>(root: &'n mut Node, place: &Place) -> Option<&'n mut Option<Box<Value>>> {
    let mut node = root;
    for step in place {
        node = match step {
            Step::Item => node.items.as_deref_mut()?,
            Step::Field(name) => {
                match node.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)) {
                    Ok(i) => &mut node.properties.get_mut(i)?.1,
                    Err(_) => match &mut node.additional {
                        Additional::Schema(node) => node,
                        Additional::Absent | Additional::Bool(_) => return None,
                    },
                }
            }
        };
    }
    Some(&mut node.default)
}

/// A default after pruning the resource that has nothing but it.
fn pruned(default: Value, root: &Node, place: &Place) -> Option<Value> {
    let mut object = place.iter().rev().fold(default, |value, step| match step {
        Step::Field(name) => Value::Object([(name.clone(), value)].into_iter().collect()),
        Step::Item => Value::Array(vec![value]),
    });
    // Malformed metadata is dropped, so that there is no error.
    let _ = coerce_node(&mut object, root, true, &Field::ROOT, Malformed::Dropped, None);
    prune_node(&mut object, root, true, None);
    place.iter().try_fold(object, |value, step| match (step, value) {
        (Step::Field(name), Value::Object(mut map)) => map.remove(name),
        (Step::Item, Value::Array(items)) => items.into_iter().next(),
        _ => None,
    })
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    #[track_caller]
    fn check(schema: &str, object: &str, expected: &str) {
        let schema = Schema::compile(&json::parse(schema.as_bytes()).unwrap()).unwrap();
        let mut object = json::parse(object.as_bytes()).unwrap();
        prune_nulls(&mut object, &schema);
        set_defaults(&mut object, &schema).unwrap();
        assert_eq!(json::write_to_string(&object), expected);
    }

    #[test]
    fn defaults_of_defaults() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"object","default":{},"properties":{
            "b":{"type":"integer","default":1},"c":{"type":"array","default":[{},null],"items":{"type":"object","default":{"x":2},
            "properties":{"x":{"type":"integer","default":3}}}}}}}}"#;
        check(schema, "{}", r#"{"a":{"b":1,"c":[{"x":3},{"x":2}]}}"#);
        check(schema, r#"{"a":{"b":7,"c":[]}}"#, r#"{"a":{"b":7,"c":[]}}"#);
    }

    #[test]
    fn nulls() {
        let schema = r#"{"type":"object","properties":{
            "a":{"type":"string","default":"d"},"b":{"type":"string","nullable":true,"default":"d"},
            "c":{"type":"string"},"d":{"type":"object","additionalProperties":{"type":"string"}}}}"#;
        check(
            schema,
            r#"{"a":null,"b":null,"c":null,"d":{"k":null},"unknown":null}"#,
            r#"{"a":"d","b":null,"d":{},"unknown":null}"#,
        );
    }

    #[test]
    fn defaults_are_pruned_by_their_schema() {
        let schema = r#"{"type":"object","properties":{"a":{"type":"object","default":{"x":1,"y":{"z":2}},"properties":{
            "x":{"type":"integer"}}},"pod":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{
            "metadata":{"type":"object","default":{"labels":{"a":"b"},"name":5}}}}}}"#;
        check(schema, r#"{"pod":{}}"#, r#"{"a":{"x":1},"pod":{"metadata":{"labels":{"a":"b"}}}}"#);
    }

    #[test]
    fn defaults_that_multiply_are_refused() {
        let mut schema = String::from(r#"{"type":"string","default":"x"}"#);
        for _ in 0..8 {
            let items = ["{}"; 100].join(",");
            schema = format!(
                r#"{{"type":"object","properties":{{"a":{schema},"l":{{"type":"array","default":[{items}],"items":{schema}}}}}}}"#
            );
            if schema.len() > 300_000 {
                break;
            }
        }
        let schema = Schema::compile(&json::parse(schema.as_bytes()).unwrap()).unwrap();
        assert_eq!(set_defaults(&mut Value::object(), &schema), Err(TooLarge));
    }
}
