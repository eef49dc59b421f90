//! Validation that webhooks and policies share: rules for requests, match conditions, parameters.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, names};

use super::expressions::Conditions;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, member, text};

const STATIC_SUFFIX: &str = ".static.k8s.io";
const MATCH_CONDITIONS_MAX: usize = 64;

pub(super) const SPEC: Field<'static> = Field::new("spec");

pub(super) fn spec(object: &Value) -> &Value {
    object.get("spec").unwrap_or(&Value::Null)
}

fn is_static(object: &Value) -> bool {
    object.str_at(&["metadata", "name"]).is_some_and(|name| name.ends_with(STATIC_SUFFIX))
}

fn static_complaint() -> String {
    format!(
        "names ending with \"{STATIC_SUFFIX}\" are reserved for static manifest-based configurations and cannot be managed via the API"
    )
}

/// Refuses names that are reserved for configurations that a server reads from files.
pub(super) fn refuse_static_name(object: &Value, errors: &mut ErrorList) {
    if is_static(object) {
        let name = object.at(&["metadata", "name"]).unwrap_or(&Value::Null);
        errors.invalid("metadata.name", name, static_complaint());
    }
}

/// The same for stored objects, as warnings.
pub(super) fn static_name_warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let warn = old.is_some() && is_static(object);
    warn.then(|| format!("metadata.name: {}", static_complaint())).into_iter().collect()
}

/// A text that must be one of these, unless it is missing.
pub(super) fn validate_choice(
    owner: &Value,
    key: &str,
    known: &[&str],
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if let Some(choice) = member(owner, key)
        && !choice.as_str().is_some_and(|choice| known.contains(&choice))
    {
        errors.not_supported(at.child(key), choice, known);
    }
}

pub(super) const FAILURE_POLICIES: &[&str] = &["Fail", "Ignore"];
pub(super) const MATCH_POLICIES: &[&str] = &["Equivalent", "Exact"];
pub(super) const REINVOCATION_POLICIES: &[&str] = &["IfNeeded", "Never"];

fn validate_wildcard(values: &[Value], what: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if values.len() > 1 && values.iter().any(|value| value.as_str() == Some("*")) {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.invalid(at, &Value::from(values.to_vec()), why);
    }
}

pub(super) fn validate_rule(rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
    let operations = list(rule, "operations");
    if operations.is_empty() {
        errors.required(at.child("operations"), "");
    }
    validate_wildcard(operations, "operations", &at.child("operations"), errors);
    for (i, operation) in operations.iter().enumerate() {
        if !operation.as_str().is_some_and(|name| OPERATIONS.contains(&name)) {
            errors.not_supported(at.child("operations").index(i), operation, OPERATIONS);
        }
    }
    for (key, what) in [("apiGroups", "API groups"), ("apiVersions", "API versions")] {
        if list(rule, key).is_empty() {
            errors.required(at.child(key), "");
        }
        validate_wildcard(list(rule, key), what, &at.child(key), errors);
    }
    for (i, version) in list(rule, "apiVersions").iter().enumerate() {
        if version.as_str().unwrap_or_default().is_empty() {
            errors.required(at.child("apiVersions").index(i), "");
        }
    }
    validate_resources(list(rule, "resources"), &at.child("resources"), errors);
    validate_choice(rule, "scope", &["*", "Cluster", "Namespaced"], at, errors);
}

/// Resources and subresources, none of which another one includes.
fn validate_resources(resources: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    if resources.is_empty() {
        errors.required(at, "");
    }
    let all = || resources.iter().map(|resource| resource.as_str().unwrap_or_default());
    let mut earlier: HashSet<(&str, &str)> = HashSet::new();
    for (i, resource) in all().enumerate() {
        if resource.is_empty() {
            errors.required(at.index(i), "");
        }
        let Some((main, sub)) = resource.split_once('/') else { continue };
        let mut refuse = |including: String| {
            let why = format!("if '{including}' is present, must not specify {resource}");
            errors.invalid(at.index(i), &Value::from(resource), why);
        };
        if earlier.contains(&(main, "*")) {
            refuse(format!("{main}/*"));
        }
        if earlier.contains(&("*", sub)) {
            refuse(format!("*/{sub}"));
        }
        // Only these are checked.
        if main == "*" || sub == "*" {
            earlier.insert((main, sub));
        }
    }
    if resources.len() > 1 && all().any(|resource| resource == "*/*") {
        let why = "if '*/*' is present, must not specify other resources";
        errors.invalid(at, &Value::from(resources.to_vec()), why);
    }
    // Upstream keeps only the last resource without a subresource.
    let plain = all().rfind(|resource| !resource.is_empty() && !resource.contains('/'));
    if all().any(|resource| resource == "*") && plain.is_some_and(|resource| resource != "*") {
        let why = "if '*' is present, must not specify other resources without subresources";
        errors.invalid(at, &Value::from(resources.to_vec()), why);
    }
}

/// The matched requests of a policy or binding.
pub(super) fn validate_match_resources(resources: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_choice(resources, "matchPolicy", MATCH_POLICIES, at, errors);
    for key in ["namespaceSelector", "objectSelector"] {
        let options = LabelSelectorOptions::default();
        validate_label_selector(member(resources, key), options, &at.child(key), errors);
    }
    for key in ["resourceRules", "excludeResourceRules"] {
        for (i, rule) in list(resources, key).iter().enumerate() {
            let at = at.child(key);
            let at = at.index(i);
            validate_resource_names(list(rule, "resourceNames"), &at.child("resourceNames"), errors);
            validate_rule(rule, &at, errors);
        }
    }
}

fn validate_resource_names(names: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let repeats = Repeats::of(names, ByContent);
    for (i, name) in names.iter().enumerate() {
        let at = at.index(i);
        let text = name.as_str().unwrap_or_default();
        complain(&at, text, names::path_segment_name(text), errors);
        if repeats.at(i) {
            errors.duplicate(at, name);
        }
    }
}

pub(super) fn validate_match_conditions(
    conditions: &[Value],
    expressions: &Conditions<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if conditions.len() > MATCH_CONDITIONS_MAX {
        errors.too_many(at, conditions.len(), MATCH_CONDITIONS_MAX);
    }
    let repeats = Repeats::of(conditions, |item| text(item, "name"));
    for (i, condition) in conditions.iter().enumerate() {
        let (at, name) = (at.index(i), text(condition, "name"));
        expressions.validate(text(condition, "expression"), &at.child("expression"), errors);
        match name {
            "" => errors.required(at.child("name"), ""),
            name => complain(&at.child("name"), name, names::qualified_name(name), errors),
        }
        if !name.is_empty() && repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(name));
        }
    }
}
