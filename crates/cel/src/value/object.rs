//! Objects that an expression creates with a literal, such as `Object.spec{replicas: 1}` and `JSONPatch{op: "add"}`.

use std::sync::Arc;

use super::{Value, equal};
use crate::error::{Error, Result};

/// The type of one operation of a JSON patch.
pub const JSON_PATCH: &str = "JSONPatch";

#[derive(Clone, Debug)]
pub struct Object<'a> {
    /// The name of its type.
    pub name: Arc<str>,
    /// In the order of the literal; names are unique.
    pub fields: Vec<(Arc<str>, Value<'a>)>,
    /// The greatest depth of a field.
    depth: u32,
}

/// The texts of a JSON patch's operation.
const TEXTS: [&str; 3] = ["op", "path", "from"];

impl<'a> Object<'a> {
    pub(crate) fn new(name: Arc<str>, fields: usize) -> Object<'a> {
        Object { name, fields: Vec::with_capacity(fields), depth: 0 }
    }

    pub(super) fn depth(&self) -> u32 {
        self.depth + 1
    }

    pub fn get(&self, name: &str) -> Option<&Value<'a>> {
        self.fields.iter().find(|(known, _)| **known == *name).map(|(_, value)| value)
    }

    /// Sets a field. A text of a JSON patch must be one.
    pub(crate) fn set(&mut self, name: &Arc<str>, value: Value<'a>) -> Result<()> {
        if &*self.name == JSON_PATCH && TEXTS.contains(&&**name) && value.as_str().is_none() {
            let found = go_type(&value);
            return Err(format!("unexpected type {found} for JSONPatchType '{name}' field").into());
        }
        self.depth = self.depth.max(value.depth());
        match self.fields.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.fields.push((name.clone(), value)),
        }
        Ok(())
    }

    /// The value of a field, as expressions read it. An absent field is null, or the empty text.
    pub(crate) fn read(&self, name: &str, presence: bool) -> Result<Option<Value<'a>>> {
        let is_patch = &*self.name == JSON_PATCH;
        let is_text = is_patch && TEXTS.contains(&name);
        if is_patch && !is_text && name != "value" {
            return Err(Error::from(format!("unsupported indexer: {name}")));
        }
        match self.get(name) {
            Some(value) if presence && is_text && value.is_zero() => Ok(None),
            Some(value) => Ok(Some(value.clone())),
            None if presence => Ok(None),
            None if is_text => Ok(Some(Value::from(""))),
            None => Ok(Some(Value::Null)),
        }
    }

    pub(super) fn equals(&self, other: &Object<'a>) -> Result<bool> {
        if self.name != other.name || self.fields.len() != other.fields.len() {
            return Ok(false);
        }
        for (name, value) in &self.fields {
            match other.get(name) {
                Some(other) if equal(value, other)? => {}
                _ => return Ok(false),
            }
        }
        Ok(true)
    }
}

/// The type of a value in upstream's program.
fn go_type(value: &Value<'_>) -> &'static str {
    match value {
        Value::Bool(_) => "bool",
        Value::Int(_) => "int64",
        Value::Uint(_) => "uint64",
        Value::Double(_) => "float64",
        Value::Bytes(_) => "[]uint8",
        Value::Null => "structpb.NullValue",
        Value::Duration(_) => "time.Duration",
        Value::Timestamp(_) => "time.Time",
        Value::List(_) => "[]ref.Val",
        Value::Map(_) => "map[ref.Val]ref.Val",
        _ => "map[string]interface {}",
    }
}
