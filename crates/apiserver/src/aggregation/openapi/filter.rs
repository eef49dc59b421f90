//! The part of a version 2 document that belongs to one group version: its paths, and what they refer to.

use std::collections::BTreeSet;

use corten_api::{Value, json};
use sha2::{Digest, Sha256};

pub(super) const DEFINITIONS: &str = "#/definitions/";
pub(super) const PARAMETERS: &str = "#/parameters/";

/// The paths of a group version, and the definitions and parameters that they refer to, as JSON texts by name.
#[derive(Debug, Default)]
pub(crate) struct Spec {
    pub(super) paths: Vec<(String, String)>,
    pub(super) definitions: Vec<(String, String)>,
    pub(super) parameters: Vec<(String, String)>,
    pub(super) digest: [u8; 32],
}

impl Spec {
    /// Reads a document and keeps the paths that begin with a prefix.
    pub(in crate::aggregation) fn parse(body: &[u8], prefix: &str) -> Result<Spec, String> {
        let document = json::parse(body).map_err(|error| error.to_string())?;
        if document.as_object().is_none() {
            return Err("invalid OpenAPI document: not an object".to_owned());
        }
        let members = |section: &str| document.get(section).and_then(Value::as_object);
        let paths = members("paths").into_iter().flat_map(|paths| paths.iter());
        let paths: Vec<(&str, &Value)> = paths
            .map(|(path, item)| (path.as_str(), item))
            .filter(|(path, item)| path.starts_with(prefix) && item.as_object().is_some())
            .collect();
        let mut found = BTreeSet::new();
        let mut pending: Vec<&Value> = paths.iter().map(|(_, item)| *item).collect();
        while let Some(value) = pending.pop() {
            for reference in references(value) {
                let target = [("definitions", DEFINITIONS), ("parameters", PARAMETERS)]
                    .into_iter()
                    .find_map(|(section, prefix)| Some((section, reference.strip_prefix(prefix)?)));
                let Some((section, name)) = target else { continue };
                let known = members(section).and_then(|members| members.get(name));
                if let Some(known) = known.filter(|known| known.as_object().is_some())
                    && found.insert((section, name.to_owned()))
                {
                    pending.push(known);
                }
            }
        }
        let kept = |section: &str| -> Vec<(String, String)> {
            let names = found.iter().filter(|(of, _)| *of == section);
            let text = |name: &str| members(section)?.get(name).map(json::write_to_string);
            names.filter_map(|(_, name)| Some((name.clone(), text(name)?))).collect()
        };
        let paths =
            paths.iter().map(|(path, item)| ((*path).to_owned(), json::write_to_string(item))).collect();
        let mut spec =
            Spec { paths, definitions: kept("definitions"), parameters: kept("parameters"), digest: [0; 32] };
        spec.digest = spec.digest();
        Ok(spec)
    }

    fn digest(&self) -> [u8; 32] {
        let mut digest = Sha256::new();
        for (name, text) in self.paths.iter().chain(&self.definitions).chain(&self.parameters) {
            digest.update(name);
            digest.update([0]);
            digest.update(text);
            digest.update([0]);
        }
        digest.finalize().into()
    }
}

/// The references in a value, at any depth.
fn references(value: &Value) -> Vec<String> {
    let (mut found, mut pending) = (Vec::new(), vec![value]);
    while let Some(value) = pending.pop() {
        match value {
            Value::Array(items) => pending.extend(items),
            Value::Object(members) => {
                for (key, member) in members.iter() {
                    match member {
                        Value::String(text) if key == "$ref" => found.push(unescaped(text)),
                        Value::Array(_) | Value::Object(_) => pending.push(member),
                        _ => {}
                    }
                }
            }
            _ => {}
        }
    }
    found
}

/// A JSON pointer without its escapes.
fn unescaped(pointer: &str) -> String {
    pointer.replace("~1", "/").replace("~0", "~")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_document_is_reduced_to_one_group_version() {
        let body = br##"{"swagger": "2.0", "paths": {
            "/apis/g/v1/things": {"get": {"parameters": [{"$ref": "#/parameters/limit"}], "responses": {"200": {"schema": {"$ref": "#/definitions/A"}}}}},
            "/apis/g/v1/lie": 5,
            "/apis/g/v10/things": {"get": {}},
            "/api/v1/secrets": {"get": {"schema": {"$ref": "#/definitions/Secret"}}}},
          "parameters": {"limit": {"name": "limit", "in": "query", "type": "integer"}, "other": {}},
          "definitions": {"A": {"properties": {"b": {"$ref": "#/definitions/B"}, "a": {"$ref": "#/definitions/A"}}}, "B": {"type": "string"}, "Secret": {}}}"##;
        let spec = Spec::parse(body, "/apis/g/v1/").unwrap();
        let names =
            |items: &[(String, String)]| items.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
        assert_eq!(names(&spec.paths), ["/apis/g/v1/things"]);
        assert_eq!(names(&spec.definitions), ["A", "B"]);
        assert_eq!(names(&spec.parameters), ["limit"]);
    }

    #[test]
    fn anything_else_is_an_error() {
        for body in ["", "[]", "5", "{"] {
            assert!(Spec::parse(body.as_bytes(), "/apis/g/v1/").is_err(), "{body}");
        }
        assert!(Spec::parse(br#"{"paths": [], "definitions": 5}"#, "/apis/g/v1/").unwrap().paths.is_empty());
    }
}
