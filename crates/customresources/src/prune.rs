//! Pruning: fields that the schema does not specify are removed.
//!
//! Below `x-kubernetes-preserve-unknown-fields` only values of specified fields are pruned. `apiVersion`, `kind` and
//! `metadata` of a resource are left alone: `metadata` prunes them.

use corten_api::Value;

use crate::schema::{Node, Schema};

/// Maximum length of all reported paths together: a key can be as long as the object.
const MAX_REPORT_BYTES: usize = 256 * 1024;

/// Removes unknown fields of a custom resource. `unknown` receives their paths in order, `spec.foo` or `spec.list[0].foo`.
pub fn prune(object: &mut Value, schema: &Schema, unknown: Option<&mut Vec<String>>) {
    prune_node(object, schema.root(), true, unknown);
}

/// Removes unknown fields of the value of a node; `is_resource` is true for a resource, even if the node does not say so.
pub(crate) fn prune_node(
    value: &mut Value,
    node: &Node,
    is_resource: bool,
    unknown: Option<&mut Vec<String>>,
) {
    let mut report = Report::new(unknown.is_some());
    Pruner { report: &mut report }.value(value, Some(node), is_resource);
    if let Some(unknown) = unknown {
        report.found.sort();
        unknown.append(&mut report.found);
    }
}

/// Returns true for the fields of a resource that every resource has.
pub(crate) fn is_type_or_object_meta(key: &str) -> bool {
    matches!(key, "apiVersion" | "kind" | "metadata")
}

/// The paths of removed fields, and the path of the current value.
struct Report {
    is_wanted: bool,
    path: String,
    found: Vec<String>,
    bytes: usize,
}

impl Report {
    fn new(is_wanted: bool) -> Report {
        Report { is_wanted, path: String::new(), found: Vec::new(), bytes: 0 }
    }

    fn push_key(&mut self, key: &str) -> usize {
        let before = self.path.len();
        if self.is_wanted {
            if before > 0 {
                self.path.push('.');
            }
            self.path.push_str(key);
        }
        before
    }

    fn push_index(&mut self, index: usize) -> usize {
        let before = self.path.len();
        if self.is_wanted {
            self.path.push_str(&format!("[{index}]"));
        }
        before
    }

    fn add(&mut self, key: &str) {
        if !self.is_wanted || self.bytes > MAX_REPORT_BYTES {
            return;
        }
        let before = self.push_key(key);
        self.bytes += self.path.len();
        self.found.push(self.path.clone());
        self.path.truncate(before);
    }
}

struct Pruner<'r> {
    report: &'r mut Report,
}

impl Pruner<'_> {
    fn value(&mut self, value: &mut Value, node: Option<&Node>, is_resource: bool) {
        let is_resource = is_resource || node.is_some_and(|node| node.embedded_resource);
        if let Some(node) = node.filter(|node| node.preserve_unknown_fields) {
            self.specified(value, Some(node), is_resource);
            return;
        }
        match value {
            Value::Object(map) => {
                let mut properties = node.map(Node::in_order);
                map.retain(|key, value| {
                    let property = properties.as_mut().and_then(|properties| properties.property(key));
                    self.keep(key, value, node, property, is_resource)
                });
            }
            Value::Array(items) => {
                let node = node.and_then(|node| node.items.as_deref());
                for (i, item) in items.iter_mut().enumerate() {
                    let before = self.report.push_index(i);
                    self.value(item, node, false);
                    self.report.path.truncate(before);
                }
            }
            _ => {}
        }
    }

    /// Prunes the value of a field whose schema is `property`, if it is named; returns false if the field is unknown.
    fn keep(
        &mut self,
        key: &str,
        value: &mut Value,
        node: Option<&Node>,
        property: Option<&Node>,
        is_resource: bool,
    ) -> bool {
        if is_resource && is_type_or_object_meta(key) {
            return true;
        }
        let found = node.and_then(|node| match property {
            Some(property) => Some(Some(property)),
            None if node.additional.is_absent() => None,
            None => Some(node.additional.schema()),
        });
        let Some(inner) = found else {
            self.report.add(key);
            return false;
        };
        let before = self.report.push_key(key);
        self.value(value, inner, false);
        self.report.path.truncate(before);
        true
    }

    /// Prunes only the values of fields that the node specifies.
    fn specified(&mut self, value: &mut Value, node: Option<&Node>, is_resource: bool) {
        let Some(node) = node else { return };
        let is_resource = is_resource || node.embedded_resource;
        match value {
            Value::Object(map) => {
                for (key, value) in map.iter_mut() {
                    if is_resource && is_type_or_object_meta(key) {
                        continue;
                    }
                    let property = node.property(key);
                    if property.is_none() && node.additional.is_absent() {
                        continue;
                    }
                    let before = self.report.push_key(key);
                    self.value(value, property.or_else(|| node.additional.schema()), false);
                    self.report.path.truncate(before);
                }
            }
            Value::Array(items) => {
                for (i, item) in items.iter_mut().enumerate() {
                    let before = self.report.push_index(i);
                    self.specified(item, node.items.as_deref(), false);
                    self.report.path.truncate(before);
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    #[track_caller]
    fn check(schema: &str, object: &str, pruned: &str, paths: &[&str]) {
        let schema = Schema::compile(&json::parse(schema.as_bytes()).unwrap()).unwrap();
        let mut object = json::parse(object.as_bytes()).unwrap();
        let mut unknown = Vec::new();
        prune(&mut object, &schema, Some(&mut unknown));
        assert_eq!(json::write_to_string(&object), pruned);
        assert_eq!(unknown, paths);
    }

    #[test]
    fn unknown_fields_are_removed() {
        let spec = r#"{"type":"object","properties":{"spec":{"type":"object","properties":{
            "a":{"type":"string"},"list":{"type":"array","items":{"type":"object","properties":{"x":{"type":"integer"}}}}}}}}"#;
        check(
            spec,
            r#"{"apiVersion":"v","kind":"k","metadata":{"zz":1},"spec":{"a":1,"b":2,"list":[{"x":1},{"y":1}]},"other":{}}"#,
            r#"{"apiVersion":"v","kind":"k","metadata":{"zz":1},"spec":{"a":1,"list":[{"x":1},{}]}}"#,
            &["other", "spec.b", "spec.list[1].y"],
        );
    }

    #[test]
    fn preserved_fields_stay() {
        let spec = r#"{"type":"object","x-kubernetes-preserve-unknown-fields":true,"properties":{
            "pruned":{"type":"object","properties":{"a":{"type":"string"}}},
            "bool":{"type":"object","additionalProperties":true},
            "map":{"type":"object","additionalProperties":{"type":"object","properties":{"a":{"type":"string"}}}}}}"#;
        check(
            spec,
            r#"{"any":{"b":1},"pruned":{"a":1,"b":1},"bool":{"x":1,"y":{"z":1}},"map":{"k":{"a":1,"b":1}}}"#,
            r#"{"any":{"b":1},"bool":{"x":1,"y":{}},"map":{"k":{"a":1}},"pruned":{"a":1}}"#,
            &["bool.y.z", "map.k.b", "pruned.b"],
        );
    }

    #[test]
    fn embedded_resources_keep_their_metadata() {
        let spec = r#"{"type":"object","properties":{
            "pod":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"spec":{"type":"object"}}},
            "plain":{"type":"object"}}}"#;
        check(
            spec,
            r#"{"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"x":1},"spec":{"a":1},"b":1},"plain":{"kind":"x"}}"#,
            r#"{"plain":{},"pod":{"apiVersion":"v1","kind":"Pod","metadata":{"x":1},"spec":{}}}"#,
            &["plain.kind", "pod.b", "pod.spec.a"],
        );
    }
}
