//! Types from the view of field management: single values, values with parts, and the keys of a list's
//! items.
//!
//! Invariants: atomic lists, maps and structs are leaves, as are embedded objects. The shape of free-form JSON
//! follows from the value: objects have parts, lists do not.

use super::compare;
use super::element::Element;
use crate::schema::{AnyForm, Field, Kind, ListTopology, MapTopology, StatedTopology, Struct};
use crate::value::{Str, Value};

#[derive(Clone, Copy)]
pub(super) enum Shape<'s> {
    /// One value.
    Leaf(&'s Kind),
    Struct(&'s Struct),
    /// Each key is a field of its own.
    Map(&'s Kind),
    /// Determined by the value.
    Deduced,
    List(Items<'s>),
}

/// The items of a list that are owned one by one.
#[derive(Clone, Copy)]
pub(super) struct Items<'s> {
    pub(super) item: &'s Kind,
    /// None for a set.
    pub(super) keys: &'s [Str],
}

static FREE_FORM: Kind = Kind::Any(AnyForm::Free);

impl<'s> Shape<'s> {
    pub(super) fn of(kind: &'s Kind) -> Shape<'s> {
        match kind {
            Kind::Struct(schema) if !schema.atomic => Shape::Struct(schema),
            Kind::Map(item, MapTopology::Granular) => Shape::Map(item),
            Kind::List(item, ListTopology::Set) => Shape::List(Items { item, keys: &[] }),
            Kind::List(item, ListTopology::Map(keys)) => Shape::List(Items { item, keys }),
            Kind::Any(_) => Shape::Deduced,
            _ => Shape::Leaf(kind),
        }
    }

    /// The type of a field, which may state another topology than its type.
    pub(super) fn of_field(field: &'s Field) -> Shape<'s> {
        match (&field.kind, field.openapi.topology) {
            (Kind::Struct(schema), StatedTopology::Map(MapTopology::Granular)) => Shape::Struct(schema),
            (kind, _) => Shape::of(kind),
        }
    }

    /// The type of a member, and whether the type names it.
    pub(super) fn member(self, name: &str) -> (Shape<'s>, bool) {
        match self {
            Shape::Struct(schema) => match schema.field(name) {
                Some(field) => (Shape::of_field(field), true),
                None => (Shape::Deduced, false),
            },
            Shape::Map(item) => (Shape::of(item), false),
            _ => (Shape::Deduced, false),
        }
    }

    /// The type at the end of a step, if the step is valid here.
    pub(super) fn below(self, step: &Element) -> Option<Shape<'s>> {
        match (self, step) {
            (Shape::Struct(_) | Shape::Map(_) | Shape::Deduced, Element::Field(name)) => {
                Some(self.member(name).0)
            }
            (Shape::List(items), Element::Key(_) | Element::Value(_)) => Some(Shape::of(items.item)),
            _ => None,
        }
    }

    /// Returns true if such a value can have parts that are owned separately.
    pub(super) fn has_parts(self, value: &Value) -> bool {
        matches!(
            (self, value),
            (Shape::Struct(_) | Shape::Map(_) | Shape::Deduced, Value::Object(_))
                | (Shape::List(_), Value::Array(_))
        )
    }

    /// The shape of free-form JSON: an object has members, anything else is one value.
    pub(super) fn deduce(self, value: &Value) -> Shape<'s> {
        match (self, value) {
            (Shape::Deduced, Value::Object(_) | Value::Null)
            | (Shape::Struct(_) | Shape::Map(_) | Shape::List(_) | Shape::Leaf(_), _) => self,
            (Shape::Deduced, _) => Shape::Leaf(&FREE_FORM),
        }
    }
}

impl Items<'_> {
    /// The key of an item; an error says why there is none.
    pub(super) fn element(&self, item: &Value) -> Result<Element, String> {
        if self.keys.is_empty() {
            return match item {
                Value::Object(_) | Value::Raw(_) => {
                    Err("associative list without keys has an element that's a map type".to_owned())
                }
                Value::Array(_) => Err("not supported: associative list with lists as elements".to_owned()),
                Value::Null => {
                    Err("associative list without keys has an element that's an explicit null".to_owned())
                }
                scalar => Ok(Element::Value(scalar.clone())),
            };
        }
        let map = match item {
            Value::Object(map) => map,
            Value::Null => {
                return Err("associative list with keys may not have a null element".to_owned());
            }
            _ => return Err("associative list with keys may not have non-map elements".to_owned()),
        };
        let mut key: Vec<(Str, Value)> = Vec::with_capacity(self.keys.len());
        for name in self.keys {
            if let Some(value) = map.get(name).cloned().or_else(|| self.default_of(name)) {
                key.push((name.clone(), value));
            }
        }
        if key.is_empty() {
            let keys: Vec<String> = self.keys.iter().map(|k| format!("{k:?}")).collect();
            return Err(format!(
                "associative list with keys has an element that omits all key fields [{}] (and doesn't have default values for any key fields)",
                keys.join(" ")
            ));
        }
        key.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(Element::Key(key.into_boxed_slice()))
    }

    /// The value of a key that an item leaves out; a field that is always present is zero.
    fn default_of(&self, name: &str) -> Option<Value> {
        let Kind::Struct(schema) = self.item else { return None };
        let field = schema.field(name)?;
        let is_zero = (field.keep && !field.pointer) || field.openapi.empty_default;
        let zero = || is_zero.then(|| compare::zero(&field.kind, false));
        field.default.clone().or_else(zero)
    }

    /// Returns true if two items certainly have the same key; a set's items if they are equal.
    pub(super) fn same_item(&self, a: &Value, b: &Value) -> bool {
        !self.keys.is_empty() && self.keys.iter().all(|k| a.get(k) == b.get(k))
    }
}
