//! Merges version 2 documents: a definition that differs from an earlier one of the same name is renamed.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use corten_api::openapi::Foreign;
use corten_api::{Value, json};

use super::filter::{DEFINITIONS, PARAMETERS, Spec};

const KINDS: &str = "x-kubernetes-group-version-kind";

/// Merges documents, in order, into one whose names do not conflict with this server's own definitions.
pub(in crate::aggregation) fn merge(own: Value, specs: &[Arc<Spec>], hash: String) -> Foreign {
    let mut known: BTreeMap<String, Value> = BTreeMap::new();
    if let Value::Object(own) = own {
        known.extend(own.iter().map(|(name, value)| (name.to_string(), without_kinds(value.clone()))));
    }
    let mut known_parameters: BTreeMap<String, Value> = BTreeMap::new();
    let mut merged = Foreign { hash, ..Foreign::default() };
    let mut paths = BTreeSet::new();
    for spec in specs {
        let definitions = parsed(&spec.definitions);
        let parameters = parsed(&spec.parameters);
        let mut renames = BTreeMap::new();
        for (from, prefix, own) in
            [(&known, DEFINITIONS, &definitions), (&known_parameters, PARAMETERS, &parameters)]
        {
            for (name, new) in renamed(from, own) {
                renames.insert(format!("{prefix}{name}"), format!("{prefix}{new}"));
            }
        }
        let new_name = |prefix: &str, name: &str| match renames.get(&format!("{prefix}{name}")) {
            Some(new) => new[prefix.len()..].to_owned(),
            None => name.to_owned(),
        };
        for (path, text) in &spec.paths {
            if paths.insert(path.clone()) {
                merged.paths.push((path.clone(), rewritten(text, &renames)));
            }
        }
        for (section, prefix, known, items) in [
            (&mut merged.definitions, DEFINITIONS, &mut known, definitions),
            (&mut merged.parameters, PARAMETERS, &mut known_parameters, parameters),
        ] {
            for (name, mut value) in items {
                let name = new_name(prefix, &name);
                if !known.contains_key(&name) {
                    known.insert(name.clone(), without_kinds(value.clone()));
                    rewrite(&mut value, &renames);
                    section.push((name, json::write_to_string(&value)));
                }
            }
        }
    }
    merged
}

fn parsed(items: &[(String, String)]) -> BTreeMap<String, Value> {
    let value = |text: &str| json::parse(text.as_bytes()).unwrap_or_default();
    items.iter().map(|(name, text)| (name.clone(), value(text))).collect()
}

fn without_kinds(mut value: Value) -> Value {
    value.remove(&[KINDS]);
    value
}

/// The new names of items that differ from known ones: the first of `NAME_v2`, `NAME_v3`, … that is free, or is the same.
fn renamed(known: &BTreeMap<String, Value>, own: &BTreeMap<String, Value>) -> BTreeMap<String, String> {
    let mut renames = BTreeMap::new();
    let mut taken: BTreeSet<String> = BTreeSet::new();
    for (name, value) in own {
        let value = without_kinds(value.clone());
        if known.get(name).is_none_or(|known| *known == value) {
            continue;
        }
        let candidates = (2..).map(|i: u32| format!("{name}_v{i}"));
        let is_free = |candidate: &String| match known.get(candidate) {
            Some(known) => *known == value,
            None => !own.contains_key(candidate) && !taken.contains(candidate),
        };
        if let Some(new) = candidates.into_iter().find(is_free) {
            taken.insert(new.clone());
            renames.insert(name.clone(), new);
        }
    }
    renames
}

fn rewritten(text: &str, renames: &BTreeMap<String, String>) -> String {
    if renames.is_empty() {
        return text.to_owned();
    }
    let mut value = json::parse(text.as_bytes()).unwrap_or_default();
    rewrite(&mut value, renames);
    json::write_to_string(&value)
}

/// Replaces the references to renamed items.
fn rewrite(value: &mut Value, renames: &BTreeMap<String, String>) {
    let mut pending = vec![value];
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items.iter_mut()),
            Value::Object(members) => {
                for (key, member) in members.iter_mut() {
                    match member {
                        Value::String(text) if key == "$ref" => {
                            if let Some(new) = renames.get(text.as_str()) {
                                *member = Value::from(new.as_str());
                            }
                        }
                        Value::Array(_) | Value::Object(_) => pending.push(member),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    fn spec(path: &str, definitions: &str) -> Arc<Spec> {
        let body = format!(
            r##"{{"paths": {{"/apis/{path}/things": {{"get": {{"schema": {{"$ref": "#/definitions/A"}}}}}}}}, "definitions": {definitions}}}"##
        );
        Arc::new(Spec::parse(body.as_bytes(), &format!("/apis/{path}/")).unwrap())
    }

    #[test]
    fn different_definitions_of_one_name_are_renamed() {
        let own = value!({"Meta": {"type": "object"}});
        let first = spec(
            "g/v1",
            r##"{"A": {"properties": {"m": {"$ref": "#/definitions/Meta"}}}, "Meta": {"type": "object", "x-kubernetes-group-version-kind": []}}"##,
        );
        let second = spec(
            "h/v1",
            r##"{"A": {"type": "string", "m": {"$ref": "#/definitions/Meta"}}, "Meta": {"type": "integer"}}"##,
        );
        let third = spec(
            "i/v1",
            r##"{"A": {"type": "string", "m": {"$ref": "#/definitions/Meta"}}, "Meta": {"type": "integer"}}"##,
        );
        let merged = merge(own, &[first, second, third], String::new());
        let names: Vec<&str> = merged.definitions.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(names, ["A", "A_v2", "Meta_v2"]);
        assert_eq!(merged.definitions[1].1, r##"{"m":{"$ref":"#/definitions/Meta_v2"},"type":"string"}"##);
        let paths: Vec<&str> = merged.paths.iter().map(|(_, item)| item.as_str()).collect();
        let to = |name: &str| format!(r##"{{"get":{{"schema":{{"$ref":"#/definitions/{name}"}}}}}}"##);
        assert_eq!(paths, [to("A"), to("A_v2"), to("A_v2")]);
    }
}
