//! Parses files and flags into fields. A value of another type than its field's is an error.

use corten_api::{Value, json, value};

use super::fields::{FIELDS, Shape};
use super::{ConfigurationError, fits};

/// The known fields of a tree, and the paths of unknown ones.
pub(super) fn known_fields(tree: &Value) -> Result<(Value, Vec<String>), ConfigurationError> {
    let mut known = value!({});
    let mut unknown = Vec::new();
    let mut found = Found { known: &mut known, unknown: &mut unknown };
    let members = tree.as_object().into_iter().flat_map(corten_api::Map::iter);
    for (name, value) in members.filter(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion")) {
        found.take(&mut vec![name.as_str()], value)?;
    }
    Ok((known, unknown))
}

struct Found<'a> {
    known: &'a mut Value,
    unknown: &'a mut Vec<String>,
}

impl Found<'_> {
    fn take<'v>(&mut self, path: &mut Vec<&'v str>, value: &'v Value) -> Result<(), ConfigurationError> {
        let name = path.join(".");
        if let Some(field) = FIELDS.iter().find(|field| field.path == name) {
            if !fits(field.shape, value) {
                return Err(ConfigurationError::Field {
                    path: name,
                    complaint: complaint(field.shape, value),
                });
            }
            if !value.is_null() {
                self.known.set(path, value.clone());
            }
            return Ok(());
        }
        let prefix = format!("{name}.");
        if !FIELDS.iter().any(|field| field.path.starts_with(&prefix)) {
            self.unknown.push(name);
            return Ok(());
        }
        match value {
            Value::Object(members) => {
                for (member, value) in members.iter() {
                    path.push(member.as_str());
                    self.take(path, value)?;
                    path.pop();
                }
                Ok(())
            }
            Value::Null => Ok(()),
            other => {
                let complaint = format!("{} has no fields", json::write_to_string(other));
                Err(ConfigurationError::Field { path: name, complaint })
            }
        }
    }
}

fn complaint(shape: Shape, value: &Value) -> String {
    let what = match shape {
        Shape::Bool => "neither true nor false",
        Shape::Int | Shape::Float => "no number",
        Shape::Text => "no text",
        Shape::Duration => "no time such as 1m30s",
        Shape::Texts => "no list of texts",
        Shape::Map(_) => "no map of texts",
        Shape::Bools => "no map of true and false",
        Shape::Other => "not understood",
    };
    format!("{} is {what}", json::write_to_string(value))
}

/// A text that is not a value of its field.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct InvalidValue(String);

/// Parses the value of a flag.
pub(super) fn flag(shape: Shape, text: &str) -> Result<Value, InvalidValue> {
    let given = || Value::from(text);
    let refused = || InvalidValue(complaint(shape, &given()));
    let parts = || text.split(',').map(str::trim).filter(|part| !part.is_empty());
    Ok(match shape {
        Shape::Bool => Value::Bool(text.parse().map_err(|_| refused())?),
        Shape::Int => Value::Int(text.parse().map_err(|_| refused())?),
        Shape::Float => Value::Float(text.parse().map_err(|_| refused())?),
        Shape::Duration => {
            go_seconds(text).map_err(|_| refused())?;
            given()
        }
        Shape::Text | Shape::Other => given(),
        Shape::Texts => Value::Array(parts().map(Value::from).collect()),
        Shape::Map(separator) => {
            let mut map = value!({});
            for part in parts() {
                let (name, value) = part.split_once(separator).ok_or_else(refused)?;
                map.set(&[name.trim()], value.trim());
            }
            map
        }
        Shape::Bools => {
            let mut map = value!({});
            for part in parts() {
                let (name, value) = part.split_once('=').ok_or_else(refused)?;
                map.set(&[name.trim()], value.trim().parse::<bool>().map_err(|_| refused())?);
            }
            map
        }
    })
}

/// Parses a duration in Go's notation into seconds: `30s`, `1m30s`, `1.5h`; `0` needs no unit.
pub(super) fn go_seconds(text: &str) -> Result<f64, InvalidValue> {
    let refused = || InvalidValue(format!("{text:?} is not a duration"));
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Ok(0.0);
    }
    let mut seconds = 0.0;
    if rest.is_empty() {
        return Err(refused());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(refused)?;
        let (number, after) = rest.split_at(digits);
        let letters = after.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(after.len());
        let (unit, after) = after.split_at(letters);
        let unit = match unit {
            "ns" => 1e-9,
            "us" | "µs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return Err(refused()),
        };
        seconds += number.parse::<f64>().map_err(|_| refused())? * unit;
        rest = after;
    }
    Ok(sign * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_parsed_as_in_go() {
        for (text, seconds) in
            [("0", 0.0), ("0s", 0.0), ("1m30s", 90.0), ("100ms", 0.1), ("4h0m0s", 14400.0), ("-1s", -1.0)]
        {
            assert!((go_seconds(text).unwrap() - seconds).abs() < 1e-9, "{text}");
        }
        for bad in ["", "s", "1", "1x", "soon"] {
            assert!(go_seconds(bad).is_err(), "{bad}");
        }
    }
}
