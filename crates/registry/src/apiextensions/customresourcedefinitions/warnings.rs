//! Warnings about schemas that are accepted but do not have the apparent effect.

use std::collections::HashSet;

use corten_api::Value;

use super::schema::{any, of, part};
use crate::validation::text::{list, member, text};

/// Warnings about a definition: all of a new one, and those that an update adds.
pub(super) fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = of_definition(object);
    if let Some(old) = old {
        let before: HashSet<String> = of_definition(old).into_iter().collect();
        warnings.retain(|warning| !before.contains(warning));
    }
    warnings
}

fn of_definition(object: &Value) -> Vec<String> {
    let (mut formats, mut sets) = (Vec::new(), Vec::new());
    let versions = object.get("spec").map_or(&[][..], |spec| list(spec, "versions"));
    let mut schemas: Vec<&Value> = versions.iter().filter_map(|v| of(member(v, "schema"))).collect();
    // A schema that all versions share is checked once.
    if schemas.len() == versions.len() && schemas.iter().all(|schema| schemas.first() == Some(schema)) {
        schemas.truncate(1);
    }
    for schema in schemas {
        any(schema, &mut |schema| {
            let format = text(schema, "format");
            if !format.is_empty() && !is_known_format(text(schema, "type"), format) {
                formats.push(format!("unrecognized format \"{format}\""));
            }
            let item = part(schema, "items").map_or("", |items| text(items, "type"));
            if text(schema, "x-kubernetes-list-type") == "set" && matches!(item, "object" | "array") {
                sets.push(format!(
                    "x-kubernetes-list-type: set for items of type \"{item}\" is not supported by server-side apply or CEL validation rules"
                ));
            }
            false
        });
    }
    sets.sort_unstable();
    sets.dedup();
    formats.append(&mut sets);
    formats
}

fn is_known_format(kind: &str, format: &str) -> bool {
    const TEXTS: &[&str] = &[
        "bsonobjectid",
        "uri",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "cidr",
        "mac",
        "uuid",
        "uuid3",
        "uuid4",
        "uuid5",
        "isbn",
        "isbn10",
        "isbn13",
        "creditcard",
        "ssn",
        "hexcolor",
        "rgbcolor",
        "byte",
        "password",
        "date",
        "duration",
        "datetime",
        "k8sshortname",
        "k8slongname",
    ];
    match kind {
        "" | "string" => TEXTS.contains(&format.replace('-', "").as_str()),
        "integer" => matches!(format, "int32" | "int64"),
        "number" => matches!(format, "float" | "double"),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn updates_warn_about_additions() {
        let definition = |properties: Value| {
            let schema = value!({"openAPIV3Schema": {"type": "object", "properties": (properties)}});
            value!({"spec": {"versions": [{"name": "v1", "schema": (schema.clone())}, {"name": "v2", "schema": (schema)}]}})
        };
        let old = definition(
            value!({"a": {"type": "string", "format": "phone"}, "b": {"type": "string", "format": "date-time"}}),
        );
        let new = definition(value!({
            "a": {"type": "string", "format": "phone"},
            "b": {"type": "integer", "format": "int128"},
            "c": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object"}},
        }));
        assert_eq!(warnings(&old, None), ["unrecognized format \"phone\""]);
        assert_eq!(
            warnings(&new, Some(&old)),
            [
                "unrecognized format \"int128\"",
                "x-kubernetes-list-type: set for items of type \"object\" is not supported by server-side apply or CEL validation rules",
            ]
        );
    }
}
