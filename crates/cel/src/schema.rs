//! Schemas of objects as expressions see them: types, formats, list kinds, and the bounds that limit costs.
//!
//! A schema is built from the leaves up; each one knows how many elements its values can have in one request and how
//! few bytes they take, because estimates of costs start there. Fields that expressions cannot use (no type, such as
//! preserved unknown fields) stay in the schema, because values still compare by them.
//!
//! Invariant: `properties` are sorted by name.

mod names;

use std::sync::Arc;

pub use names::{escape, is_reserved, unescape};

use crate::types::{ObjectType, Type};

/// The largest request, in bytes.
pub const MAX_REQUEST: i64 = 3 * 1024 * 1024;

/// Sizes of the texts of dates, times and durations in JSON.
const DATE_SIZE: i64 = 12;
const MIN_DATE_TIME_SIZE: i64 = 21;
const MAX_DATE_TIME_SIZE: i64 = 32;
const MIN_DURATION_SIZE: i64 = 3;
const MAX_DURATION_SIZE: i64 = 32;
/// Characters of an object's name.
const MAX_NAME: i64 = 253;
/// Size of an empty text.
const MIN_STRING_SIZE: i64 = 2;

#[derive(Clone, Debug)]
pub struct Schema {
    shape: Shape,
    nullable: bool,
    preserves_unknown: bool,
    exposed: bool,
    /// The most elements that a value in one request can have: characters, items or properties.
    max_elements: i64,
    /// The least size of a value in JSON.
    min_size: i64,
}

#[derive(Clone, Debug)]
pub enum Shape {
    IntOrString,
    Object(Box<[Property]>),
    /// An object whose fields all have the same schema.
    Map(Arc<Schema>),
    /// The schema of the items, if there is one.
    Array(Option<Arc<Schema>>, ListKind),
    String(Format),
    Number,
    Integer,
    Boolean,
    /// A type of the language that no schema of a custom resource has, such as `kubernetes.Quantity`.
    Named(Type),
    /// No type.
    Unknown,
}

#[derive(Clone, Debug)]
pub struct Property {
    pub name: Box<str>,
    pub schema: Arc<Schema>,
    pub required: bool,
    pub has_default: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// Keys of the items, escaped.
    Map(Box<[Box<str>]>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    None,
    Byte,
    Date,
    DateTime,
    Duration,
}

impl Format {
    /// The format that a schema names; all that are not special are none.
    pub fn parse(name: &str) -> Format {
        match name {
            "byte" => Format::Byte,
            "date" => Format::Date,
            "date-time" => Format::DateTime,
            "duration" => Format::Duration,
            _ => Format::None,
        }
    }
}

impl Schema {
    const fn of(shape: Shape, exposed: bool, max_elements: i64, min_size: i64) -> Schema {
        Schema { shape, nullable: false, preserves_unknown: false, exposed, max_elements, min_size }
    }

    pub fn boolean() -> Schema {
        Schema::of(Shape::Boolean, true, 0, 4)
    }

    pub fn integer() -> Schema {
        Schema::of(Shape::Integer, true, 0, 1)
    }

    pub fn number() -> Schema {
        Schema::of(Shape::Number, true, 0, 1)
    }

    pub fn int_or_string(max_length: Option<i64>) -> Schema {
        let max = max_length.map_or(MAX_REQUEST - 2, |length| length.max(0).saturating_mul(4));
        Schema::of(Shape::IntOrString, true, max, 1)
    }

    /// A text. `longest_enum` is the length in bytes of the longest allowed value of an enumeration.
    pub fn string(format: Format, max_length: Option<i64>, longest_enum: Option<i64>) -> Schema {
        let any = MAX_REQUEST - 2;
        let (max, min) = match format {
            Format::Byte => (max_length.map_or(any, |length| length.max(0)), MIN_STRING_SIZE),
            Format::Date => (DATE_SIZE, DATE_SIZE),
            Format::DateTime => (MAX_DATE_TIME_SIZE, MIN_DATE_TIME_SIZE),
            Format::Duration => (MAX_DURATION_SIZE, MIN_DURATION_SIZE),
            Format::None => {
                // A character takes up to four bytes.
                let length = max_length.map(|length| length.max(0).saturating_mul(4));
                (length.or(longest_enum).unwrap_or(any), MIN_STRING_SIZE)
            }
        };
        Schema::of(Shape::String(format), true, max, min)
    }

    pub fn array(items: Option<Arc<Schema>>, kind: ListKind, max_items: Option<i64>) -> Schema {
        let least = items.as_ref().map_or(0, |items| items.min_size);
        let exposed = items.as_ref().is_some_and(|items| items.exposed);
        let max = max_items.map_or((MAX_REQUEST - 2) / (least + 1), |items| items.max(0));
        Schema::of(Shape::Array(items, kind), exposed, max, 2)
    }

    /// An object whose fields all have the same schema.
    pub fn map(values: Arc<Schema>, max_properties: Option<i64>) -> Schema {
        let max = max_properties.map_or((MAX_REQUEST - 2) / (values.min_size + 6), |count| count.max(0));
        let exposed = values.exposed;
        Schema::of(Shape::Map(values), exposed, max, 2)
    }

    /// An object with fields. The root of a custom resource and embedded resources also need `with_object_meta`.
    pub fn object(mut properties: Vec<Property>) -> Schema {
        properties.sort_by(|a, b| a.name.cmp(&b.name));
        properties.dedup_by(|a, b| a.name == b.name);
        let sizes = properties
            .iter()
            .filter(|property| property.required && !property.has_default && property.schema.exposed)
            .map(|property| property.name.len() as i64 + property.schema.min_size + 4);
        let min = sizes.fold(2, i64::saturating_add);
        Schema::of(Shape::Object(properties.into()), true, 0, min)
    }

    /// A value of a type that expressions know by its name. Sizes of such values come from other sources.
    pub fn named(ty: Type) -> Schema {
        Schema::of(Shape::Named(ty), true, 0, 1)
    }

    /// A value without a type.
    pub fn unknown() -> Schema {
        Schema::of(Shape::Unknown, false, 0, 0)
    }

    #[must_use]
    pub fn with_nullable(self, nullable: bool) -> Schema {
        Schema { nullable, ..self }
    }

    #[must_use]
    pub fn with_preserved_unknown(self, preserves_unknown: bool) -> Schema {
        Schema { preserves_unknown, ..self }
    }

    /// Adds `apiVersion`, `kind` and the name in `metadata`, which every resource has.
    #[must_use]
    pub fn with_object_meta(self) -> Schema {
        let text = || Arc::new(Schema::string(Format::None, None, None));
        let complete = |properties: &[Property]| {
            let has = |name: &str, properties: &[Property]| {
                find(properties, name).is_some_and(|field| matches!(field.schema.shape, Shape::String(_)))
            };
            has("kind", properties)
                && has("apiVersion", properties)
                && find(properties, "metadata").is_some_and(|metadata| match &metadata.schema.shape {
                    Shape::Object(fields) => has("name", fields) && has("generateName", fields),
                    _ => false,
                })
        };
        // Values of other types get no fields, not even those.
        let Shape::Object(properties) = &self.shape else { return self };
        if complete(properties) {
            return self;
        }
        let mut properties = properties.to_vec();
        let declared: Vec<Property> =
            match find(&properties, "metadata").map(|metadata| &metadata.schema.shape) {
                Some(Shape::Object(fields)) => fields.to_vec(),
                _ => Vec::new(),
            };
        let required: Vec<Box<str>> =
            properties.iter().filter(|field| field.required).map(|field| field.name.clone()).collect();
        properties.retain(|field| !matches!(&*field.name, "kind" | "apiVersion" | "metadata"));
        let property = |name: &str, schema: Arc<Schema>| Property {
            required: required.iter().any(|required| **required == *name),
            name: name.into(),
            schema,
            has_default: false,
        };
        let capped = |name: &str, max_length: i64| {
            let mut schema = Schema::string(Format::None, Some(max_length), None);
            if let Some(declared) = find(&declared, name).filter(|declared| declared.schema.max_elements > 0)
            {
                schema.max_elements = schema.max_elements.min(declared.schema.max_elements);
            }
            Property { name: name.into(), schema: Arc::new(schema), required: false, has_default: false }
        };
        // A generated name is longer than its prefix.
        let names = vec![capped("name", MAX_NAME), capped("generateName", MAX_NAME - 1)];
        let metadata = Arc::new(Schema::object(names));
        properties.extend([property("kind", text()), property("apiVersion", text())]);
        properties.push(property("metadata", metadata));
        let object = Schema::object(properties);
        Schema { nullable: self.nullable, preserves_unknown: self.preserves_unknown, ..object }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub fn nullable(&self) -> bool {
        self.nullable
    }

    pub fn preserves_unknown(&self) -> bool {
        self.preserves_unknown
    }

    pub fn max_elements(&self) -> i64 {
        self.max_elements
    }

    /// The least size of a value in JSON.
    pub fn min_size(&self) -> i64 {
        self.min_size
    }

    pub(crate) fn has_properties(&self) -> bool {
        matches!(self.shape, Shape::Object(_))
    }

    pub(crate) fn list_kind(&self) -> Option<&ListKind> {
        match &self.shape {
            Shape::Array(_, kind) => Some(kind),
            _ => None,
        }
    }

    pub fn items(&self) -> Option<&Schema> {
        match &self.shape {
            Shape::Array(items, _) => items.as_deref(),
            _ => None,
        }
    }

    /// The schema of the value of a key: of a field, or of the values of a map.
    pub(crate) fn value_of(&self, key: &str) -> Option<&Schema> {
        match &self.shape {
            Shape::Object(properties) => find(properties, key).map(|property| &*property.schema),
            Shape::Map(values) => Some(values),
            _ => None,
        }
    }

    /// The field that an expression names: escaped, or a reserved word where those are field names.
    pub(crate) fn field(&self, name: &str, keywords: bool) -> Option<&Arc<Schema>> {
        let Shape::Object(properties) = &self.shape else { return None };
        let unescaped = unescape(name).filter(|original| escape(original).is_some_and(|again| again == name));
        let field = match unescaped {
            Some(original) => find(properties, &original),
            None if keywords && is_reserved(name) => find(properties, name),
            None => None,
        };
        field.map(|property| &property.schema).filter(|schema| schema.exposed)
    }

    /// The type of values of this schema. `name` is the name that an object gets; objects inside get names with the path
    /// to them. `None` if expressions cannot use such values.
    pub fn to_type(self: &Arc<Schema>, name: &str) -> Option<Type> {
        if !self.exposed {
            return None;
        }
        Some(match &self.shape {
            Shape::IntOrString => Type::Dyn,
            Shape::Object(_) => Type::Object(ObjectType { name: name.into(), declared: Some(self.clone()) }),
            Shape::Map(values) => Type::map(Type::String, values.to_type(&format!("{name}.@elem"))?),
            Shape::Array(items, _) => Type::list(items.as_ref()?.to_type(&format!("{name}.@idx"))?),
            Shape::String(Format::None) => Type::String,
            Shape::String(Format::Byte) => Type::Bytes,
            Shape::String(Format::Duration) => Type::Duration,
            Shape::String(Format::Date | Format::DateTime) => Type::Timestamp,
            Shape::Number => Type::Double,
            Shape::Integer => Type::Int,
            Shape::Boolean => Type::Bool,
            Shape::Named(ty) => ty.clone(),
            Shape::Unknown => return None,
        })
    }
}

fn find<'p>(properties: &'p [Property], name: &str) -> Option<&'p Property> {
    properties.binary_search_by(|property| (*property.name).cmp(name)).ok().map(|at| &properties[at])
}
