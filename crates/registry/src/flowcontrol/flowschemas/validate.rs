//! Validation of flow schemas. Two schemas are part of every cluster and immutable.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names, value};

use crate::flowcontrol::validate_conditions;
use crate::validation::fields::{number, part};
use crate::validation::internal_form;
use crate::validation::text::{complain, list, member, text};

const HIGHEST_PRECEDENCE: i64 = 10_000;
const VERBS: [&str; 9] =
    ["create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch"];
/// Kinds of subjects, and where each is described.
const SUBJECTS: [(&str, &str); 3] =
    [("ServiceAccount", "serviceAccount"), ("User", "user"), ("Group", "group")];

pub(super) fn validate(schema: &Value, errors: &mut ErrorList) {
    let (spec, at) = (part(schema, "spec"), Field::new("spec"));
    let name = text(part(schema, "metadata"), "name");
    validate_spec(name, spec, &at, errors);
    if let Some(fixed) = fixed(name)
        && *spec != fixed
    {
        errors.invalid_shown(
            at,
            internal_form::compact("FlowSchemaSpec", spec),
            format!("spec of '{name}' must equal the fixed value"),
        );
    }
    validate_conditions(schema, errors);
}

/// The spec of a schema that is part of every cluster.
fn fixed(name: &str) -> Option<Value> {
    match name {
        "exempt" => {
            let rules = everything_of(&["system:masters"]);
            let level = value!({"name": "exempt"});
            Some(value!({"matchingPrecedence": 1, "priorityLevelConfiguration": level, "rules": rules}))
        }
        "catch-all" => {
            let rules = everything_of(&["system:unauthenticated", "system:authenticated"]);
            Some(value!({
                "matchingPrecedence": HIGHEST_PRECEDENCE,
                "priorityLevelConfiguration": {"name": "catch-all"},
                "distinguisherMethod": {"type": "ByUser"},
                "rules": rules,
            }))
        }
        _ => None,
    }
}

/// One rule that matches all requests of these groups.
fn everything_of(groups: &[&str]) -> Vec<Value> {
    let subject = |name: &&str| value!({"kind": "Group", "group": {"name": (*name)}});
    let subjects: Vec<Value> = groups.iter().map(subject).collect();
    vec![value!({
        "subjects": subjects,
        "resourceRules": [{
            "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"], "clusterScope": true, "namespaces": ["*"],
        }],
        "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
    })]
}

fn validate_spec(name: &str, spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let precedence = number(spec, "matchingPrecedence");
    let mut refuse =
        |why: String| errors.invalid(at.child("matchingPrecedence"), &Value::Int(precedence), why);
    if precedence <= 0 {
        refuse("must be a positive value".to_owned());
    }
    if precedence > HIGHEST_PRECEDENCE {
        refuse(format!("must not be greater than {HIGHEST_PRECEDENCE}"));
    }
    if precedence == 1 && name != "exempt" {
        refuse("only the schema named 'exempt' may have matchingPrecedence 1".to_owned());
    }
    if let Some(method) = member(spec, "distinguisherMethod")
        && !matches!(text(method, "type"), "ByNamespace" | "ByUser")
    {
        let at = at.child("distinguisherMethod");
        errors.not_supported_shown(
            at.child("type"),
            internal_form::compact("FlowDistinguisherMethod", method),
            &["ByNamespace", "ByUser"],
        );
    }
    let level = at.child("priorityLevelConfiguration");
    match text(part(spec, "priorityLevelConfiguration"), "name") {
        "" => errors.required(level.child("name"), "must reference a priority level"),
        name => complain(&level.child("name"), name, names::dns1123_subdomain(name), errors),
    }
    for (i, rule) in list(spec, "rules").iter().enumerate() {
        validate_rule(rule, &at.child("rules").index(i), errors);
    }
}

fn validate_rule(rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let subjects = list(rule, "subjects");
    for (i, subject) in subjects.iter().enumerate() {
        validate_subject(subject, &at.child("subjects").index(i), errors);
    }
    if subjects.is_empty() {
        errors.required(at.child("subjects"), "subjects must contain at least one value");
    }
    let (resources, urls) = (list(rule, "resourceRules"), list(rule, "nonResourceRules"));
    if resources.is_empty() && urls.is_empty() {
        errors.required(*at, "at least one of resourceRules and nonResourceRules has to be non-empty");
    }
    for (i, rule) in resources.iter().enumerate() {
        validate_resource_rule(rule, &at.child("resourceRules").index(i), errors);
    }
    for (i, rule) in urls.iter().enumerate() {
        validate_url_rule(rule, &at.child("nonResourceRules").index(i), errors);
    }
}

fn validate_subject(subject: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(subject, "kind");
    let Some((_, own)) = SUBJECTS.iter().find(|(name, _)| *name == kind) else {
        let known = ["Group", "ServiceAccount", "User"];
        errors.not_supported(at.child("kind"), &Value::from(kind), &known);
        return;
    };
    match member(subject, own) {
        None => errors.required(at.child(own), format!("{own} is required when subject kind is '{kind}'")),
        Some(account) if kind == "ServiceAccount" => {
            validate_account(account, &at.child(own), errors);
        }
        Some(named) if text(named, "name").is_empty() => errors.required(at.child(own).child("name"), ""),
        Some(_) => {}
    }
    for (name, key) in SUBJECTS.iter().filter(|(name, key)| *name != kind && member(subject, key).is_some()) {
        errors.forbidden(at.child(key), format!("{key} is forbidden when subject kind is not '{name}'"));
    }
}

fn validate_account(account: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match text(account, "name") {
        "" => errors.required(at.child("name"), ""),
        "*" => {}
        name => complain(&at.child("name"), name, names::dns1123_subdomain(name), errors),
    }
    match text(account, "namespace") {
        "" => errors.required(at.child("namespace"), "must specify namespace for service account"),
        name => complain(&at.child("namespace"), name, names::namespace_name(name), errors),
    }
}

fn has_wildcard(items: &[Value]) -> bool {
    items.iter().any(|item| item.as_str() == Some("*"))
}

/// A wildcard stands alone.
fn refuse_beside_wildcard(rule: &Value, key: &str, what: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let items = list(rule, key);
    if has_wildcard(items) && items.len() > 1 {
        let why = format!("if '*' is present, must not specify other {what}");
        errors.invalid(at.child(key), part(rule, key), why);
    }
}

fn validate_verbs(rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let verbs = list(rule, "verbs");
    if verbs.is_empty() {
        errors.required(at.child("verbs"), "verbs must contain at least one value");
    } else if has_wildcard(verbs) {
        refuse_beside_wildcard(rule, "verbs", "verbs", at, errors);
    } else if !verbs.iter().all(|verb| verb.as_str().is_some_and(|verb| VERBS.contains(&verb))) {
        errors.not_supported(at.child("verbs"), part(rule, "verbs"), &VERBS);
    }
}

fn validate_resource_rule(rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, at, errors);
    for (key, one, many) in [("apiGroups", "api group", "api groups"), ("resources", "resource", "resources")]
    {
        if list(rule, key).is_empty() {
            errors.required(at.child(key), format!("resource rules must supply at least one {one}"));
        }
        refuse_beside_wildcard(rule, key, many, at, errors);
    }
    let namespaces = list(rule, "namespaces");
    if namespaces.is_empty() && rule.bool_at(&["clusterScope"]) != Some(true) {
        let why = "resource rules that are not cluster scoped must supply at least one namespace";
        errors.required(at.child("namespaces"), why);
    } else if has_wildcard(namespaces) {
        refuse_beside_wildcard(rule, "namespaces", "namespaces", at, errors);
    } else {
        for (i, namespace) in namespaces.iter().enumerate() {
            for complaint in names::namespace_name(namespace.as_str().unwrap_or_default()) {
                let why = format!("each member of this list must be '*' or a DNS-1123 label; {complaint}");
                errors.invalid(at.child("namespaces").index(i), namespace, why);
            }
        }
    }
}

fn validate_url_rule(rule: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_verbs(rule, at, errors);
    let urls = list(rule, "nonResourceURLs");
    if urls.is_empty() {
        let why = "nonResourceURLs must contain at least one value";
        errors.required(at.child("nonResourceURLs"), why);
    } else if has_wildcard(urls) {
        refuse_beside_wildcard(rule, "nonResourceURLs", "non-resource URLs", at, errors);
    } else {
        for (i, url) in urls.iter().enumerate() {
            if let Some(why) = url_complaint(url.as_str().unwrap_or_default()) {
                errors.invalid(at.child("nonResourceURLs").index(i), url, why);
            }
        }
    }
}

/// A path from the root; a wildcard is its whole last part.
fn url_complaint(path: &str) -> Option<&'static str> {
    match path.matches('*').count() {
        _ if path.is_empty() => Some("must not be empty"),
        _ if !path.starts_with('/') => Some("must start with slash"),
        _ if path.contains(' ') => Some("must not contain white-space"),
        _ if path.contains("//") => Some("must not contain double slash"),
        0 => None,
        1 if path.ends_with("/*") => None,
        _ => Some("wildcard can only do suffix matching"),
    }
}
