//! Validation of webhook configurations. Both kinds of webhooks have the same rules; only mutating ones have a
//! reinvocation policy.

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, names};

use super::expressions::Conditions;
use super::validate::{
    FAILURE_POLICIES, MATCH_POLICIES, REINVOCATION_POLICIES, refuse_static_name, static_name_warnings,
    validate_choice, validate_match_conditions, validate_rule,
};
use crate::prepare::same;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, fully_qualified_name, list, member, text};
use crate::validation::webhook::validate_client_config;

const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const ANY_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];

/// Invalid values that stored webhooks may keep.
#[derive(Clone, Copy, Default)]
struct Leeway {
    match_conditions: bool,
    side_effects: bool,
    review_versions: bool,
    names: bool,
    selectors: LabelSelectorOptions,
}

impl Leeway {
    fn of(new: &[Value], old: &[Value]) -> Leeway {
        let selectors = || old.iter().flat_map(|hook| SELECTORS.iter().map(|key| member(hook, key)));
        let mut errors = ErrorList::new();
        for selector in selectors() {
            validate_label_selector(selector, LabelSelectorOptions::default(), &Field::ROOT, &mut errors);
        }
        Leeway {
            match_conditions: new.len() == old.len()
                && new.iter().zip(old).all(|(new, old)| same(new, old, &["matchConditions"])),
            side_effects: !old.iter().all(|hook| NO_SIDE_EFFECTS.contains(&text(hook, "sideEffects"))),
            review_versions: !old.iter().all(|hook| {
                let versions = list(hook, "admissionReviewVersions");
                versions.is_empty() || versions.iter().any(is_review_version)
            }),
            names: has_repeated_names(old),
            selectors: LabelSelectorOptions { allow_invalid_values: !errors.is_empty() },
        }
    }
}

const SELECTORS: [&str; 2] = ["namespaceSelector", "objectSelector"];

pub(super) fn create(object: &Value, errors: &mut ErrorList) {
    validate_webhooks(list(object, "webhooks"), &[], Leeway::default(), errors);
    refuse_static_name(object, errors);
}

pub(super) fn update(object: &Value, old: &Value, errors: &mut ErrorList) {
    let (hooks, old) = (list(object, "webhooks"), list(old, "webhooks"));
    validate_webhooks(hooks, old, Leeway::of(hooks, old), errors);
}

fn is_review_version(version: &Value) -> bool {
    version.as_str().is_some_and(|version| REVIEW_VERSIONS.contains(&version))
}

fn names(hooks: &[Value]) -> Repeats {
    Repeats::of(hooks, |hook| text(hook, "name"))
}

fn has_repeated_names(hooks: &[Value]) -> bool {
    let repeats = names(hooks);
    (0..hooks.len()).any(|i| repeats.at(i))
}

fn validate_webhooks(hooks: &[Value], old: &[Value], leeway: Leeway, errors: &mut ErrorList) {
    let conditions = Conditions::new(false, old);
    let (at, repeats) = (Field::new("webhooks"), names(hooks));
    for (i, hook) in hooks.iter().enumerate() {
        let at = at.index(i);
        validate_webhook(hook, leeway, &conditions, &at, errors);
        let versions = list(hook, "admissionReviewVersions");
        validate_review_versions(versions, leeway, &at.child("admissionReviewVersions"), errors);
        let name = text(hook, "name");
        if !leeway.names && !name.is_empty() && repeats.at(i) {
            errors.duplicate(at.child("name"), &Value::from(name));
        }
    }
}

fn validate_webhook(
    hook: &Value,
    leeway: Leeway,
    expressions: &Conditions<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    fully_qualified_name(text(hook, "name"), &at.child("name"), errors);
    for (i, rule) in list(hook, "rules").iter().enumerate() {
        validate_rule(rule, &at.child("rules").index(i), errors);
    }
    validate_choice(hook, "failurePolicy", FAILURE_POLICIES, at, errors);
    validate_choice(hook, "matchPolicy", MATCH_POLICIES, at, errors);
    let side_effects = if leeway.side_effects { ANY_SIDE_EFFECTS } else { NO_SIDE_EFFECTS };
    match member(hook, "sideEffects") {
        None => {
            let why = format!("must specify one of {}", side_effects.join(", "));
            errors.required(at.child("sideEffects"), why);
        }
        Some(_) => validate_choice(hook, "sideEffects", side_effects, at, errors),
    }
    if let Some(seconds) = hook.int_at(&["timeoutSeconds"])
        && !(1..=30).contains(&seconds)
    {
        let why = "the timeout value must be between 1 and 30 seconds";
        errors.invalid(at.child("timeoutSeconds"), &Value::from(seconds), why);
    }
    for key in SELECTORS {
        validate_label_selector(member(hook, key), leeway.selectors, &at.child(key), errors);
    }
    validate_choice(hook, "reinvocationPolicy", REINVOCATION_POLICIES, at, errors);
    let config = hook.get("clientConfig").unwrap_or(&Value::Null);
    validate_client_config(config, &at.child("clientConfig"), errors);
    if !leeway.match_conditions {
        let conditions = list(hook, "matchConditions");
        validate_match_conditions(conditions, expressions, &at.child("matchConditions"), errors);
    }
}

/// Versions of the review that a webhook supports: one that the server sends must be among them.
fn validate_review_versions(versions: &[Value], leeway: Leeway, at: &Field<'_>, errors: &mut ErrorList) {
    if versions.is_empty() {
        errors.required(at, format!("must specify one of {}", REVIEW_VERSIONS.join(", ")));
        return;
    }
    let repeats = Repeats::of(versions, ByContent);
    for (i, version) in versions.iter().enumerate() {
        if repeats.at(i) {
            errors.invalid(at.index(i), version, "duplicate version");
            continue;
        }
        let version = version.as_str().unwrap_or_default();
        complain(&at.index(i), version, names::dns1035_label(version), errors);
    }
    if !leeway.review_versions && !versions.iter().any(is_review_version) {
        let why = format!("must include at least one of {}", REVIEW_VERSIONS.join(", "));
        errors.invalid(at, &Value::from(versions.to_vec()), why);
    }
}

/// Requests that are never sent to webhooks: a rule that names them has no effect.
const EXCLUDED: &[(&str, &str)] = &[
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
];

pub(super) fn warnings(object: &Value, old: Option<&Value>) -> Vec<String> {
    let mut warnings = static_name_warnings(object, old);
    for (i, hook) in list(object, "webhooks").iter().enumerate() {
        for (j, rule) in list(hook, "rules").iter().enumerate() {
            for (group, resource) in excluded_by(rule) {
                warnings.push(format!(
                    "webhooks[{i}].rules[{j}]: {resource}.{group} is excluded from admission webhooks; this rule will have no effect"
                ));
            }
        }
    }
    warnings
}

/// The excluded requests of a rule, in the rule's order. Wildcards are not resolved.
fn excluded_by(rule: &Value) -> Vec<(&str, &str)> {
    let texts = |key: &str| list(rule, key).iter().filter_map(Value::as_str);
    let mut found = Vec::new();
    if ["apiGroups", "resources"].iter().any(|key| texts(key).any(|text| text == "*")) {
        return found;
    }
    for group in texts("apiGroups") {
        for pair in texts("resources").map(|resource| (group, resource)) {
            if EXCLUDED.contains(&pair) && !found.contains(&pair) {
                found.push(pair);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn rules_for_nothing_are_warned_about() {
        let configuration = value!({"metadata": {"name": "a.static.k8s.io"}, "webhooks": [{"rules": [
            {"apiGroups": ["*"], "resources": ["tokenreviews"]},
            {"apiGroups": ["", "authentication.k8s.io"], "resources": ["pods", "tokenreviews"]},
        ]}]});
        let about_rule = "webhooks[0].rules[1]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect";
        assert_eq!(warnings(&configuration, None), [about_rule]);
        let about_name = "metadata.name: names ending with \".static.k8s.io\" are reserved for static manifest-based configurations and cannot be managed via the API";
        assert_eq!(warnings(&configuration, Some(&configuration)), [about_name, about_rule]);
    }

    #[test]
    fn stored_values_are_accepted_again() {
        let hook = || {
            value!({
                "name": "a.b.c", "sideEffects": "Some", "admissionReviewVersions": ["v7"],
                "clientConfig": {"url": "https://a"}, "matchConditions": [{"name": "", "expression": ""}],
                "objectSelector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b c"]}]},
            })
        };
        let stored = value!({"webhooks": [(hook()), (hook())]});
        let mut errors = ErrorList::new();
        update(&stored, &stored, &mut errors);
        assert!(errors.is_empty(), "{errors:?}");
        create(&stored, &mut errors);
        assert_eq!(errors.0.len(), 2 * 5 + 1);
    }
}
