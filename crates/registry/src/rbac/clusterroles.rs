//! Cluster roles: permissions in the whole cluster. Names may be anything that fits into a path.

use corten_api::selector::LabelSelector;
use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::rbac::validate::{Scope, validate_rules};
use crate::rules::{NameRule, Rules};
use crate::validation::fields::part;
use crate::validation::label_selector::{LabelSelectorOptions, has_invalid_values, validate_label_selector};
use crate::validation::text::{list, member};

pub(crate) const RULES: Rules = Rules {
    group: "rbac.authorization.k8s.io",
    resource: "clusterroles",
    storage_prefix: "clusterroles",
    name: NameRule::PathSegment,
    validate_create: |role, errors| validate(role, LabelSelectorOptions::default(), errors),
    validate_update,
    create_on_update: true,
    ..Rules::DEFAULT
};

fn validate_update(role: &Value, old: &Value, errors: &mut ErrorList) {
    let mut selectors = selectors(old).iter();
    let allow_invalid_values = selectors.any(|selector| has_invalid_values(Some(selector)));
    validate(role, LabelSelectorOptions { allow_invalid_values }, errors);
}

fn selectors(role: &Value) -> &[Value] {
    list(part(role, "aggregationRule"), "clusterRoleSelectors")
}

fn validate(role: &Value, options: LabelSelectorOptions, errors: &mut ErrorList) {
    validate_rules(role, Scope::Cluster, errors);
    if member(role, "aggregationRule").is_none() {
        return;
    }
    let rule = Field::new("aggregationRule");
    let at = rule.child("clusterRoleSelectors");
    if selectors(role).is_empty() {
        errors.required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for (i, selector) in selectors(role).iter().enumerate() {
        let at = at.index(i);
        validate_label_selector(Some(selector), options, &at, errors);
        if LabelSelector::from_object(Some(selector)).is_err() {
            errors.invalid(at, &Value::Null, "invalid label selector.");
        }
    }
}
