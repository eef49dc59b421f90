//! Validation of the defaults in a schema: the schema itself must accept them.
//!
//! A default within `metadata`, `apiVersion` or `kind` of a resource is validated as part of a resource that has
//! nothing else.

use corten_api::status::ErrorList;
use corten_api::{Field, Str, Value};
use corten_cel::library::regex::{Budget, Patterns};

use crate::metadata::{self, Malformed};
use crate::prune::{is_type_or_object_meta, prune_node};
use crate::rules::{OBJECT_COST_BUDGET, Rules};
use crate::schema::{Node, Schema};
use crate::validate;

/// Validates every default in a schema (`Schema::compile_unpruned`). `must_be_pruned` refuses defaults with unknown
/// fields.
pub fn validate_defaults(schema: &Schema, must_be_pruned: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let root = schema.root();
    let mut validator = Validator {
        must_be_pruned,
        budget: Some(OBJECT_COST_BUDGET),
        constants: Budget::lenient(Budget::SCHEMA),
        patterns: Patterns::default(),
        errors,
    };
    validator.visit(root, &Place { resource: root, steps: None, in_metadata: false, is_resource: true }, at);
}

/// Returns true if no default has fields that its schema does not have.
pub fn are_pruned(schema: &Schema) -> bool {
    node_is_pruned(schema.root())
}

fn node_is_pruned(node: &Node) -> bool {
    node.default.as_ref().is_none_or(|default| is_pruned(default, node))
        && node.items.as_deref().is_none_or(node_is_pruned)
        && node.properties.iter().all(|(_, property)| node_is_pruned(property))
}

fn is_pruned(default: &Value, node: &Node) -> bool {
    let mut pruned = default.clone();
    prune_node(&mut pruned, node, node.embedded_resource, None);
    pruned == *default
}

/// The place of a schema within its innermost resource.
struct Place<'p> {
    resource: &'p Node,
    steps: Option<&'p Steps<'p>>,
    in_metadata: bool,
    /// True for the resource itself.
    is_resource: bool,
}

/// The fields and items that lead to a schema, last first.
struct Steps<'p> {
    /// None for an item.
    field: Option<&'p Str>,
    before: Option<&'p Steps<'p>>,
}

struct Validator<'e> {
    must_be_pruned: bool,
    /// The cost that rules may still have; none if it is exceeded.
    budget: Option<i64>,
    /// The budget of the constant patterns of rules, and their other patterns.
    constants: Budget,
    patterns: Patterns,
    errors: &'e mut ErrorList,
}

impl Validator<'_> {
    fn visit(&mut self, node: &Node, place: &Place<'_>, at: &Field<'_>) {
        if self.errors.is_full() || self.budget.is_none() {
            return;
        }
        let own;
        let place = if node.embedded_resource {
            own = Place { resource: node, steps: None, in_metadata: false, is_resource: true };
            &own
        } else {
            place
        };
        if let Some(default) = &node.default {
            let at = at.child("default");
            if place.in_metadata {
                self.default_in_metadata(default, node, place, &at);
            } else {
                self.default(default, node, place.is_resource, &at);
            }
        }
        if let Some(items) = &node.items {
            let steps = Steps { field: None, before: place.steps };
            let inner = Place { steps: Some(&steps), is_resource: false, ..*place };
            self.visit(items, &inner, &at.child("items"));
        }
        for (name, property) in &node.properties {
            let steps = Steps { field: Some(name), before: place.steps };
            let in_metadata = place.in_metadata || (place.is_resource && is_type_or_object_meta(name));
            let inner = Place { steps: Some(&steps), in_metadata, is_resource: false, ..*place };
            self.visit(property, &inner, &at.child("properties").key(name));
        }
    }

    fn default(&mut self, default: &Value, node: &Node, is_resource: bool, at: &Field<'_>) {
        if self.must_be_pruned && !is_pruned(default, node) {
            self.errors.invalid(at, default, "must not have unknown fields");
        }
        let mut coerced = default.clone();
        let coercion = metadata::coerce_error(&mut coerced, node, node.embedded_resource, at);
        if let Err(error) = coercion {
            self.errors.add(*error);
            return;
        }
        let mut found = ErrorList::new();
        metadata::validate_node(&coerced, Some(node), node.embedded_resource, at, &mut found);
        if found.is_empty() {
            validate::validate_default(&coerced, node, &at.to_string(), &mut found);
        }
        if found.is_empty() {
            self.rules(&coerced, node, is_resource, at);
        }
        found.0.into_iter().for_each(|error| self.errors.add(error));
    }

    fn rules(&mut self, default: &Value, node: &Node, is_resource: bool, at: &Field<'_>) {
        let Some(budget) = self.budget else { return };
        let rules = Rules::of_node(node, is_resource, &self.constants);
        self.budget = rules.validate_default(default, node, (budget, &self.patterns), at, self.errors);
    }

    fn default_in_metadata(&mut self, default: &Value, node: &Node, place: &Place<'_>, at: &Field<'_>) {
        let mut resource = surrounding(default.clone(), place.steps);
        let members = resource.make_object();
        for (key, text) in [("kind", "Validation"), ("apiVersion", "validation/v1")] {
            if !members.contains_key(key) {
                members.insert(key, text);
            }
        }
        let mut found = ErrorList::new();
        let coerced = metadata::coerce_node(
            &mut resource,
            place.resource,
            true,
            &Field::ROOT,
            Malformed::Refused,
            None,
        );
        if let Err(why) = coerced {
            self.errors.invalid(at, default, format!("must result in valid metadata: {why}"));
            return;
        }
        metadata::validate_node(&resource, Some(place.resource), true, &Field::ROOT, &mut found);
        if !found.is_empty() {
            let why = found.summary();
            self.errors.invalid(at, default, format!("must result in valid metadata: {why}"));
            return;
        }
        validate::validate_default(default, node, &at.to_string(), &mut found);
        if found.is_empty() {
            self.rules(default, node, place.is_resource, at);
        }
        found.0.into_iter().for_each(|error| self.errors.add(error));
    }
}

/// The resource that has nothing but a value.
fn surrounding(value: Value, steps: Option<&Steps<'_>>) -> Value {
    let mut value = value;
    let mut next = steps;
    while let Some(step) = next {
        value = match step.field {
            Some(field) => Value::Object([(field.clone(), value)].into_iter().collect()),
            None => Value::Array(vec![value]),
        };
        next = step.before;
    }
    value
}

#[cfg(test)]
mod tests {
    use corten_api::json;

    use super::*;

    #[track_caller]
    fn check(property: &str, expected: &str) {
        let schema = format!(r#"{{"type":"object","properties":{{"a":{property}}}}}"#);
        let schema = Schema::compile_unpruned(&json::parse(schema.as_bytes()).unwrap()).unwrap();
        let mut errors = ErrorList::new();
        validate_defaults(&schema, true, &Field::new("s"), &mut errors);
        assert_eq!(errors.summary(), expected, "{property}");
    }

    #[test]
    fn the_schema_accepts_its_defaults() {
        check(r#"{"type":"string","default":"x"}"#, "");
        check(
            r#"{"type":"string","default":1}"#,
            r#"s.properties[a].default: Invalid value: "integer":  in body must be of type string: "integer""#,
        );
        check(
            r#"{"type":"object","default":{"b":1},"properties":{"c":{"type":"array","items":{"type":"string","default":"","minLength":1}}}}"#,
            r#"[s.properties[a].default: Invalid value: {"b":1}: must not have unknown fields, s.properties[a].properties[c].items.default: Invalid value: "":  in body should be at least 1 chars long]"#,
        );
        check(r#"{"x-kubernetes-int-or-string":true,"default":true}"#, "");
        check(
            r#"{"type":"object","default":{"l":[1,"x"]},"properties":{"l":{"type":"array","items":{"type":"integer"}}}}"#,
            r#"s.properties[a].default.l[1]: Invalid value: "string": l[1] in body must be of type integer: "string""#,
        );
    }

    #[test]
    fn metadata_in_defaults_is_valid() {
        let pod = |metadata: &str| {
            format!(
                r#"{{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"properties":{{"metadata":{metadata}}}}}"#
            )
        };
        check(&pod(r#"{"type":"object","default":{"labels":{"a":"b"}}}"#), "");
        check(
            &pod(r#"{"type":"object","default":{"labels":{"a":1}}}"#),
            r#"s.properties[a].properties[metadata].default: Invalid value: {"labels":{"a":1}}: must result in valid metadata: metadata: Invalid value: {"labels":{"a":1}}: json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"#,
        );
        check(
            &pod(r#"{"type":"object","properties":{"name":{"type":"string","default":"a/b"}}}"#),
            r#"s.properties[a].properties[metadata].properties[name].default: Invalid value: "a/b": must result in valid metadata: metadata.name: Invalid value: "a/b": may not contain '/'"#,
        );
        check(
            r#"{"type":"object","x-kubernetes-embedded-resource":true,"x-kubernetes-preserve-unknown-fields":true,"default":{"kind":"K"}}"#,
            "s.properties[a].default.apiVersion: Required value",
        );
    }
}
