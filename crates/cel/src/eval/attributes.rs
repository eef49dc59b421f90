//! Attributes: variables and expressions with the fields and indexes that are read from them.
//!
//! Reading a variable costs 1, and so does each field or index. The variable is free where another node uses the
//! attribute itself rather than its value: as a branch of a conditional, or as an index.

use super::{Evaluator, Local, constant};
use crate::cost;
use crate::error::{Error, Result};
use crate::program::{Attribute, Node, NodeId, Qualifier, QualifierKey, Root, missing};
use crate::value::{List, Map, Text, Value};

/// The outcome of reading a field or index.
enum Read<'a> {
    Value(Value<'a>),
    Absent,
}

impl<'a> Evaluator<'_, 'a> {
    pub(super) fn attribute(&mut self, attribute: &'a Attribute) -> Result<Value<'a>> {
        let value = self.resolve(attribute);
        match attribute.root {
            // Upstream subtracts the cost of the variable from a presence test, even where there is none.
            Root::Conditional(..) if attribute.test => self.cost = self.cost.saturating_sub(cost::SELECT),
            // A conditional costs what its condition and the chosen branch cost.
            Root::Conditional(..) => {}
            // A presence test costs only what its operand costs.
            _ if attribute.test => {}
            _ => self.charge(cost::SELECT)?,
        }
        value
    }

    /// The value of an attribute without the cost of its variable.
    fn resolve(&mut self, attribute: &'a Attribute) -> Result<Value<'a>> {
        let root = match &attribute.root {
            Root::Variable(slot, name) => self.variables.get(*slot)?.ok_or_else(|| missing(name))?,
            Root::Field(slot, name) => {
                let value = self.variables.get(*slot);
                self.charge(cost::SELECT)?;
                value?.ok_or_else(|| missing(name))?
            }
            Root::Local(slot) => self.local(*slot)?,
            Root::Node(id) => self.eval(*id)?,
            Root::Conditional(condition, then, otherwise) => match self.eval(*condition)? {
                Value::Bool(true) => self.resolve_node(*then)?,
                Value::Bool(false) => self.resolve_node(*otherwise)?,
                _ => return Err(Error::no_such_overload()),
            },
        };
        if attribute.qualifiers.is_empty() {
            return Ok(if attribute.test { Value::Bool(true) } else { root });
        }
        self.qualify(root, &attribute.qualifiers, attribute.test)
    }

    /// The value of a node that is used as a part of another attribute.
    fn resolve_node(&mut self, id: NodeId) -> Result<Value<'a>> {
        match self.program.node(id) {
            Node::Attribute(attribute) => self.resolve(attribute),
            _ => self.eval(id),
        }
    }

    /// The value of a comprehension's variable.
    pub(super) fn local(&mut self, slot: usize) -> Result<Value<'a>> {
        if let Some(Local::Lazy(init)) = self.locals.get(slot) {
            let value = self.eval(*init);
            if let Some(local) = self.locals.get_mut(slot) {
                *local = Local::Value(value);
            }
        }
        match self.locals.get(slot) {
            Some(Local::Value(value)) => value.clone(),
            _ => Err(missing("")),
        }
    }

    fn qualify(&mut self, root: Value<'a>, qualifiers: &'a [Qualifier], test: bool) -> Result<Value<'a>> {
        let (mut value, mut optional) = match root {
            Value::Optional(None) if test => return Ok(Value::Bool(false)),
            Value::Optional(None) => return Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => (Value::clone(&inner), true),
            value => (value, false),
        };
        for (at, qualifier) in qualifiers.iter().enumerate() {
            optional |= qualifier.optional;
            let last = at + 1 == qualifiers.len();
            let read = self.read(&value, qualifier, optional || (test && last));
            let charged = match &read {
                Ok(Read::Value(_)) => true,
                Ok(Read::Absent) | Err(_) => !optional,
            };
            if charged {
                self.charge(cost::SELECT)?;
            }
            match read? {
                Read::Value(_) if test && last => return Ok(Value::Bool(true)),
                Read::Absent if test => return Ok(Value::Bool(false)),
                Read::Absent => return Ok(Value::Optional(None)),
                Read::Value(next) => value = next,
            }
        }
        Ok(if optional { Value::some(value) } else { value })
    }

    /// Reads a field or index. An absent one is an error unless `presence` is set.
    fn read(&mut self, value: &Value<'a>, qualifier: &'a Qualifier, presence: bool) -> Result<Read<'a>> {
        let found = match &qualifier.key {
            QualifierKey::Field(name) => read_field(value, name, presence)?,
            QualifierKey::Constant(key) => read_key(value, &constant(key), presence)?,
            QualifierKey::Node(id) => {
                let key = self.resolve_node(*id)?;
                if !is_qualifier(&key) {
                    return Err(unsupported_qualifier(&key));
                }
                read_key(value, &key, presence)?
            }
        };
        Ok(found.map_or(Read::Absent, Read::Value))
    }
}

/// True for values that can be a field name or an index.
pub(crate) fn is_qualifier(key: &Value<'_>) -> bool {
    matches!(key, Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::String(_))
}

/// The error of a value that can be neither.
pub(crate) fn unsupported_qualifier(key: &Value<'_>) -> Error {
    format!("invalid qualifier type: {}", go_type(key)).into()
}

fn read_field<'a>(value: &Value<'a>, name: &'a str, presence: bool) -> Result<Option<Value<'a>>> {
    match value {
        Value::Map(map) => match map.find_text(name)? {
            None if !presence => Err(format!("no such key: {name}").into()),
            found => Ok(found),
        },
        Value::Object(object) => object.read(name, presence),
        _ => read_key(value, &Value::String(Text::Borrowed(name)), presence),
    }
}

fn read_key<'a>(value: &Value<'a>, key: &Value<'a>, presence: bool) -> Result<Option<Value<'a>>> {
    match value {
        Value::Map(map) => match map.find(key)? {
            None if !presence => Err(format!("no such key: {key}").into()),
            found => Ok(found),
        },
        Value::List(list) => {
            let index = index_of(key)?;
            match usize::try_from(index).ok().filter(|index| *index < list.len()) {
                Some(_) if matches!(list, List::Typed(..)) && !matches!(key, Value::Int(_)) => {
                    Err(format!("unsupported index: {key}").into())
                }
                Some(index) => list.get(index).transpose(),
                None if presence => Ok(None),
                None => Err(format!("index out of bounds: {key}").into()),
            }
        }
        _ if presence => Ok(None),
        _ => Err(format!("no such key: {key}").into()),
    }
}

/// A number as the index of a list.
fn index_of(key: &Value<'_>) -> Result<i64> {
    let index = match key {
        Value::Int(i) => Some(*i),
        Value::Uint(u) => i64::try_from(*u).ok(),
        Value::Double(d) if crate::value::in_int_range(*d) && d.fract() == 0.0 => Some(*d as i64),
        Value::Double(_) => None,
        other => return Err(format!("unsupported index type '{}' in list", other.type_name()).into()),
    };
    index.ok_or_else(|| format!("unsupported index value {key} in list").into())
}

/// The name of a value's type in upstream's program, which some messages contain.
pub(super) fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Null => "types.Null",
        Value::Bool(_) => "types.Bool",
        Value::Int(_) => "types.Int",
        Value::Uint(_) => "types.Uint",
        Value::Double(_) => "types.Double",
        Value::String(_) => "types.String",
        Value::Bytes(_) => "types.Bytes",
        Value::Duration(_) => "types.Duration",
        Value::Timestamp(_) => "types.Timestamp",
        Value::List(List::Typed(..)) => "*common.unstructuredList",
        Value::List(List::Joined(_)) => "*types.concatList",
        Value::List(_) => "*types.baseList",
        Value::Map(Map::Typed(..)) => "*common.unstructuredMap",
        Value::Map(_) => "*types.baseMap",
        Value::Type(_) => "*types.Type",
        Value::Optional(_) => "*types.Optional",
        Value::Object(_) => "*dynamic.ObjectVal",
        Value::Opaque(_) | Value::Preserved(_) => "ref.Val",
    }
}
