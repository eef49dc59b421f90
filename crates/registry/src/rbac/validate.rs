//! Validation of roles and bindings.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::prepare::same;
use crate::rbac::GROUP;
use crate::validation::fields::{IMMUTABLE, part};
use crate::validation::internal_form;
use crate::validation::text::{complain, list, text};

/// The scope of an object's rules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Namespace,
    Cluster,
}

/// The rules of a role.
pub(crate) fn validate_rules(role: &Value, scope: Scope, errors: &mut ErrorList) {
    let at = Field::new("rules");
    for (i, rule) in list(role, "rules").iter().enumerate() {
        validate_rule(rule, scope, &at.index(i), errors);
    }
    for (i, _) in list(role, "rules").iter().enumerate().filter(|(_, rule)| list(rule, "verbs").is_empty()) {
        errors.required(at.index(i).child("verbs"), "");
    }
}

fn validate_rule(rule: &Value, scope: Scope, at: &Field<'_>, errors: &mut ErrorList) {
    let none = |key: &str| list(rule, key).is_empty();
    if !none("nonResourceURLs") {
        let mut refuse =
            |why: &str| errors.invalid(at.child("nonResourceURLs"), part(rule, "nonResourceURLs"), why);
        if scope == Scope::Namespace {
            refuse("namespaced rules cannot apply to non-resource URLs");
        }
        if !(none("apiGroups") && none("resources") && none("resourceNames")) {
            refuse("rules cannot apply to both regular resources and non-resource URLs");
        }
        return;
    }
    if none("apiGroups") {
        errors.required(at.child("apiGroups"), "resource rules must supply at least one api group");
    }
    if none("resources") {
        errors.required(at.child("resources"), "resource rules must supply at least one resource");
    }
}

/// A binding: the role it refers to and all its subjects.
pub(crate) fn validate_binding(binding: &Value, scope: Scope, errors: &mut ErrorList) {
    validate_role_ref(part(binding, "roleRef"), scope, errors);
    let at = Field::new("subjects");
    for (i, subject) in list(binding, "subjects").iter().enumerate() {
        validate_subject(subject, scope, &at.index(i), errors);
    }
    for (i, subject) in list(binding, "subjects").iter().enumerate() {
        required_name(subject, &at.index(i), errors);
    }
    required_name(part(binding, "roleRef"), &Field::new("roleRef"), errors);
}

fn required_name(reference: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    if text(reference, "name").is_empty() {
        errors.required(at.child("name"), "");
    }
}

/// The role of a binding is immutable.
pub(crate) fn validate_binding_update(new: &Value, old: &Value, scope: Scope, errors: &mut ErrorList) {
    validate_binding(new, scope, errors);
    if !same(new, old, &["roleRef"]) {
        errors.invalid_shown("roleRef", internal_form::compact("RoleRef", part(new, "roleRef")), IMMUTABLE);
    }
}

fn validate_role_ref(role: &Value, scope: Scope, errors: &mut ErrorList) {
    let at = Field::new("roleRef");
    validate_group(role, &at, errors);
    let kinds: &[&str] = match scope {
        Scope::Namespace => &["Role", "ClusterRole"],
        Scope::Cluster => &["ClusterRole"],
    };
    let kind = text(role, "kind");
    if !kinds.contains(&kind) {
        errors.not_supported(at.child("kind"), &Value::from(kind), kinds);
    }
    let name = text(role, "name");
    complain(&at.child("name"), name, names::path_segment_name(name), errors);
}

fn validate_group(reference: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let group = text(reference, "apiGroup");
    if group != GROUP {
        errors.not_supported(at.child("apiGroup"), &Value::from(group), &[GROUP]);
    }
}

fn validate_subject(subject: &Value, scope: Scope, at: &Field<'_>, errors: &mut ErrorList) {
    let name = text(subject, "name");
    match text(subject, "kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                complain(&at.child("name"), name, names::dns1123_subdomain(name), errors);
            }
            let group = text(subject, "apiGroup");
            if !group.is_empty() {
                errors.not_supported(at.child("apiGroup"), &Value::from(group), &[""]);
            }
            if scope == Scope::Cluster && text(subject, "namespace").is_empty() {
                errors.required(at.child("namespace"), "");
            }
        }
        "User" | "Group" => validate_group(subject, at, errors),
        other => {
            let kinds = ["ServiceAccount", "User", "Group"];
            errors.not_supported(at.child("kind"), &Value::from(other), &kinds);
        }
    }
}
