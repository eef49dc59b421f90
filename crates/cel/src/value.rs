//! Values of expressions.
//!
//! A value borrows from the object it was read from and from the program that names it: selecting a field, comparing
//! and iterating copy nothing. Values that an expression creates are shared, so cloning is cheap for all of them.
//!
//! Objects from requests keep their schema (`List::Typed`, `Map::Typed`), because it decides how a text is read (date,
//! duration, bytes) and how lists compare and merge.

mod equality;
mod format;
mod list;
mod map;
mod object;
mod text;
pub mod time;
mod tree;

use std::any::Any;
use std::fmt;
use std::sync::Arc;

pub use equality::{compare, equal};
pub(crate) use format::double as format_double;
pub use list::{Growing, List};
pub use map::{Entries, Key, Map};
pub(crate) use map::{in_int_range, in_uint_range};
pub use object::{JSON_PATCH, Object};
pub use text::{Bytes, Text};
pub use time::Timestamp;
pub use tree::plain;

use crate::error::Result;
use crate::types::Type;

#[derive(Clone, Debug)]
pub enum Value<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Text<'a>),
    Bytes(Bytes<'a>),
    /// Nanoseconds.
    Duration(i64),
    Timestamp(Timestamp),
    List(List<'a>),
    Map(Map<'a>),
    Type(Arc<Type>),
    Optional(Option<Arc<Value<'a>>>),
    Opaque(Arc<dyn Opaque>),
    /// An object that a literal created.
    Object(Arc<Object<'a>>),
    /// Data of a field with unknown type: it can only be compared.
    Preserved(&'a corten_api::Value),
}

/// The limit of lists, maps and objects inside each other that expressions create: values are walked with recursion.
pub(crate) const MAX_DEPTH: u32 = 500;

/// The depth of something that contains values.
fn depth_around<'v, 'a: 'v>(values: impl Iterator<Item = &'v Value<'a>>) -> u32 {
    values.map(Value::depth).max().unwrap_or(0) + 1
}

/// A value that only the functions of a library look into, such as a URL or an authorizer.
pub trait Opaque: Any + Send + Sync + fmt::Debug {
    /// The name of its type.
    fn type_name(&self) -> &'static str;

    /// Compares with another opaque value, of any type; `None` if they cannot be compared, which is an error.
    fn equals(&self, other: &dyn Opaque) -> Option<bool>;

    /// The size that costs count; `None` for a value without a size, which costs as a size of 1.
    fn size(&self) -> Option<u64> {
        None
    }

    /// True if the value is the zero value of its type; `None` if its type has none.
    fn is_zero(&self) -> Option<bool> {
        None
    }
}

impl<'a> Value<'a> {
    /// A text that the expression created.
    pub fn text(text: impl Into<Arc<str>>) -> Value<'a> {
        Value::String(Text::Shared(text.into()))
    }

    pub fn bytes(bytes: impl Into<Arc<[u8]>>) -> Value<'a> {
        Value::Bytes(Bytes::Shared(bytes.into()))
    }

    pub fn list(items: impl Into<Arc<[Value<'a>]>>) -> Value<'a> {
        Value::List(List::of(items.into()))
    }

    pub fn some(value: Value<'a>) -> Value<'a> {
        Value::Optional(Some(Arc::new(value)))
    }

    pub fn opaque(value: impl Opaque) -> Value<'a> {
        Value::Opaque(Arc::new(value))
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_list(&self) -> Option<&List<'a>> {
        match self {
            Value::List(list) => Some(list),
            _ => None,
        }
    }

    pub fn as_map(&self) -> Option<&Map<'a>> {
        match self {
            Value::Map(map) => Some(map),
            _ => None,
        }
    }

    /// The opaque value, if it is of this Rust type.
    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Value::Opaque(value) => (&**value as &dyn Any).downcast_ref(),
            _ => None,
        }
    }

    /// The name of the type at run time.
    pub fn type_name(&self) -> &str {
        match self {
            Value::Null => "null_type",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Uint(_) => "uint",
            Value::Double(_) => "double",
            Value::String(_) => "string",
            Value::Bytes(_) => "bytes",
            Value::Duration(_) => "google.protobuf.Duration",
            Value::Timestamp(_) => "google.protobuf.Timestamp",
            Value::List(_) => "list",
            Value::Map(_) => "map",
            Value::Type(_) => "type",
            Value::Optional(_) => "optional_type",
            Value::Opaque(value) => value.type_name(),
            Value::Object(object) => &object.name,
            Value::Preserved(_) => "unknown",
        }
    }

    /// The type at run time, as `type()` gives it.
    pub fn type_of(&self) -> Type {
        match self {
            Value::List(_) => Type::list(Type::Dyn),
            Value::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Value::Type(_) => Type::Type(None),
            Value::Optional(_) => Type::optional(Type::Dyn),
            _ => Type::parse(self.type_name()),
        }
    }

    /// The size that costs count, and that `size()` gives for the types that have it.
    pub fn size(&self) -> Option<u64> {
        match self {
            Value::String(text) => Some(text.chars().count() as u64),
            Value::Bytes(bytes) => Some(bytes.len() as u64),
            Value::List(list) => Some(list.len() as u64),
            Value::Map(map) => Some(map.len() as u64),
            Value::Opaque(value) => value.size(),
            _ => None,
        }
    }

    /// The lists, maps and objects inside each other that expressions created. Trees of requests are limited when they are
    /// decoded.
    pub(crate) fn depth(&self) -> u32 {
        match self {
            Value::List(list) => list.depth(),
            Value::Map(Map::Entries(entries)) => entries.depth(),
            Value::Object(object) => object.depth(),
            Value::Optional(Some(inner)) => inner.depth() + 1,
            _ => 0,
        }
    }

    /// True for the zero value of a type that has one.
    pub fn is_zero(&self) -> bool {
        match self {
            Value::Null => true,
            Value::Bool(b) => !b,
            Value::Int(i) | Value::Duration(i) => *i == 0,
            Value::Uint(u) => *u == 0,
            Value::Double(d) => *d == 0.0,
            Value::String(text) => text.is_empty(),
            Value::Bytes(bytes) => bytes.is_empty(),
            Value::List(list) => list.is_zero(),
            Value::Map(map) => map.is_zero(),
            Value::Timestamp(time) => time.is_zero(),
            Value::Opaque(value) => value.is_zero().unwrap_or(false),
            Value::Object(object) => object.fields.is_empty() && &*object.name != JSON_PATCH,
            Value::Type(_) | Value::Optional(_) | Value::Preserved(_) => false,
        }
    }

    /// True if a declared argument type accepts this value at run time.
    ///
    /// Of aggregates only the first entry is looked at, as upstream does.
    pub fn has_type(&self, ty: &Type) -> bool {
        match ty {
            Type::Dyn | Type::Any | Type::Parameter(_) => true,
            Type::Wrapper(inner) => matches!(self, Value::Null) || self.has_type(inner),
            Type::List(item) => match self {
                Value::List(list) => {
                    list.iter().next().is_none_or(|first| first.is_ok_and(|v| v.has_type(item)))
                }
                _ => false,
            },
            Type::Map(pair) => match self {
                Value::Map(map) => map.iter().next().is_none_or(|(key, value)| {
                    key.has_type(&pair[0]) && value.is_ok_and(|value| value.has_type(&pair[1]))
                }),
                _ => false,
            },
            _ => self.type_name() == ty.name(),
        }
    }

    /// A value of an object tree without a schema.
    pub fn plain(value: &'a corten_api::Value) -> Value<'a> {
        plain(value)
    }

    /// A value of an object tree with its schema.
    pub fn typed(value: &'a corten_api::Value, schema: &'a crate::schema::Schema) -> Result<Value<'a>> {
        tree::typed(value, schema)
    }
}

impl From<bool> for Value<'_> {
    fn from(value: bool) -> Self {
        Value::Bool(value)
    }
}

impl From<i64> for Value<'_> {
    fn from(value: i64) -> Self {
        Value::Int(value)
    }
}

impl<'a> From<&'a str> for Value<'a> {
    fn from(value: &'a str) -> Self {
        Value::String(Text::Borrowed(value))
    }
}

impl From<String> for Value<'_> {
    fn from(value: String) -> Self {
        Value::text(value)
    }
}
