//! Values against schemas, in the words of the library that upstream has for it.
//!
//! Types, enumerations, limits, fields and items are judged; patterns, formats and what `allOf`, `anyOf`,
//! `oneOf` and `not` ask for are not.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, json};

use super::schema::{flag, named, part, property};
use crate::validation::text::{list, text};

/// Everything a schema has against a value.
pub(super) fn validate_value(value: &Value, schema: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    Judge { at, errors }.value(value, schema, "");
}

struct Judge<'j> {
    at: &'j Field<'j>,
    errors: &'j mut ErrorList,
}

impl Judge<'_> {
    /// The field of a part of the value, by the name the part has in messages.
    fn field(&self, name: &str) -> String {
        match name.strip_prefix('.').unwrap_or(name) {
            "" => self.at.to_string(),
            name => format!("{}.{name}", self.at),
        }
    }

    fn refuse(&mut self, value: &Value, name: &str, why: &str) {
        self.errors.invalid(self.field(name), value, format!("{name} in body {why}"));
    }

    fn value(&mut self, value: &Value, schema: &Value, name: &str) {
        self.kind(value, schema, name);
        match value {
            Value::String(text) => self.text(text, schema, name),
            Value::Int(number) => self.number(value, *number as f64, schema, name),
            Value::Float(number) => self.number(value, *number, schema, name),
            Value::Array(items) => self.items(items, schema, name),
            _ => {}
        }
        self.choice(value, schema, name);
        if value.as_object().is_some() {
            self.members(value, schema, name);
        }
    }

    fn kind(&mut self, value: &Value, schema: &Value, name: &str) {
        let expected = text(schema, "type");
        if expected.is_empty() || (value.is_null() && flag(schema, "nullable")) {
            return;
        }
        let kind = kind_of(value);
        let fits = match (expected, value) {
            ("number", Value::Int(_)) => true,
            ("integer", Value::Float(number)) => number.fract() == 0.0,
            _ => expected == kind,
        };
        if !fits {
            let why = format!("{name} in body must be of type {expected}: \"{kind}\"");
            self.errors.type_invalid(self.field(name), &Value::from(kind), why);
        }
        if !fits && (expected, kind) == ("integer", "number") {
            let why = format!("Checked value must be of type integer (default format) in {name}");
            self.errors.invalid(self.at, &Value::from(""), why);
        }
    }

    fn text(&mut self, text: &str, schema: &Value, name: &str) {
        let length = count(text.chars().count());
        if let Some(most) = schema.int_at(&["maxLength"]).filter(|most| length > *most) {
            self.errors.too_long(self.field(name), usize::try_from(most).unwrap_or(0));
        }
        if let Some(least) = schema.int_at(&["minLength"]).filter(|least| length < *least) {
            self.refuse(&Value::from(text), name, &format!("should be at least {least} chars long"));
        }
    }

    fn number(&mut self, value: &Value, number: f64, schema: &Value, name: &str) {
        let limit = |key: &str| schema.get(key).and_then(as_float);
        if let Some(factor) = limit("multipleOf").filter(|factor| (number / factor).fract() != 0.0) {
            self.refuse(value, name, &format!("should be a multiple of {}", shown(factor)));
        }
        let most = limit("maximum").map(|most| (most, flag(schema, "exclusiveMaximum")));
        if let Some((most, exclusive)) =
            most.filter(|(most, exclusive)| number > *most || (*exclusive && number == *most))
        {
            let than = if exclusive { "less than" } else { "less than or equal to" };
            self.refuse(value, name, &format!("should be {than} {}", shown(most)));
        }
        let least = limit("minimum").map(|least| (least, flag(schema, "exclusiveMinimum")));
        if let Some((least, exclusive)) =
            least.filter(|(least, exclusive)| number < *least || (*exclusive && number == *least))
        {
            let than = if exclusive { "greater than" } else { "greater than or equal to" };
            self.refuse(value, name, &format!("should be {than} {}", shown(least)));
        }
    }

    fn items(&mut self, items: &[Value], schema: &Value, name: &str) {
        if let Some(item_schema) = part(schema, "items") {
            for (i, item) in items.iter().enumerate() {
                self.value(item, item_schema, &format!("{name}[{i}]"));
            }
        }
        let length = count(items.len());
        if let Some(least) = schema.int_at(&["minItems"]).filter(|least| length < *least) {
            self.refuse(&Value::from(length), name, &format!("should have at least {least} items"));
        }
        if let Some(most) = schema.int_at(&["maxItems"]).filter(|most| length > *most) {
            self.errors.too_many(self.field(name), items.len(), usize::try_from(most).unwrap_or(0));
        }
    }

    fn choice(&mut self, value: &Value, schema: &Value, name: &str) {
        let known = list(schema, "enum");
        if known.is_empty() || known.contains(value) {
            return;
        }
        let shown = |value: &Value| match value {
            Value::String(text) => text.to_string(),
            other => json::write_to_string(other),
        };
        let known: Vec<String> = known.iter().map(shown).collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        self.errors.not_supported(self.field(name), value, &known);
    }

    fn members(&mut self, value: &Value, schema: &Value, name: &str) {
        let members = value.as_object();
        let length = count(members.map_or(0, |members| members.len()));
        if let Some(least) = schema.int_at(&["minProperties"]).filter(|least| length < *least) {
            self.refuse(&Value::from(length), name, &format!("should have at least {least} properties"));
        }
        if let Some(most) = schema.int_at(&["maxProperties"]).filter(|most| length > *most) {
            let (length, most) = (usize::try_from(length), usize::try_from(most));
            self.errors.too_many(self.field(name), length.unwrap_or(0), most.unwrap_or(0));
        }
        if let Some(additional) = part(schema, "additionalProperties") {
            for (key, member) in members.into_iter().flat_map(|members| members.iter()) {
                if property(schema, key).is_none() {
                    self.value(member, additional, &format!("{name}.{key}"));
                }
            }
        }
        for (key, property) in named(schema, "properties") {
            if let Some(member) = value.get(key) {
                let name = if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") };
                self.value(member, property, &name);
            }
        }
        for key in list(schema, "required").iter().filter_map(Value::as_str) {
            if value.get(key).is_none() {
                self.errors.required(self.field(&format!("{name}.{key}")), "");
            }
        }
    }
}

fn count(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Int(_) => "integer",
        Value::Float(_) => "number",
        Value::String(_) | Value::Raw(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn as_float(value: &Value) -> Option<f64> {
    match value {
        Value::Int(number) => Some(*number as f64),
        Value::Float(number) => Some(*number),
        _ => None,
    }
}

fn shown(number: f64) -> String {
    number.to_string()
}
