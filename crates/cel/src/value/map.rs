//! Maps: created by an expression, or objects of a request.
//!
//! Invariant: the keys of `Entries` are unique under the equality of keys of one type; lookups also find an equal
//! number of another type. Iteration is in the order of insertion, or the order of the object's keys.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use corten_api::Str;

use super::{Text, Value, tree};
use crate::error::Result;
use crate::schema::{Schema, escape};

#[derive(Clone, Debug)]
pub enum Map<'a> {
    Entries(Arc<Entries<'a>>),
    /// An object without a schema.
    Plain(&'a corten_api::Map),
    /// An object with its schema, which is that of the object.
    Typed(&'a corten_api::Map, &'a Schema),
}

/// A key of a map that an expression created.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of a double.
    Double(u64),
    String(Arc<str>),
    Duration(i64),
    Timestamp(i64, u32),
}

/// Beyond this number of entries a hash index finds keys.
const FEW: usize = 8;

/// Entries in the order of insertion.
#[derive(Clone, Debug, Default)]
pub struct Entries<'a> {
    entries: Vec<(Value<'a>, Value<'a>)>,
    index: HashMap<Key, usize>,
    /// The greatest depth of a value.
    depth: u32,
}

impl<'a> Entries<'a> {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth + 1
    }

    /// The position of a key of the same type.
    fn position(&self, key: &Value<'a>) -> Option<usize> {
        if self.entries.len() <= FEW {
            return self.entries.iter().position(|(known, _)| same_key(known, key));
        }
        self.index.get(&Key::of(key)?).copied()
    }

    /// Sets a key. Returns false if its type cannot be a key.
    pub fn insert(&mut self, key: Value<'a>, value: Value<'a>) -> bool {
        let Some(hashed) = Key::of(&key) else { return false };
        self.depth = self.depth.max(value.depth());
        if let Some(at) = self.position(&key) {
            self.entries[at].1 = value;
            return true;
        }
        self.entries.push((key, value));
        let length = self.entries.len();
        if length == FEW + 1 {
            self.index = self.keys().enumerate().filter_map(|(at, key)| Some((Key::of(key)?, at))).collect();
        } else if length > FEW {
            self.index.insert(hashed, length - 1);
        }
        true
    }

    /// Removes a key, if it is there.
    pub fn remove(&mut self, key: &Value<'a>) {
        if let Some(at) = self.position(key) {
            self.entries.remove(at);
            self.index.clear();
            let entries = std::mem::take(&mut self.entries);
            for (key, value) in entries {
                self.insert(key, value);
            }
        }
    }

    /// The value of a key, or of an equal number of another type.
    pub fn get(&self, key: &Value<'a>) -> Option<&Value<'a>> {
        if let Some(at) = self.position(key) {
            return Some(&self.entries[at].1);
        }
        let find = |key: Value<'a>| self.position(&key).map(|at| &self.entries[at].1);
        match key {
            Value::Double(d) => {
                let int = *d as i64;
                let uint = *d as u64;
                let as_int = (int as f64 == *d && in_int_range(*d)).then(|| find(Value::Int(int))).flatten();
                as_int.or_else(|| {
                    (uint as f64 == *d && in_uint_range(*d)).then(|| find(Value::Uint(uint))).flatten()
                })
            }
            Value::Int(i) => u64::try_from(*i).ok().and_then(|u| find(Value::Uint(u))),
            Value::Uint(u) => i64::try_from(*u).ok().and_then(|i| find(Value::Int(i))),
            _ => None,
        }
    }

    pub fn keys(&self) -> impl Iterator<Item = &Value<'a>> {
        self.entries.iter().map(|(key, _)| key)
    }
}

/// True if the double converts to an int without overflow.
pub(crate) fn in_int_range(d: f64) -> bool {
    d > i64::MIN as f64 && d < i64::MAX as f64
}

/// True if the double converts to an unsigned int without overflow.
pub(crate) fn in_uint_range(d: f64) -> bool {
    (0.0..u64::MAX as f64).contains(&d)
}

fn same_key(a: &Value<'_>, b: &Value<'_>) -> bool {
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a), Value::Int(b)) => a == b,
        (Value::Uint(a), Value::Uint(b)) => a == b,
        (Value::Double(a), Value::Double(b)) => a == b,
        (Value::String(a), Value::String(b)) => **a == **b,
        (Value::Duration(a), Value::Duration(b)) => a == b,
        (Value::Timestamp(a), Value::Timestamp(b)) => a.same_instant(*b),
        _ => false,
    }
}

impl Key {
    /// The key that a value is; `None` for types that cannot be keys.
    pub fn of(value: &Value<'_>) -> Option<Key> {
        Some(match value {
            Value::Null => Key::Null,
            Value::Bool(b) => Key::Bool(*b),
            Value::Int(i) => Key::Int(*i),
            Value::Uint(u) => Key::Uint(*u),
            // Both zeros are the same key.
            Value::Double(d) => Key::Double((d + 0.0).to_bits()),
            Value::String(text) => Key::String(match text {
                Text::Borrowed(text) => (*text).into(),
                Text::Shared(text) => text.clone(),
            }),
            Value::Duration(nanos) => Key::Duration(*nanos),
            Value::Timestamp(time) => Key::Timestamp(time.seconds, time.nanos),
            _ => return None,
        })
    }
}

impl<'a> Map<'a> {
    pub fn of(entries: Entries<'a>) -> Map<'a> {
        Map::Entries(Arc::new(entries))
    }

    pub fn len(&self) -> usize {
        match self {
            Map::Entries(entries) => entries.len(),
            Map::Plain(map) | Map::Typed(map, _) => map.len(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// True for the zero value: an empty map. Objects with a schema have none.
    pub(super) fn is_zero(&self) -> bool {
        !matches!(self, Map::Typed(..)) && self.is_empty()
    }

    /// The value of a key. A key of a wrong type is an error for an object with a schema and absent from all others.
    pub fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>> {
        match (self, key) {
            (Map::Typed(map, schema), Value::String(key)) => tree::field(map, schema, key),
            (Map::Typed(..), _) => Err(crate::error::Error::no_such_overload()),
            (Map::Entries(entries), _) => Ok(entries.get(key).cloned()),
            (Map::Plain(map), Value::String(key)) => Ok(map.get(key).map(tree::plain)),
            (Map::Plain(_), _) => Ok(None),
        }
    }

    /// The value of a text key.
    pub fn find_text(&self, key: &'a str) -> Result<Option<Value<'a>>> {
        match self {
            Map::Typed(map, schema) => tree::field(map, schema, key),
            Map::Plain(map) => Ok(map.get(key).map(tree::plain)),
            Map::Entries(_) => self.find(&Value::String(Text::Borrowed(key))),
        }
    }

    /// Keys and values. A value that contradicts its schema is an error; fields that the schema does not have are left
    /// out.
    pub fn iter<'m>(&'m self) -> Box<dyn Iterator<Item = (Value<'a>, Result<Value<'a>>)> + 'm> {
        match self {
            Map::Entries(entries) => {
                Box::new(entries.entries.iter().map(|(k, v)| (k.clone(), Ok(v.clone()))))
            }
            Map::Plain(map) => Box::new(map.iter().map(|(k, v)| (key_text(k, false), Ok(tree::plain(v))))),
            Map::Typed(map, schema) => {
                let schema: &'a Schema = schema;
                Box::new(map.iter().filter_map(move |(key, value)| {
                    let field = schema.value_of(key)?;
                    Some((key_text(key, schema.has_properties()), tree::typed(value, field)))
                }))
            }
        }
    }
}

fn key_text<'a>(key: &'a Str, escaped: bool) -> Value<'a> {
    match escaped.then(|| escape(key)).flatten() {
        Some(Cow::Owned(text)) => Value::text(text),
        _ => Value::String(Text::Borrowed(key)),
    }
}
