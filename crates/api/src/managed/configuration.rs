//! Apply configurations of mutating policies: merged like applied configurations, but without owners.
//!
//! A configuration must not contain atomic lists, maps or structs: they would replace all that the object has there.

use super::element::Element;
use super::merge::merge;
use super::shape::Shape;
use super::validate::{Duplicates, check_type};
use crate::schema::{Kind, Struct};
use crate::value::Value;

/// Merges a configuration into an object of a type. The error is upstream's.
pub fn merge_configuration(schema: &Struct, object: &Value, configuration: &Value) -> Result<Value, String> {
    check_type(schema, configuration, Duplicates::Refused)
        .map_err(|why| format!("failed to convert patch object to typed object: {why}"))?;
    let mut atomics = Atomics::default();
    atomics.place(configuration, Shape::Struct(schema));
    if !atomics.found.is_empty() {
        let found = atomics.found.join(", ");
        return Err(format!(
            "invalid ApplyConfiguration: may not mutate atomic arrays, maps or structs: {found}"
        ));
    }
    check_type(schema, object, Duplicates::Allowed)
        .map_err(|why| format!("failed to convert original object to typed object: {why}"))?;
    merge(object, configuration, schema).map_err(|why| format!("failed to merge patch: {why}"))
}

/// The paths of atomic values.
#[derive(Default)]
struct Atomics {
    path: Vec<Element>,
    found: Vec<String>,
}

/// Maximum number of paths that are reported.
const MAX_FOUND: usize = 100;

impl Atomics {
    fn report(&mut self) {
        if self.found.len() < MAX_FOUND {
            self.found.push(self.path.iter().map(Element::to_string).collect());
        }
    }

    fn place(&mut self, value: &Value, shape: Shape<'_>) {
        match (shape, value) {
            (Shape::Struct(schema), Value::Object(_)) => self.fields(value, schema),
            (Shape::List(items), Value::Array(list)) => self.items(list, items.item),
            (Shape::Deduced, Value::Array(_)) => self.report(),
            (Shape::Leaf(kind), _) => self.leaf(value, kind),
            _ => {}
        }
    }

    fn leaf(&mut self, value: &Value, kind: &Kind) {
        match (kind, value) {
            (Kind::Struct(schema), Value::Object(_)) => {
                self.report();
                self.fields(value, schema);
            }
            (Kind::List(item, _), Value::Array(list)) => {
                self.report();
                self.items(list, item);
            }
            (Kind::Map(..) | Kind::Raw | Kind::FieldsV1, Value::Object(_)) => self.report(),
            _ => {}
        }
    }

    fn fields(&mut self, value: &Value, schema: &Struct) {
        let Some(map) = value.as_object() else { return };
        for (key, value) in map.iter() {
            if let Some(field) = schema.field(key) {
                self.path.push(Element::Field(key.clone()));
                self.place(value, Shape::of_field(field));
                self.path.pop();
            }
        }
    }

    fn items(&mut self, list: &[Value], item: &Kind) {
        for (at, value) in list.iter().enumerate() {
            self.path.push(Element::Index(i64::try_from(at).unwrap_or_default()));
            self.place(value, Shape::of(item));
            self.path.pop();
        }
    }
}
