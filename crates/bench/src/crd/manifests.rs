//! The definitions and objects of `corten bench crd`: a database operator's, with 100 fields, five rules and 14 KB of
//! schema, and objects of 2 KB.
//!
//! A quarter of the definitions shares one group, because names are accepted group by group; the others are spread over
//! many groups, because discovery and OpenAPI have a document for each.

use anyhow::Context;
use corten_api::{Value, json};

/// The namespace of all objects.
pub(super) const NAMESPACE: &str = "bench";
const VERSION: &str = "v1";
const GROUPS: usize = 50;

/// The templates of all manifests.
pub(super) struct Manifests {
    definition: Value,
    object: Value,
}

impl Manifests {
    pub(super) fn load() -> anyhow::Result<Manifests> {
        let parse =
            |text: &str| json::parse(text.as_bytes()).context("a manifest of the benchmark is not JSON");
        Ok(Manifests {
            definition: parse(include_str!("definition.json"))?,
            object: parse(include_str!("object.json"))?,
        })
    }

    /// The definition with this number, in JSON.
    pub(super) fn definition(&self, index: usize) -> String {
        let (plural, group) = (plural(index), group(index));
        let mut definition = self.definition.clone();
        definition.set(&["metadata", "name"], format!("{plural}.{group}"));
        definition.set(&["spec", "group"], group);
        definition.set(&["spec", "names", "plural"], plural);
        definition.set(&["spec", "names", "singular"], format!("database{index}"));
        definition.set(&["spec", "names", "shortNames"], vec![Value::from(format!("db{index}"))]);
        definition.set(&["spec", "names", "kind"], kind(index));
        definition.set(&["spec", "names", "listKind"], format!("{}List", kind(index)));
        json::write_to_string(&definition)
    }

    /// An object of the definition with this number, in JSON.
    pub(super) fn object(&self, definition: usize, name: &str) -> String {
        let mut object = self.object.clone();
        object.set(&["apiVersion"], format!("{}/{VERSION}", group(definition)));
        object.set(&["kind"], kind(definition));
        object.set(&["metadata", "name"], name);
        json::write_to_string(&object)
    }
}

/// The group of the definition with this number.
pub(super) fn group(index: usize) -> String {
    match index % 4 {
        0 => "shared.bench.example.com".to_owned(),
        _ => format!("team{}.bench.example.com", index % GROUPS),
    }
}

pub(super) fn plural(index: usize) -> String {
    format!("databases{index}")
}

pub(super) fn kind(index: usize) -> String {
    format!("Database{index}")
}

/// The path of a group version below `/apis` or `/openapi/v3/apis`.
pub(super) fn group_version(index: usize) -> String {
    format!("{}/{VERSION}", group(index))
}

/// The path of the objects of the definition with this number.
pub(super) fn objects(index: usize) -> String {
    format!("/apis/{}/namespaces/{NAMESPACE}/{}", group_version(index), plural(index))
}

/// The name of the object with this number.
pub(super) fn object_name(index: usize) -> String {
    format!("orders-{index:06}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(schema: &Value) -> usize {
        let properties = schema.get("properties").and_then(Value::as_object);
        let named: usize = properties.map_or(0, |map| map.iter().map(|(_, field)| 1 + fields(field)).sum());
        named + schema.get("items").map_or(0, fields)
    }

    fn rules(value: &Value) -> usize {
        match value {
            Value::Array(items) => items.iter().map(rules).sum(),
            Value::Object(map) => map
                .iter()
                .map(|(key, value)| match key.as_str() {
                    "x-kubernetes-validations" => value.as_array().map_or(0, <[Value]>::len),
                    _ => rules(value),
                })
                .sum(),
            _ => 0,
        }
    }

    #[test]
    fn manifests_have_the_size_that_the_goals_name() {
        let manifests = Manifests::load().unwrap();
        let text = manifests.definition(7);
        let definition = json::parse(text.as_bytes()).unwrap();
        let schema =
            definition.items_at(&["spec", "versions"])[0].at(&["schema", "openAPIV3Schema"]).unwrap();
        assert!((90..=110).contains(&fields(schema)), "{} fields", fields(schema));
        assert_eq!(rules(schema), 5);
        assert_eq!(definition.str_at(&["metadata", "name"]), Some("databases7.team7.bench.example.com"));
        let object = manifests.object(7, &object_name(3));
        assert!((2000..2300).contains(&object.len()), "{} bytes", object.len());
    }

    #[test]
    fn a_quarter_of_the_definitions_shares_a_group() {
        let shared = (0..2000).filter(|index| group(*index) == group(0)).count();
        let groups: std::collections::BTreeSet<String> = (0..2000).map(group).collect();
        assert_eq!(shared, 500);
        assert!(groups.len() > 25, "{} groups", groups.len());
    }
}
