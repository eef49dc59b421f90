//! The types of expressions: what variables and functions declare and what the checker infers.
//!
//! Invariants: two object types are equal exactly if their names are; the schema behind an object type only says
//! which fields it has. `Display` gives the text that upstream's messages contain.

use std::fmt;
use std::sync::Arc;

use crate::schema::Schema;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Dyn,
    /// The type of an expression that failed a check; it agrees with every type, so that one mistake gives one error.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    /// `google.protobuf.Any`, which behaves as `dyn`.
    Any,
    /// A primitive type or null, such as `google.protobuf.Int64Value`.
    Wrapper(Arc<Type>),
    List(Arc<Type>),
    Map(Arc<[Type; 2]>),
    Object(ObjectType),
    Opaque(Arc<str>, Arc<[Type]>),
    /// The type of types; with the type that the value names, where that is known.
    Type(Option<Arc<Type>>),
    Parameter(Arc<str>),
}

/// A named type with fields. Types without a schema, such as `kubernetes.URL`, have no fields.
#[derive(Clone)]
pub struct ObjectType {
    pub name: Arc<str>,
    pub declared: Option<Arc<Schema>>,
}

impl fmt::Debug for ObjectType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

impl PartialEq for ObjectType {
    fn eq(&self, other: &ObjectType) -> bool {
        self.name == other.name
    }
}

impl Eq for ObjectType {}

/// The coarse kind of a type, on which most rules branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Dyn,
    Any,
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List,
    Map,
    Object,
    Opaque,
    Type,
    Parameter,
}

/// Opaque types; other names with a dot are object types.
const OPAQUE: [&str; 3] = ["net.IP", "net.CIDR", "optional_type"];

impl Type {
    pub fn list(item: Type) -> Type {
        Type::List(Arc::new(item))
    }

    pub fn map(key: Type, value: Type) -> Type {
        Type::Map(Arc::new([key, value]))
    }

    pub fn optional(value: Type) -> Type {
        Type::Opaque("optional_type".into(), [value].into())
    }

    pub fn object(name: &str) -> Type {
        Type::Object(ObjectType { name: name.into(), declared: None })
    }

    /// The type of the type `inner`.
    pub fn of(inner: Type) -> Type {
        Type::Type(Some(Arc::new(inner)))
    }

    /// Parses the notation of function tables: `list(T)`, `map(string, dyn)`, `net.IP`, `kubernetes.URL`. A name of
    /// one capital letter is a type parameter.
    ///
    /// Tables are constants of this program, so unknown names become object types instead of errors.
    pub fn parse(text: &str) -> Type {
        let text = text.trim();
        let (name, parameters) = match text.split_once('(') {
            Some((name, rest)) => (name.trim(), split_top(rest.strip_suffix(')').unwrap_or(rest))),
            None => (text, Vec::new()),
        };
        let mut parameters = parameters.into_iter().map(Type::parse);
        let mut next = || parameters.next().unwrap_or(Type::Dyn);
        match name {
            "dyn" => Type::Dyn,
            "null_type" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" | "google.protobuf.Duration" => Type::Duration,
            "timestamp" | "google.protobuf.Timestamp" => Type::Timestamp,
            "any" => Type::Any,
            "list" => Type::list(next()),
            "map" => Type::map(next(), next()),
            "type" if text == name => Type::Type(None),
            "type" => Type::of(next()),
            _ if OPAQUE.contains(&name) => Type::Opaque(name.into(), parameters.collect()),
            _ if name.len() == 1 && name.as_bytes()[0].is_ascii_uppercase() => Type::Parameter(name.into()),
            _ => Type::object(name),
        }
    }

    pub fn kind(&self) -> Kind {
        match self {
            Type::Dyn => Kind::Dyn,
            Type::Any => Kind::Any,
            Type::Error => Kind::Error,
            Type::Null => Kind::Null,
            Type::Bool => Kind::Bool,
            Type::Int => Kind::Int,
            Type::Uint => Kind::Uint,
            Type::Double => Kind::Double,
            Type::String => Kind::String,
            Type::Bytes => Kind::Bytes,
            Type::Duration => Kind::Duration,
            Type::Timestamp => Kind::Timestamp,
            Type::Wrapper(inner) => inner.kind(),
            Type::List(_) => Kind::List,
            Type::Map(_) => Kind::Map,
            Type::Object(_) => Kind::Object,
            Type::Opaque(..) => Kind::Opaque,
            Type::Type(_) => Kind::Type,
            Type::Parameter(_) => Kind::Parameter,
        }
    }

    /// The name without parameters: that of values at run time.
    pub fn name(&self) -> &str {
        match self {
            Type::Dyn => "dyn",
            Type::Any => "google.protobuf.Any",
            Type::Error => "error",
            Type::Null => "null_type",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "google.protobuf.Duration",
            Type::Timestamp => "google.protobuf.Timestamp",
            Type::Wrapper(inner) => inner.name(),
            Type::List(_) => "list",
            Type::Map(_) => "map",
            Type::Object(object) => &object.name,
            Type::Opaque(name, _) | Type::Parameter(name) => name,
            Type::Type(_) => "type",
        }
    }

    /// The type parameters: the item of a list, key and value of a map, those of an opaque type.
    pub fn parameters(&self) -> &[Type] {
        match self {
            Type::List(item) => std::slice::from_ref(item),
            Type::Map(pair) => &pair[..],
            Type::Opaque(_, parameters) => parameters,
            Type::Type(Some(inner)) => std::slice::from_ref(inner),
            _ => &[],
        }
    }

    /// True if this type consists of more than so many types.
    pub(crate) fn is_larger_than(&self, most: usize) -> bool {
        let (mut pending, mut found) = (vec![self], 0);
        while let Some(ty) = pending.pop() {
            found += 1;
            if found > most {
                return true;
            }
            pending.extend(ty.parameters());
        }
        false
    }

    pub fn is_dyn(&self) -> bool {
        matches!(self, Type::Dyn | Type::Any)
    }

    pub fn is_error(&self) -> bool {
        matches!(self, Type::Error)
    }

    /// The type inside an optional type.
    pub fn optional_value(&self) -> Option<&Type> {
        match self {
            Type::Opaque(name, parameters) if &**name == "optional_type" => parameters.first(),
            _ => None,
        }
    }
}

/// Splits at the commas that are not inside parentheses.
pub(crate) fn split_top(text: &str) -> Vec<&str> {
    let (mut parts, mut depth, mut start) = (Vec::new(), 0usize, 0);
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                parts.push(&text[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    if !text[start..].trim().is_empty() {
        parts.push(&text[start..]);
    }
    parts
}

/// The text of a type in messages.
impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Any => f.write_str("any"),
            Type::Duration => f.write_str("duration"),
            Type::Error => f.write_str("!error!"),
            Type::Null => f.write_str("null"),
            Type::Timestamp => f.write_str("timestamp"),
            Type::Wrapper(inner) => write!(f, "wrapper({})", inner.name()),
            _ if self.parameters().is_empty() => f.write_str(self.name()),
            _ => {
                write!(f, "{}(", self.name())?;
                for (i, parameter) in self.parameters().iter().enumerate() {
                    write!(f, "{}{parameter}", if i > 0 { ", " } else { "" })?;
                }
                f.write_str(")")
            }
        }
    }
}
