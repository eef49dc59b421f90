//! The structural schema of one version of a custom resource, compiled from `openAPIV3Schema`.
//!
//! Invariants: the tree is as deep as the JSON it comes from, which the parser bounds. Properties are in order of
//! their names. Defaults are pruned by the schema they are part of (`Schema::compile`). Value validations are a short list per node, so that a node without them costs no memory for them.
//!
//! A schema below a junctor (`allOf`, `anyOf`, `oneOf`, `not`) is a node like any other; only validation visits it.

mod compile;

use std::sync::Arc;

use corten_api::{Str, Value};

use crate::format::Format;
use crate::pattern::Pattern;

/// The schema of one version. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Schema {
    root: Arc<Node>,
}

impl Schema {
    /// Compiles the `openAPIV3Schema` of a version. The error is upstream's text for a schema that cannot be
    /// structural.
    pub fn compile(schema: &Value) -> Result<Schema, String> {
        let mut root = compile::node(schema)?;
        crate::defaults::prune_defaults(&mut root);
        Ok(Schema { root: Arc::new(root) })
    }

    /// Compiles a schema whose defaults are still to be validated: they stay as they are.
    pub fn compile_unpruned(schema: &Value) -> Result<Schema, String> {
        Ok(Schema { root: Arc::new(compile::node(schema)?) })
    }

    /// The schema of a version without one: it has no fields.
    pub fn empty() -> Schema {
        Schema { root: Arc::new(Node::default()) }
    }

    pub fn root(&self) -> &Node {
        &self.root
    }
}

/// The schema of one value.
#[derive(Debug, Default)]
pub struct Node {
    pub kind: Type,
    pub nullable: bool,
    /// An integer or a string, whatever the type says.
    pub int_or_string: bool,
    pub preserve_unknown_fields: bool,
    pub embedded_resource: bool,
    pub list_type: ListType,
    pub map_type: MapType,
    /// The fields that identify an item of a list of the type `map`.
    pub list_map_keys: Box<[Str]>,
    pub items: Option<Box<Node>>,
    pub properties: Box<[(Str, Node)]>,
    pub additional: Additional,
    pub default: Option<Box<Value>>,
    pub(crate) checks: Box<[Check]>,
    pub rules: Box<[Rule]>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Type {
    /// Not given.
    #[default]
    Any,
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// A type that no value has; only definitions that were stored long ago can have it.
    Unknown,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListType {
    /// Not given: upstream treats the list as atomic.
    #[default]
    Unset,
    Atomic,
    Set,
    Map,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MapType {
    #[default]
    Unset,
    Granular,
    Atomic,
}

/// `additionalProperties`: absent, a boolean, or the schema of all fields that are not named.
#[derive(Debug, Default)]
pub enum Additional {
    #[default]
    Absent,
    Bool(bool),
    Schema(Box<Node>),
}

/// One value validation.
#[derive(Debug)]
pub(crate) enum Check {
    AnyOf(Box<[Node]>),
    OneOf(Box<[Node]>),
    AllOf(Box<[Node]>),
    Not(Box<Node>),
    MaxLength(i64),
    MinLength(i64),
    Pattern(Box<Pattern>),
    Format(Format),
    /// A format that upstream validates only for defaults.
    IgnoredFormat(Format),
    MultipleOf(f64),
    Minimum(f64, Exclusive),
    Maximum(f64, Exclusive),
    MinItems(i64),
    MaxItems(i64),
    UniqueItems,
    Enum(Box<[Value]>),
    MinProperties(i64),
    MaxProperties(i64),
    Required(Box<[Str]>),
    /// The name of an unknown type.
    TypeName(Str),
}

/// True if a bound is not itself allowed.
pub(crate) type Exclusive = bool;

/// A rule of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Rule {
    pub rule: Str,
    pub message: Str,
    pub message_expression: Str,
    pub reason: Option<Str>,
    pub field_path: Str,
    pub optional_old_self: Option<bool>,
}

impl Node {
    /// The schema of a named field.
    pub fn property(&self, name: &str) -> Option<&Node> {
        let found = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        self.properties.get(found).map(|(_, node)| node)
    }

    /// Finds the schemas of an object's fields in order of their names, which is the order of the object: mostly the next
    /// one, without a search.
    pub(crate) fn in_order(&self) -> InOrder<'_> {
        InOrder { rest: &self.properties }
    }

    /// The schema of a field: that of its name, or of all unnamed fields.
    pub fn field(&self, name: &str) -> Option<&Node> {
        self.property(name).or_else(|| self.additional.schema())
    }
}

/// The named fields of a schema after the last one that was looked for.
pub(crate) struct InOrder<'n> {
    rest: &'n [(Str, Node)],
}

impl<'n> InOrder<'n> {
    /// The schema of a named field. Names must be looked for in ascending order.
    pub(crate) fn property(&mut self, name: &str) -> Option<&'n Node> {
        let is_before = |(known, _): &(Str, Node)| known.as_str() < name;
        if self.rest.first().is_some_and(is_before) {
            self.rest = &self.rest[1..];
            if self.rest.first().is_some_and(is_before) {
                self.rest = &self.rest[self.rest.partition_point(is_before)..];
            }
        }
        let (known, node) = self.rest.first()?;
        (known.as_str() == name).then_some(node)
    }
}

impl Additional {
    /// The schema of unnamed fields, if they have one.
    pub fn schema(&self) -> Option<&Node> {
        match self {
            Additional::Schema(node) => Some(node),
            Additional::Absent | Additional::Bool(_) => None,
        }
    }

    pub fn is_absent(&self) -> bool {
        matches!(self, Additional::Absent)
    }
}

impl Type {
    /// The name in schemas and messages; empty if not given.
    pub fn name(self) -> &'static str {
        match self {
            Type::Any | Type::Unknown => "",
            Type::Object => "object",
            Type::Array => "array",
            Type::String => "string",
            Type::Integer => "integer",
            Type::Number => "number",
            Type::Boolean => "boolean",
        }
    }

    /// The type of a value that is not null.
    pub fn of(value: &Value) -> Type {
        match value {
            Value::Null => Type::Any,
            Value::Bool(_) => Type::Boolean,
            Value::Int(_) => Type::Integer,
            Value::Float(_) => Type::Number,
            Value::String(_) => Type::String,
            Value::Array(_) => Type::Array,
            Value::Object(_) | Value::Raw(_) => Type::Object,
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::{Value, json};

    use super::*;

    #[test]
    fn fields_in_order_are_those_found_by_name() {
        let names = ["a", "aa", "b", "d", "da", "e", "x", "y", "z"];
        let mut value = json::parse(br#"{"type":"object"}"#).unwrap();
        for name in names {
            value.set(&["properties", name], json::parse(br#"{"type":"string"}"#).unwrap());
        }
        let schema = Schema::compile(&value).unwrap();
        for keys in [
            vec![],
            names.to_vec(),
            vec!["a", "c", "d", "z"],
            vec!["", "ab", "b", "y", "zz"],
            vec!["z"],
            vec!["0", "1", "2", "e"],
        ] {
            let mut in_order = schema.root().in_order();
            for key in keys {
                let (found, expected) = (in_order.property(key), schema.root().property(key));
                assert_eq!(found.map(std::ptr::from_ref), expected.map(std::ptr::from_ref), "{key}");
            }
        }
        let empty = Schema::compile(&Value::object()).unwrap();
        assert!(empty.root().in_order().property("a").is_none());
    }
}
