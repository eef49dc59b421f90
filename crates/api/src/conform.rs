//! Conforms a tree to its type: the effect of upstream's decoding into Go structs and encoding again.
//!
//! Unknown fields are pruned (and reported), wrong types refused with Go's wording, quantities and times
//! converted to their canonical form, zero values dropped or added as upstream's encoder would, static
//! defaults filled in. A partial tree (an applied configuration) is only checked, pruned and canonicalized: absent
//! fields stay absent.
//!
//! Conforming twice changes nothing the second time.

use crate::schema::{self, AnyForm, Field, Kind, Struct};
use crate::value::{Map, Str, Value};
use crate::{go, json, quantity, time};

/// Upstream stops listing strict errors after this many.
const MAX_STRICT_ERRORS: usize = 100;

/// The completeness of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    Whole,
    /// Absent fields mean "no opinion".
    Partial,
}

/// A value of the wrong type, in the words of Go's decoder.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{decoding}")]
pub struct TypeError {
    decoding: String,
    /// The same in the words of upstream's converter, which strategic merge patches go through.
    pub converting: String,
}

impl TypeError {
    /// Types that decode themselves in upstream's converter have another message.
    fn decoded_by_type(self, value: &Value, expected: &str) -> TypeError {
        let found = value.go_kind();
        let converting = format!("json: cannot unmarshal {found} into Go value of type {expected}");
        TypeError { converting, ..self }
    }
}

impl From<String> for TypeError {
    fn from(text: String) -> TypeError {
        TypeError { converting: text.clone(), decoding: text }
    }
}

/// Conforms an object to its type. `strict` receives the paths' complaints: `unknown field "spec.foo"`.
pub fn conform(
    value: &mut Value,
    schema: &Struct,
    extent: Extent,
    strict: &mut Vec<String>,
) -> Result<(), TypeError> {
    let mut walk = Walk { extent, strict, path: Vec::new(), outer: None, owner: schema, converts: false };
    walk.object(value, schema)
}

/// Conforms a whole object as upstream's converter does: numbers without a fraction become integers, and those out of
/// range wrap.
pub fn convert(value: &mut Value, schema: &Struct, strict: &mut Vec<String>) -> Result<(), TypeError> {
    let mut walk =
        Walk { extent: Extent::Whole, strict, path: Vec::new(), outer: None, owner: schema, converts: true };
    walk.object(value, schema)
}

enum Step<'s> {
    /// A field, by its position.
    Field(&'s Struct, usize),
    /// A key of a map, which Go's type errors leave out.
    MapKey(Str),
    Index(usize),
}

struct Walk<'s, 'o> {
    extent: Extent,
    strict: &'o mut Vec<String>,
    path: Vec<Step<'s>>,
    /// The path of a schema that is decoded apart; it is made for errors only.
    outer: Option<&'o dyn Fn() -> String>,
    /// The struct of the current field, for error texts.
    owner: &'s Struct,
    converts: bool,
}

impl<'s> Walk<'s, '_> {
    fn object(&mut self, value: &mut Value, schema: &'s Struct) -> Result<(), TypeError> {
        if value.is_null() {
            *value = Value::object();
        }
        let Value::Object(map) = value else {
            return Err(self.mismatch(value, &schema.go_name()));
        };
        let outer = std::mem::replace(&mut self.owner, schema);
        let result = self.fields(map, schema);
        self.owner = outer;
        result
    }

    fn fields(&mut self, map: &mut Map, schema: &'s Struct) -> Result<(), TypeError> {
        let mut failed = None;
        let mut present = 0usize;
        map.retain(|key, value| {
            if failed.is_some() {
                return true;
            }
            let Some(position) = schema.position(key) else {
                self.unknown(key);
                return false;
            };
            self.path.push(Step::Field(schema, position));
            let kept = self.field(value, &schema.fields[position]);
            self.path.pop();
            match kept {
                Ok(keep) => {
                    present += usize::from(keep);
                    keep
                }
                Err(error) => {
                    failed = Some(error);
                    true
                }
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        if self.extent == Extent::Whole && present < schema.fields.len() {
            self.fill(map, schema)?;
        }
        Ok(())
    }

    /// Conforms one field's value; returns true if it is encoded at all.
    fn field(&mut self, value: &mut Value, field: &'s Field) -> Result<bool, TypeError> {
        if value.is_null() {
            return Ok(self.extent == Extent::Partial && !matches!(field.kind, Kind::Struct(_)));
        }
        self.value(value, &field.kind)?;
        Ok(self.extent == Extent::Partial || field.keep || field.pointer || !is_zero(value))
    }

    /// Adds the fields that upstream's encoder and defaulter would.
    fn fill(&mut self, map: &mut Map, schema: &'s Struct) -> Result<(), TypeError> {
        for position in &schema.filled {
            let position = *position as usize;
            let field = &schema.fields[position];
            if map.contains_key(&field.name) {
                continue;
            }
            let added = match (&field.default, &field.kind) {
                (Some(default), _) if field.keep || !is_zero(default) || field.pointer => {
                    Some(default.clone())
                }
                _ if !field.keep => None,
                (_, kind) => zero(kind, field.pointer),
            };
            let Some(mut added) = added else { continue };
            if let (Kind::Struct(inner), false) = (&field.kind, added.is_null()) {
                self.path.push(Step::Field(schema, position));
                let made = self.object(&mut added, inner);
                self.path.pop();
                made?;
            }
            map.insert(field.name.clone(), added);
        }
        Ok(())
    }

    fn value(&mut self, value: &mut Value, kind: &'s Kind) -> Result<(), TypeError> {
        match kind {
            Kind::String => self.expect(value, kind, matches!(value, Value::String(_))),
            Kind::Bool => self.expect(value, kind, matches!(value, Value::Bool(_))),
            Kind::Int32 => self.integer(value, kind, i32::MIN.into(), i32::MAX.into()),
            Kind::Int64 => self.integer(value, kind, i64::MIN, i64::MAX),
            Kind::Double => self.double(value, kind),
            Kind::Bytes => self.bytes(value, kind),
            Kind::Quantity => self.quantity(value),
            Kind::IntOrString => match value {
                Value::String(_) => Ok(()),
                _ => self
                    .integer(value, &Kind::Int32, i32::MIN.into(), i32::MAX.into())
                    .map_err(|e| e.decoded_by_type(value, "int32")),
            },
            Kind::Time => self.time(value, kind, time::parse, time::format),
            Kind::MicroTime => self.time(value, kind, time::parse_micro, time::format_micro),
            Kind::Duration => self.duration(value, kind),
            Kind::FieldsV1 => {
                if let Value::Object(_) = value {
                    *value = Value::Raw(json::write_to_string(value).into());
                }
                self.expect(value, kind, matches!(value, Value::Raw(_)) && value.number_literal().is_none())
            }
            Kind::Any(AnyForm::SchemaOrArray | AnyForm::SchemaOrStringArray) => self.schemas(value),
            Kind::Any(AnyForm::SchemaOrBool) => match value {
                Value::Object(_) => self.schemas(value),
                Value::Bool(_) => Ok(()),
                _ => Err("boolean or JSON schema expected".to_owned().into()),
            },
            Kind::Raw | Kind::Any(_) => read_numbers(value),
            Kind::List(item, _) => self.list(value, kind, item),
            Kind::Map(item, _) => self.map(value, kind, item),
            Kind::Struct(schema) => self.object(value, schema),
        }
    }

    /// Schemas within fields that have several forms: upstream decodes them apart, so that their unknown fields are pruned but
    /// never reported.
    fn schemas(&self, value: &mut Value) -> Result<(), TypeError> {
        let Some(schema) = schema::lookup("apiextensions/v1", "JSONSchemaProps") else { return Ok(()) };
        let found = match value {
            Value::Object(_) => std::slice::from_mut(value),
            Value::Array(items) => items.as_mut_slice(),
            _ => return read_numbers(value),
        };
        for object in found {
            if object.as_object().is_none() {
                read_numbers(object)?;
                continue;
            }
            let mut unreported = Vec::new();
            let outer = || self.go_path();
            let mut walk = Walk {
                extent: self.extent,
                strict: &mut unreported,
                path: Vec::new(),
                outer: Some(&outer),
                owner: &schema,
                converts: self.converts,
            };
            walk.object(object, &schema)?;
        }
        Ok(())
    }

    fn expect(&self, value: &Value, kind: &Kind, fits: bool) -> Result<(), TypeError> {
        if fits { Ok(()) } else { Err(self.mismatch(value, &kind.go_name())) }
    }

    fn integer(&self, value: &mut Value, kind: &Kind, min: i64, max: i64) -> Result<(), TypeError> {
        match value {
            Value::Int(int) if (min..=max).contains(int) => Ok(()),
            Value::Int(int) if self.converts => {
                *int = i64::from(*int as i32);
                Ok(())
            }
            Value::Float(number) if self.converts && number.fract() == 0.0 => {
                let int = go::integer(*number);
                *value = Value::Int(if (min..=max).contains(&int) { int } else { i64::from(int as i32) });
                Ok(())
            }
            _ if value.go_kind() == "number" => Err(self.number_mismatch(value, kind)),
            _ => Err(self.mismatch(value, &kind.go_name())),
        }
    }

    fn double(&self, value: &mut Value, kind: &Kind) -> Result<(), TypeError> {
        if value.go_kind() == "number" && read_numbers(value).is_err() {
            return Err(self.number_mismatch(value, kind));
        }
        self.expect(value, kind, matches!(value, Value::Int(_) | Value::Float(_)))
    }

    /// The error of a number that is not one of the type.
    fn number_mismatch(&self, value: &Value, kind: &Kind) -> TypeError {
        self.mismatch_described(value, &format!("number {}", literal(value)), &kind.go_name())
    }

    fn bytes(&self, value: &mut Value, kind: &Kind) -> Result<(), TypeError> {
        use base64::Engine as _;
        let Value::String(text) = value else { return Err(self.mismatch(value, &kind.go_name())) };
        let cleaned: String;
        let mut source = text.as_str();
        if source.contains(['\n', '\r']) {
            // Go's decoder skips line breaks.
            cleaned = source.replace(['\n', '\r'], "");
            source = &cleaned;
        }
        match BASE64.decode(source) {
            Ok(decoded) => {
                // Only the last character before padding can be spelled in several ways.
                if source.len() != text.len() || source.ends_with('=') {
                    *text = BASE64.encode(decoded).into();
                }
                Ok(())
            }
            Err(error) => {
                // Go counts the line breaks.
                let is_data = |(_, byte): &(usize, u8)| !matches!(byte, b'\n' | b'\r');
                let sent =
                    |at| text.bytes().enumerate().filter(is_data).nth(at).map_or(text.len(), |(at, _)| at);
                let at = match error {
                    base64::DecodeError::InvalidByte(at, _)
                    | base64::DecodeError::InvalidLastSymbol { offset: at, .. } => {
                        sent(after_padding(source.as_bytes(), at))
                    }
                    // Go reports the group of four characters that is not complete.
                    _ if !source.contains('=') => text.len() - source.len() % 4,
                    _ => text.len(),
                };
                let decoding = format!("illegal base64 data at input byte {at}");
                Err(TypeError { converting: format!("error decoding from json: {decoding}"), decoding })
            }
        }
    }

    fn quantity(&self, value: &mut Value) -> Result<(), TypeError> {
        let canonical = match &*value {
            Value::String(text) => quantity::canonical(text),
            _ if value.go_kind() == "number" => quantity::canonical(&json::write_to_string(value)),
            _ => Err(
                "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
                    .into(),
            ),
        };
        *value = Value::String(canonical?);
        Ok(())
    }

    fn time(
        &self,
        value: &mut Value,
        kind: &Kind,
        parse: fn(&str) -> Result<jiff::Timestamp, String>,
        format: fn(jiff::Timestamp) -> Str,
    ) -> Result<(), TypeError> {
        let Value::String(text) = value else {
            return Err(self.mismatch(value, &kind.go_name()).decoded_by_type(value, "string"));
        };
        let at = parse(text)?;
        if text == "0001-01-01T00:00:00Z" {
            // The zero time counts as absent.
            *value = Value::Null;
            return Ok(());
        }
        *text = format(at);
        Ok(())
    }

    fn duration(&self, value: &mut Value, kind: &Kind) -> Result<(), TypeError> {
        let Value::String(text) = value else {
            return Err(self.mismatch(value, &kind.go_name()).decoded_by_type(value, "string"));
        };
        let seconds = time::go_duration(text)?;
        *text = time::format_duration((seconds * 1e9).round() as i64).into();
        Ok(())
    }

    fn list(&mut self, value: &mut Value, kind: &Kind, item: &'s Kind) -> Result<(), TypeError> {
        let Value::Array(items) = value else { return Err(self.mismatch(value, &kind.go_name())) };
        for (i, element) in items.iter_mut().enumerate() {
            self.path.push(Step::Index(i));
            let done = self.element(element, item);
            self.path.pop();
            done?;
        }
        Ok(())
    }

    fn map(&mut self, value: &mut Value, kind: &Kind, item: &'s Kind) -> Result<(), TypeError> {
        let Value::Object(map) = value else { return Err(self.mismatch(value, &kind.go_name())) };
        for (key, element) in map.iter_mut() {
            self.path.push(Step::MapKey(key.clone()));
            if element.is_null() && matches!(item, Kind::Bytes) && self.extent != Extent::Partial {
                *element = Value::from("");
            }
            let done = self.element(element, item);
            self.path.pop();
            done?;
        }
        Ok(())
    }

    /// An item of a list or map: null is the zero value there, as in Go. In a partial map it stays.
    fn element(&mut self, element: &mut Value, item: &'s Kind) -> Result<(), TypeError> {
        if element.is_null() {
            if self.extent == Extent::Partial {
                return Ok(());
            }
            *element = zero(item, false).unwrap_or_default();
            if element.is_null() {
                return Ok(());
            }
        }
        self.value(element, item)
    }

    fn unknown(&mut self, key: &str) {
        // A key can be as long as the object.
        let said: usize = self.strict.iter().map(String::len).sum();
        if self.strict.len() < MAX_STRICT_ERRORS && said < json::MAX_FINDINGS_BYTES {
            let path = self.path_to(key);
            self.strict.push(format!("unknown field {path:?}"));
        }
    }

    fn path_to(&self, key: &str) -> String {
        let mut out = String::new();
        for step in &self.path {
            match step {
                Step::Index(i) => out.push_str(&format!("[{i}]")),
                // Upstream's converter leaves keys of maps out.
                Step::MapKey(_) if self.converts => {}
                Step::Field(..) | Step::MapKey(_) => {
                    if !out.is_empty() {
                        out.push('.');
                    }
                    out.push_str(step.name());
                }
            }
        }
        if !out.is_empty() {
            out.push('.');
        }
        out + key
    }

    fn mismatch(&self, value: &Value, expected: &str) -> TypeError {
        self.mismatch_described(value, value.go_kind(), expected)
    }

    fn mismatch_described(&self, value: &Value, found: &str, expected: &str) -> TypeError {
        let named = self.named_type();
        let named = named.as_deref().unwrap_or(expected);
        let place = match self.go_path().as_str() {
            "" => "Go value".to_owned(),
            path => format!("Go struct field {}.{path}", self.owner.name),
        };
        TypeError {
            decoding: format!("json: cannot unmarshal {found} into {place} of type {named}"),
            converting: unconvertible(value, expected, named),
        }
    }

    /// The path with the names of embedded structs, as Go's type errors have it.
    fn go_path(&self) -> String {
        let outer = self.outer.map(|path| path()).unwrap_or_default();
        let mut keys: Vec<&str> = Vec::new();
        keys.extend(Some(outer.as_str()).filter(|outer| !outer.is_empty()));
        for (depth, step) in self.path.iter().enumerate() {
            if let Step::Field(schema, position) = step {
                keys.extend(schema.go_field(*position).and_then(|field| field.embedded.as_deref()));
                // The errors of the outermost object's kind and version name no field.
                let is_type = matches!(step.name(), "kind" | "apiVersion");
                keys.extend(Some("TypeMeta").filter(|_| is_type && depth > 0 && embeds_type_meta(schema)));
                keys.push(step.name());
            }
        }
        keys.join(".")
    }

    /// The Go type of the current value, where it is not the one of its kind.
    fn named_type(&self) -> Option<String> {
        let at = self.path.iter().rposition(|step| matches!(step, Step::Field(..)))?;
        let Step::Field(schema, position) = &self.path[at] else { return None };
        let mut named = schema.go_field(*position)?.type_name.as_deref()?;
        for _ in &self.path[at + 1..] {
            named = named.strip_prefix("[]").or_else(|| {
                named.strip_prefix("map[").and_then(|rest| rest.split_once(']')).map(|(_, item)| item)
            })?;
        }
        Some(named.to_owned())
    }
}

impl Step<'_> {
    /// The name of a field, or the key of a map.
    fn name(&self) -> &str {
        match self {
            Step::Field(schema, position) => &schema.fields[*position].name,
            Step::MapKey(key) => key,
            Step::Index(_) => "",
        }
    }
}

/// Returns true if the Go type of a struct embeds its kind and version.
fn embeds_type_meta(schema: &Struct) -> bool {
    &*schema.name == "DeleteOptions"
        || ["kind", "apiVersion", "metadata"].iter().all(|name| schema.field(name).is_some())
}

/// Gives all numbers within a value of any type the form that reading the encoded value gives them.
fn read_numbers(value: &mut Value) -> Result<(), TypeError> {
    read_literals(value)?;
    value.normalize_numbers();
    Ok(())
}

/// Turns numbers that are text into floats.
fn read_literals(value: &mut Value) -> Result<(), TypeError> {
    if let Some(text) = value.number_literal() {
        let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
        *value = Value::Float(number.ok_or_else(|| json::ParseError::NumberRange(text.into()).to_string())?);
    }
    match value {
        Value::Array(items) => items.iter_mut().try_for_each(read_literals),
        Value::Object(map) => map.iter_mut().try_for_each(|(_, value)| read_literals(value)),
        _ => Ok(()),
    }
}

/// The position that Go reports for a character that does not fit: that after complete padding, which ends the text.
fn after_padding(text: &[u8], at: usize) -> usize {
    let end = at / 4 * 4 + 4;
    match text.get(at..end) {
        Some(b"==" | b"=") => end,
        _ => at,
    }
}

/// As Go's decoder, it ignores the bits of the last character that no byte needs.
static BASE64: base64::engine::GeneralPurpose = base64::engine::GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    base64::engine::general_purpose::PAD.with_decode_allow_trailing_bits(true),
);

/// A number as it was most likely written: what a tree keeps of it does not tell `1.0` from `1.00`.
fn literal(number: &Value) -> String {
    match number {
        Value::Float(number) if number.fract() == 0.0 && number.abs() < 1e21 => {
            let is_integer = number.abs() >= 9_223_372_036_854_775_808.0;
            if is_integer { format!("{number:.0}") } else { format!("{number:.1}") }
        }
        _ => json::write_to_string(number),
    }
}

/// The reason for which a value does not convert to a Go type.
/// `expected` is the type of the kind, `named` the type by its own name.
fn unconvertible(value: &Value, expected: &str, named: &str) -> String {
    let (kind, type_name) = match value {
        Value::Null => ("invalid", "nil"),
        Value::Bool(_) => ("bool", "bool"),
        Value::Int(_) => ("int64", "int64"),
        Value::Float(_) => ("float64", "float64"),
        Value::String(_) => ("string", "string"),
        Value::Array(_) => ("slice", "[]interface {}"),
        Value::Object(_) | Value::Raw(_) => ("map", "map[string]interface {}"),
    };
    match (value, expected) {
        (Value::Int(_), "string") | (Value::Float(_), "int32" | "int64") => {
            format!("cannot convert {type_name} to {named}")
        }
        (_, "string" | "bool" | "int32" | "int64" | "float64") => format!("unrecognized type: {expected}"),
        _ if expected.starts_with("[]") => format!("cannot restore slice from {kind}"),
        _ if expected.starts_with("map[") => format!("cannot restore map from {kind}"),
        _ => format!("cannot restore struct from: {kind}"),
    }
}

/// Returns true for values that Go's `omitempty` leaves out.
fn is_zero(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Bool(b) => !b,
        Value::Int(i) => *i == 0,
        Value::Float(f) => *f == 0.0,
        Value::String(s) | Value::Raw(s) => s.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(map) => map.is_empty(),
    }
}

/// The value that Go encodes for a field that was never set and is not omitted.
fn zero(kind: &Kind, pointer: bool) -> Option<Value> {
    if pointer {
        return Some(Value::Null);
    }
    Some(match kind {
        Kind::String => Value::from(""),
        Kind::Bool => Value::Bool(false),
        Kind::Int32 | Kind::Int64 | Kind::Double | Kind::IntOrString => Value::Int(0),
        Kind::Quantity => Value::from("0"),
        Kind::Duration => Value::from("0s"),
        Kind::Struct(_) => Value::object(),
        Kind::Bytes
        | Kind::Time
        | Kind::MicroTime
        | Kind::Raw
        | Kind::FieldsV1
        | Kind::Any(_)
        | Kind::List(..)
        | Kind::Map(..) => Value::Null,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(kind: &str, input: &str, expected: &str, complaints: &[&str]) {
        let schema = schema::lookup("core/v1", kind).unwrap();
        let mut value = json::parse(input.as_bytes()).unwrap();
        let mut strict = Vec::new();
        conform(&mut value, &schema, Extent::Whole, &mut strict).unwrap();
        assert_eq!(json::write_to_string(&value), expected);
        assert_eq!(strict, complaints);
        let once = value.clone();
        conform(&mut value, &schema, Extent::Whole, &mut strict).unwrap();
        assert_eq!(value, once, "conforming is idempotent");
    }

    #[test]
    fn unknown_fields_are_pruned_and_reported() {
        check(
            "ConfigMap",
            r#"{"data":{"a":"b"},"bogus":1,"metadata":{"name":"x","zzz":{}}}"#,
            r#"{"data":{"a":"b"},"metadata":{"name":"x"}}"#,
            &[r#"unknown field "bogus""#, r#"unknown field "metadata.zzz""#],
        );
    }

    #[test]
    fn bytes_are_those_of_go() {
        check("Secret", r#"{"data":{"a":null}}"#, r#"{"data":{"a":""},"metadata":{}}"#, &[]);
        let schema = schema::lookup("core/v1", "Secret").unwrap();
        for (sent, stored) in [("YR==", "YQ=="), ("YWJ=", "YWI="), (r"YQ\n==", "YQ==")] {
            let input = format!(r#"{{"data":{{"a":"{sent}"}}}}"#);
            check("Secret", &input, &format!(r#"{{"data":{{"a":"{stored}"}},"metadata":{{}}}}"#), &[]);
        }
        for (text, at) in [
            ("other", 4),
            ("abc", 0),
            ("abcde$", 5),
            ("YQ=", 3),
            (r"a\nb", 1),
            (r"ab\r\n", 2),
            (r"ab\ncd$", 5),
            (r"YQ\n=", 4),
            (r"ab\n=c", 3),
            ("YQ=a", 2),
            ("a===", 1),
            ("YQ==a", 4),
            (r"YQ\n==x", 5),
        ] {
            let mut value = json::parse(format!(r#"{{"data":{{"a":"{text}"}}}}"#).as_bytes()).unwrap();
            let error = conform(&mut value, &schema, Extent::Whole, &mut Vec::new()).unwrap_err();
            assert_eq!(error.to_string(), format!("illegal base64 data at input byte {at}"), "{text}");
        }
    }

    #[test]
    fn schemas_of_several_forms_are_pruned_without_a_report() {
        let schema = schema::lookup("apiextensions/v1", "JSONSchemaProps").unwrap();
        let run = |input: &str| {
            let mut value = json::parse(input.as_bytes()).unwrap();
            let mut strict = Vec::new();
            let done = conform(&mut value, &schema, Extent::Whole, &mut strict);
            done.map(|()| (json::write_to_string(&value), strict)).map_err(|e| e.to_string())
        };
        for (input, expected, reported) in [
            (r#"{"sail":1}"#, "{}", 1),
            (r#"{"items":{"sail":1,"default":null,"type":"string"}}"#, r#"{"items":{"type":"string"}}"#, 0),
            (
                r#"{"items":[{"sail":1}],"additionalProperties":{"sail":1,"nullable":false}}"#,
                r#"{"additionalProperties":{},"items":[{}]}"#,
                0,
            ),
            (
                r#"{"additionalProperties":false,"dependencies":{"a":["b"]}}"#,
                r#"{"additionalProperties":false,"dependencies":{"a":["b"]}}"#,
                0,
            ),
        ] {
            let (conformed, strict) = run(input).unwrap();
            assert_eq!((conformed.as_str(), strict.len()), (expected, reported), "{input}");
        }
        for (input, expected) in [
            (r#"{"additionalProperties":"yes"}"#, "boolean or JSON schema expected"),
            (
                r#"{"items":{"type":1}}"#,
                "json: cannot unmarshal number into Go struct field JSONSchemaProps.items.type of type string",
            ),
        ] {
            assert_eq!(run(input).unwrap_err(), expected, "{input}");
        }
    }

    #[test]
    fn zero_values_are_dropped_or_kept_as_upstream_does() {
        check(
            "Container",
            r#"{"name":"c","env":[],"stdin":false,"ports":[{"containerPort":80}],"image":""}"#,
            r#"{"name":"c","ports":[{"containerPort":80,"protocol":"TCP"}],"resources":{}}"#,
            &[],
        );
    }

    #[test]
    fn patches_have_their_own_words_for_type_errors() {
        let deployment = schema::lookup("apps/v1", "Deployment").unwrap();
        let cases = [
            (r#"{"spec":{"replicas":"x"}}"#, "unrecognized type: int32"),
            (r#"{"spec":{"replicas":5.5}}"#, "cannot convert float64 to int32"),
            (r#"{"spec":{"paused":"t"}}"#, "unrecognized type: bool"),
            (r#"{"spec":{"template":{"spec":{"containers":"x"}}}}"#, "cannot restore slice from string"),
            (r#"{"metadata":{"labels":{"a":1}}}"#, "cannot convert int64 to string"),
            (r#"{"metadata":{"labels":[]}}"#, "cannot restore map from slice"),
            (r#"{"spec":{"template":1}}"#, "cannot restore struct from: int64"),
            (
                r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":{}}}}}"#,
                "json: cannot unmarshal object into Go value of type int32",
            ),
            (
                r#"{"metadata":{"creationTimestamp":1}}"#,
                "json: cannot unmarshal number into Go value of type string",
            ),
        ];
        for (text, expected) in cases {
            let mut value = json::parse(text.as_bytes()).unwrap();
            let error = conform(&mut value, &deployment, Extent::Whole, &mut Vec::new()).unwrap_err();
            assert_eq!(error.converting, expected, "{text}");
        }
    }

    #[test]
    fn converted_numbers_lose_what_does_not_fit() {
        let deployment = schema::lookup("apps/v1", "Deployment").unwrap();
        for (text, expected) in [
            ("1.0", Ok(1)),
            ("1.5", Err("cannot convert float64 to int32")),
            ("2147483648", Ok(-2_147_483_648)),
            ("9223372036854775807", Ok(-1)),
            ("9223372036854775808", Ok(0)),
        ] {
            let mut object = json::parse(format!(r#"{{"spec":{{"replicas":{text}}}}}"#).as_bytes()).unwrap();
            let outcome = convert(&mut object, &deployment, &mut Vec::new());
            let found = outcome.map(|()| object.int_at(&["spec", "replicas"]).unwrap_or(0));
            assert_eq!(
                found.as_ref().map_err(|e| &*e.converting),
                expected.as_ref().map_err(|e| *e),
                "{text}"
            );
        }
    }

    #[test]
    fn numbers_that_are_text_are_read_by_their_type() {
        let read = |group: &str, kind: &str, text: &str| {
            let schema = schema::lookup(group, kind).unwrap();
            let mut object = json::parse_literally(text.as_bytes(), &mut Vec::new()).unwrap();
            conform(&mut object, &schema, Extent::Whole, &mut Vec::new())
                .map(|()| object)
                .map_err(|e| e.to_string())
        };
        let quota = |number: &str| format!(r#"{{"spec":{{"hard":{{"pods":{number}}}}}}}"#);
        for (number, expected) in
            [("1E2", "100"), ("1e400", "10e399"), ("12345678901234567891", "12345678901234567891")]
        {
            let object = read("core/v1", "ResourceQuota", &quota(number)).unwrap();
            assert_eq!(object.str_at(&["spec", "hard", "pods"]), Some(expected), "{number}");
        }
        let schema = |field: &str| {
            format!(r#"{{"spec":{{"versions":[{{"schema":{{"openAPIV3Schema":{field}}}}}]}}}}"#)
        };
        let crd = |field: &str| read("apiextensions/v1", "CustomResourceDefinition", &schema(field));
        let plain = "json: cannot unmarshal number 1e400 into Go value of type float64";
        for field in [
            r#"{"default":1e400}"#,
            r#"{"default":{"a":[1e400]}}"#,
            r#"{"items":1e400}"#,
            r#"{"items":[1e400]}"#,
            r#"{"dependencies":{"a":[1e400]}}"#,
        ] {
            assert_eq!(crd(field).unwrap_err(), plain, "{field}");
        }
        assert_eq!(
            crd(r#"{"maximum":1e400}"#).unwrap_err(),
            "json: cannot unmarshal number 1e400 into Go struct field \
             JSONSchemaProps.spec.versions.schema.openAPIV3Schema.maximum of type float64"
        );
        let read_back = crd(r#"{"default":1E2,"maximum":1.50}"#).unwrap();
        let found = read_back.items_at(&["spec", "versions"])[0].at(&["schema", "openAPIV3Schema"]).unwrap();
        assert_eq!(found.get("default"), Some(&Value::Int(100)));
        assert_eq!(found.get("maximum"), Some(&Value::Float(1.5)));
        let configmap = |text: &str| read("core/v1", "ConfigMap", text).map(|_| ());
        let fields = r#"{"metadata":{"managedFields":[{"fieldsV1":1.50}]}}"#;
        assert!(configmap(fields).unwrap_err().starts_with("json: cannot unmarshal number"));
        assert_eq!(configmap(r#"{"unknown":1e400}"#), Ok(()));
    }

    #[test]
    fn refused_numbers_are_shown_as_they_were_written() {
        let deployment = schema::lookup("apps/v1", "Deployment").unwrap();
        for text in ["1.0", "1.5", "1.50", "1E2", "1e400", "9223372036854775808", "2147483648"] {
            let object = format!(r#"{{"spec":{{"replicas":{text}}}}}"#);
            let mut object = json::parse_literally(object.as_bytes(), &mut Vec::new()).unwrap();
            let error = conform(&mut object, &deployment, Extent::Whole, &mut Vec::new()).unwrap_err();
            let expected = format!(
                "json: cannot unmarshal number {text} into Go struct field DeploymentSpec.spec.replicas of type int32"
            );
            assert_eq!(error.to_string(), expected);
        }
    }

    #[test]
    fn type_errors_are_go_worded() {
        let schema = schema::lookup("core/v1", "Pod").unwrap();
        let mut value = json::parse(br#"{"spec":{"containers":[{"name":5}]}}"#).unwrap();
        let error = conform(&mut value, &schema, Extent::Whole, &mut Vec::new()).unwrap_err();
        assert_eq!(
            error.to_string(),
            "json: cannot unmarshal number into Go struct field Container.spec.containers.name of type string"
        );
    }

    #[test]
    fn a_partial_object_gains_nothing() {
        let schema = schema::lookup("core/v1", "Pod").unwrap();
        let mut value =
            json::parse(br#"{"metadata":{"labels":{}},"spec":{"containers":[{"name":"a"}]}}"#).unwrap();
        let before = value.clone();
        conform(&mut value, &schema, Extent::Partial, &mut Vec::new()).unwrap();
        assert_eq!(value, before);
    }
}
