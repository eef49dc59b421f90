//! Objects generated from the schema alone: any type, any number of its fields, always the same for the same
//! seed.

mod random;

pub(crate) use random::Random;

use corten_api::conform::{Extent, conform};
use corten_api::schema::{AnyForm, Field, Kind, Struct};
use corten_api::{Map, Value, value};

/// A conforming object of a type. `percent` of its optional fields are set.
pub(crate) fn object(schema: &Struct, random: &mut Random, percent: usize) -> Value {
    let mut made = fields(schema, random, percent, 0);
    conform(&mut made, schema, Extent::Whole, &mut Vec::new()).expect("a sample conforms");
    made
}

fn fields(schema: &Struct, random: &mut Random, percent: usize, depth: usize) -> Value {
    let mut map = Map::new();
    for field in &schema.fields {
        let deep = depth > 5 && !matches!(field.kind, Kind::String | Kind::Bool | Kind::Int32 | Kind::Int64);
        if !deep && random.below(100) < percent && !field.numbers.is_empty() {
            map.insert(field.name.clone(), member(field, random, percent, depth));
        }
    }
    Value::Object(map)
}

fn member(field: &Field, random: &mut Random, percent: usize, depth: usize) -> Value {
    match (field.enum_values.as_slice(), &field.kind) {
        ([_, ..], Kind::String) => Value::from(random.pick(&field.enum_values).clone()),
        _ => kind(&field.kind, random, percent, depth),
    }
}

fn kind(kind: &Kind, random: &mut Random, percent: usize, depth: usize) -> Value {
    match kind {
        Kind::String => {
            (*random.pick(&["", "a", "name-1", "ünï", "x y", "longer than twenty-three bytes"])).into()
        }
        Kind::Bool => (random.below(2) == 1).into(),
        Kind::Int32 => (*random.pick(&[0, 1, -1, 80, 300, i32::MAX, i32::MIN])).into(),
        Kind::Int64 => (*random.pick(&[0, 1, -1, 128, i64::MAX, i64::MIN])).into(),
        Kind::Double => {
            random.pick(&[Value::Int(0), Value::Int(7), Value::Float(1.5), Value::Float(-0.25)]).clone()
        }
        Kind::Bytes => (*random.pick(&["", "aGVsbG8=", "AAEC/w=="])).into(),
        Kind::Quantity => (*random.pick(&["0", "100m", "1Gi", "5", "1500m"])).into(),
        Kind::IntOrString => {
            random.pick(&[Value::from("http"), Value::from("25%"), Value::Int(0), Value::Int(8080)]).clone()
        }
        Kind::Time => {
            (*random.pick(&["2024-02-29T12:00:00Z", "1970-01-01T00:00:00Z", "1969-12-31T23:59:58Z"])).into()
        }
        Kind::MicroTime => (*random.pick(&[
            "2024-02-29T12:00:00.000000Z",
            "2024-02-29T12:00:00.123456Z",
            "1969-12-31T23:59:58.500000Z",
        ]))
        .into(),
        Kind::Duration => (*random.pick(&["0s", "15s", "1m30s", "1.5ms", "-2h0m0s"])).into(),
        Kind::Raw => value!({"apiVersion": "v1", "kind": "Thing", "n": [1, true, "x"]}),
        Kind::FieldsV1 => Value::Raw(r#"{"f:metadata":{"f:labels":{".":{}}}}"#.into()),
        Kind::Any(form) => any(*form, random),
        Kind::List(item, _) => {
            // Never empty: protobuf does not distinguish an empty list from none.
            let count = 1 + random.below(2);
            Value::Array((0..count).map(|_| self::kind(item, random, percent / 2, depth + 1)).collect())
        }
        Kind::Map(item, _) => {
            let mut map = Map::new();
            for key in ["", "a", "b.c/d", "Z"] {
                if random.below(2) == 1 {
                    map.insert(key, self::kind(item, random, percent / 2, depth + 1));
                }
            }
            Value::Object(map)
        }
        Kind::Struct(schema) => fields(schema, random, percent, depth + 1),
    }
}

fn any(form: AnyForm, random: &mut Random) -> Value {
    let schema = value!({"type": "object", "properties": {"a": {"type": "string", "minLength": 0}}});
    match (form, random.below(3)) {
        (AnyForm::Free, _) => Value::Null,
        (AnyForm::Json, 0) => value!({"x": [null, 1.5, "y"]}),
        (AnyForm::Json, 1) => Value::Bool(false),
        (AnyForm::Json, _) => Value::from("text"),
        (AnyForm::SchemaOrBool, 0) => Value::Bool(false),
        (AnyForm::SchemaOrBool, 1) => Value::Bool(true),
        (AnyForm::SchemaOrArray, 0) => Value::Array(vec![schema, value!({"type": "integer"})]),
        (AnyForm::SchemaOrStringArray, 0) => value!(["a", "b"]),
        _ => schema,
    }
}
