//! The tree of an object while it is processed.
//!
//! Invariants: an object's keys are unique and sorted, so that equality is structural, lookups are
//! binary searches, and encoding the same object always gives the same bytes. Text is cheap to clone.
//! `Raw` holds compact JSON text that is not needed as a tree (`fieldsV1`); it is never nested in itself. Until an object is
//! conformed to its type, it also holds numbers that are neither `Int` nor `Float` (`json::parse_literally`).
//!
//! Trees are short-lived: objects are kept in memory in their encoded form (see `json`).

use std::fmt;

pub use crate::text::Str;

/// Consists of whole words, so that it is moved by words (see `text`).
#[derive(Clone, Debug, Default, PartialEq)]
#[repr(u64)]
pub enum Value {
    #[default]
    Null,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(Str),
    Array(Vec<Value>),
    Object(Map),
    /// Compact JSON, copied unchanged.
    Raw(Str),
}

/// A JSON object: unique keys in byte order.
#[derive(Clone, Default, PartialEq)]
pub struct Map(Vec<(Str, Value)>);

impl Map {
    pub const fn new() -> Self {
        Map(Vec::new())
    }

    pub fn with_capacity(capacity: usize) -> Self {
        Map(Vec::with_capacity(capacity))
    }

    /// The position of a key, or where it would be inserted.
    fn find(&self, key: &Str) -> Result<usize, usize> {
        self.0.binary_search_by(|(k, _)| k.cmp(key))
    }

    /// The position of a key. With few keys a linear scan is faster than a binary search.
    fn position(&self, key: &str) -> Option<usize> {
        const FEW: usize = 16;
        if self.0.len() <= FEW {
            // Short texts are compared as words, and nearly all keys are short.
            return match Str::short(key) {
                Some(key) => self.0.iter().position(|(k, _)| key == *k),
                None => self.0.iter().position(|(k, _)| k.is(key)),
            };
        }
        self.0.binary_search_by(|(k, _)| k.as_str().cmp(key)).ok()
    }

    pub fn get(&self, key: &str) -> Option<&Value> {
        self.position(key).map(|i| &self.0[i].1)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.position(key).map(|i| &mut self.0[i].1)
    }

    pub fn contains_key(&self, key: &str) -> bool {
        self.position(key).is_some()
    }

    /// Sets a key; returns its previous value, if any.
    pub fn insert(&mut self, key: impl Into<Str>, value: impl Into<Value>) -> Option<Value> {
        let (key, value) = (key.into(), value.into());
        if self.0.last().is_none_or(|(last, _)| *last < key) {
            self.0.push((key, value));
            return None;
        }
        match self.find(&key) {
            Ok(i) => Some(std::mem::replace(&mut self.0[i].1, value)),
            Err(i) => {
                self.0.insert(i, (key, value));
                None
            }
        }
    }

    pub fn remove(&mut self, key: &str) -> Option<Value> {
        self.position(key).map(|i| self.0.remove(i).1)
    }

    /// The value of `key`, inserted as `Null` if there is none.
    pub fn entry(&mut self, key: impl Into<Str>) -> &mut Value {
        let key = key.into();
        let i = match self.find(&key) {
            Ok(i) => i,
            Err(i) => {
                self.0.insert(i, (key, Value::Null));
                i
            }
        };
        &mut self.0[i].1
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (&Str, &Value)> + ExactSizeIterator {
        self.0.iter().map(|(k, v)| (k, v))
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = (&Str, &mut Value)> {
        self.0.iter_mut().map(|(k, v)| (&*k, v))
    }

    pub fn keys(&self) -> impl Iterator<Item = &Str> {
        self.0.iter().map(|(k, _)| k)
    }

    pub fn retain(&mut self, mut keep: impl FnMut(&Str, &mut Value) -> bool) {
        self.0.retain_mut(|(k, v)| keep(k, v));
    }

    /// Sets many keys at once, in any order; of equal ones the last wins. Setting them one by one would move
    /// the rest of the map for each.
    pub fn extend(&mut self, entries: impl IntoIterator<Item = (Str, Value)>) {
        let mut all = std::mem::take(&mut self.0);
        all.extend(entries);
        *self = Map::last_of_each(all);
    }

    /// Takes entries in the order of their keys, which must be unique.
    pub(crate) fn from_sorted(entries: Vec<(Str, Value)>) -> Self {
        Map(entries)
    }

    /// Takes entries in any order. `join` makes one value of those that have the same key, which are in order.
    pub(crate) fn from_unsorted(
        mut entries: Vec<(Str, Value)>,
        mut join: impl FnMut(&Str, Vec<Value>) -> Value,
    ) -> Self {
        if entries.is_sorted_by(|a, b| a.0 < b.0) {
            return Map::from_sorted(entries);
        }
        entries.sort_by(|a, b| a.0.cmp(&b.0));
        if entries.is_sorted_by(|a, b| a.0 < b.0) {
            return Map(entries);
        }
        let mut unique: Vec<(Str, Value)> = Vec::with_capacity(entries.len());
        let mut entries = entries.into_iter().peekable();
        while let Some((key, value)) = entries.next() {
            let mut values = vec![value];
            while let Some((_, repeated)) = entries.next_if(|next| next.0 == key) {
                values.push(repeated);
            }
            let value = match (values.len(), values.pop()) {
                (1, Some(only)) => only,
                (_, last) => {
                    values.extend(last);
                    join(&key, values)
                }
            };
            unique.push((key, value));
        }
        Map(unique)
    }

    /// Takes entries in any order. Of equal keys the last wins.
    fn last_of_each(entries: Vec<(Str, Value)>) -> Self {
        Map::from_unsorted(entries, |_, mut values| values.pop().unwrap_or_default())
    }
}

impl FromIterator<(Str, Value)> for Map {
    fn from_iter<T: IntoIterator<Item = (Str, Value)>>(iter: T) -> Self {
        Map::last_of_each(iter.into_iter().collect())
    }
}

impl IntoIterator for Map {
    type Item = (Str, Value);
    type IntoIter = std::vec::IntoIter<(Str, Value)>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.into_iter()
    }
}

impl fmt::Debug for Map {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

impl Value {
    pub fn object() -> Value {
        Value::Object(Map::new())
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::String(s) => Some(s),
            _ => None,
        }
    }

    pub fn as_int(&self) -> Option<i64> {
        match self {
            Value::Int(i) => Some(*i),
            _ => None,
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Value::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn as_array(&self) -> Option<&[Value]> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_array_mut(&mut self) -> Option<&mut Vec<Value>> {
        match self {
            Value::Array(items) => Some(items),
            _ => None,
        }
    }

    pub fn as_object(&self) -> Option<&Map> {
        match self {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    pub fn as_object_mut(&mut self) -> Option<&mut Map> {
        match self {
            Value::Object(map) => Some(map),
            _ => None,
        }
    }

    pub fn is_null(&self) -> bool {
        matches!(self, Value::Null)
    }

    /// A member of an object; `None` for anything else.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.as_object()?.get(key)
    }

    pub fn get_mut(&mut self, key: &str) -> Option<&mut Value> {
        self.as_object_mut()?.get_mut(key)
    }

    /// Follows object members; `None` as soon as one is missing.
    pub fn at(&self, path: &[&str]) -> Option<&Value> {
        path.iter().try_fold(self, |value, key| value.get(key))
    }

    pub fn str_at(&self, path: &[&str]) -> Option<&str> {
        self.at(path)?.as_str()
    }

    pub fn int_at(&self, path: &[&str]) -> Option<i64> {
        self.at(path)?.as_int()
    }

    pub fn bool_at(&self, path: &[&str]) -> Option<bool> {
        self.at(path)?.as_bool()
    }

    /// The items of the array at `path`; none if there is no array.
    pub fn items_at(&self, path: &[&str]) -> &[Value] {
        self.at(path).and_then(Value::as_array).unwrap_or_default()
    }

    /// This value as an object, replacing whatever else it was by an empty one.
    pub fn make_object(&mut self) -> &mut Map {
        if !matches!(self, Value::Object(_)) {
            *self = Value::object();
        }
        match self {
            Value::Object(map) => map,
            _ => unreachable!("made an object above"),
        }
    }

    /// This value as an array, replacing whatever else it was by an empty one.
    pub fn make_array(&mut self) -> &mut Vec<Value> {
        if !matches!(self, Value::Array(_)) {
            *self = Value::Array(Vec::new());
        }
        match self {
            Value::Array(items) => items,
            _ => unreachable!("made an array above"),
        }
    }

    /// Sets the value at a path, creating the objects on the way.
    pub fn set(&mut self, path: &[&str], value: impl Into<Value>) {
        let place = path.iter().fold(self, |place, key| place.make_object().entry(*key));
        *place = value.into();
    }

    /// Turns floats that are integers into integers, as reading the encoded text would.
    pub fn normalize_numbers(&mut self) {
        const LIMIT: f64 = 9_223_372_036_854_775_808.0;
        match self {
            #[expect(clippy::cast_possible_truncation, reason = "the bounds were checked")]
            Value::Float(float) if float.fract() == 0.0 && (-LIMIT..LIMIT).contains(float) => {
                *self = Value::Int(*float as i64);
            }
            Value::Array(items) => items.iter_mut().for_each(Value::normalize_numbers),
            Value::Object(map) => map.iter_mut().for_each(|(_, value)| value.normalize_numbers()),
            _ => {}
        }
    }

    /// Removes and returns the value at a path.
    pub fn remove(&mut self, path: &[&str]) -> Option<Value> {
        let (last, parents) = path.split_last()?;
        let parent = parents.iter().try_fold(self, |place, key| place.get_mut(key))?;
        parent.as_object_mut()?.remove(last)
    }

    /// The name of this kind of value in errors of Go's JSON decoder.
    pub fn go_kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "bool",
            Value::Int(_) | Value::Float(_) => "number",
            Value::String(_) => "string",
            Value::Array(_) => "array",
            Value::Raw(_) if self.number_literal().is_some() => "number",
            Value::Object(_) | Value::Raw(_) => "object",
        }
    }

    /// The text of a number that `json::parse_literally` kept.
    pub(crate) fn number_literal(&self) -> Option<&str> {
        match self {
            Value::Raw(text) => {
                Some(text.as_str()).filter(|text| text.starts_with(|c: char| c == '-' || c.is_ascii_digit()))
            }
            _ => None,
        }
    }
}

impl From<bool> for Value {
    fn from(v: bool) -> Self {
        Value::Bool(v)
    }
}

impl From<f64> for Value {
    fn from(v: f64) -> Self {
        Value::Float(v)
    }
}

impl From<i32> for Value {
    fn from(v: i32) -> Self {
        Value::Int(v.into())
    }
}

impl From<i64> for Value {
    fn from(v: i64) -> Self {
        Value::Int(v)
    }
}

impl From<&str> for Value {
    fn from(v: &str) -> Self {
        Value::String(Str::new(v))
    }
}

impl From<String> for Value {
    fn from(v: String) -> Self {
        Value::String(Str::from(v))
    }
}

impl From<Str> for Value {
    fn from(v: Str) -> Self {
        Value::String(v)
    }
}

impl From<&Str> for Value {
    fn from(v: &Str) -> Self {
        Value::String(v.clone())
    }
}

impl From<Map> for Value {
    fn from(v: Map) -> Self {
        Value::Object(v)
    }
}

impl From<Vec<Value>> for Value {
    fn from(v: Vec<Value>) -> Self {
        Value::Array(v)
    }
}

/// Builds a `Value` from JSON-like syntax: `value!({"a": [1, true, "x"], "b": expression})`.
#[macro_export]
macro_rules! value {
    (null) => { $crate::Value::Null };
    ([ $( $item:tt ),* $(,)? ]) => { $crate::Value::Array(vec![ $( $crate::value!($item) ),* ]) };
    ({ $( $key:literal : $item:tt ),* $(,)? }) => {{
        let members: Vec<($crate::Str, $crate::Value)> =
            vec![ $( ($crate::Str::new($key), $crate::value!($item)) ),* ];
        $crate::Value::Object(members.into_iter().collect())
    }};
    ($other:expr) => { $crate::Value::from($other) };
}
