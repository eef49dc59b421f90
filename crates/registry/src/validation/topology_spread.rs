//! Topology spread constraints.

use std::collections::HashMap;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Map, Value, names, set_of};

use crate::validation::fields::any_of;
use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::number::{given, int, positive};
use crate::validation::pod_context::PodContext;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, member, text};
use crate::validation::tolerance;

const IN_BOTH: &str = "exists in both matchLabelKeys and labelSelector";

pub(crate) fn validate_topology_spread_constraints(
    context: &PodContext<'_>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let constraints = list(context.spec, "topologySpreadConstraints");
    let pair = |c| (text(c, "topologyKey"), text(c, "whenUnsatisfiable"));
    let mut left: HashMap<(&str, &str), usize> = HashMap::new();
    constraints.iter().for_each(|constraint| *left.entry(pair(constraint)).or_default() += 1);
    for (i, constraint) in constraints.iter().enumerate() {
        let at = at.index(i);
        let (key, action) = (text(constraint, "topologyKey"), text(constraint, "whenUnsatisfiable"));
        positive(int(constraint, "maxSkew"), &at.child("maxSkew"), errors);
        if key.is_empty() {
            errors.required(at.child("topologyKey"), "can not be empty");
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            let supported = ["DoNotSchedule", "ScheduleAnyway"];
            errors.not_supported(at.child("whenUnsatisfiable"), &Value::from(action), &supported);
        }
        let later = left.get_mut(&(key, action)).map_or(0, |left| {
            *left -= 1;
            *left
        });
        if later > 0 {
            let shown = Value::from(format!("{{{key}, {action}}}"));
            errors.duplicate(at.child("{topologyKey, whenUnsatisfiable}"), &shown);
        }
        validate_min_domains(constraint, action, &at.child("minDomains"), errors);
        for policy in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            any_of(constraint, policy, &["Honor", "Ignore"], &at, errors);
        }
        let selector = member(constraint, "labelSelector");
        validate_spread_label_keys(context, constraint, selector, &at, errors);
        if selector.is_some() && !context.old(tolerance::invalid_spread_selectors) {
            let options = LabelSelectorOptions::default();
            validate_label_selector(selector, options, &at.child("labelSelector"), errors);
        }
    }
}

fn validate_min_domains(constraint: &Value, action: &str, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(domains) = given(constraint, "minDomains") else { return };
    positive(domains, at, errors);
    if action != "DoNotSchedule" {
        let why = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
        errors.invalid(at, &Value::from(domains), why);
    }
}

/// A stored constraint whose keys were never merged into its selector keeps the older rules.
fn validate_spread_label_keys(
    context: &PodContext<'_>,
    constraint: &Value,
    selector: Option<&Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let keys = list(constraint, "matchLabelKeys");
    if keys.is_empty() {
        return;
    }
    if !context.old(tolerance::invalid_spread_label_keys) {
        validate_match_label_keys(keys, &[], selector, at, errors);
        return;
    }
    let at = at.child("matchLabelKeys");
    if selector.is_none() {
        errors.forbidden(at, "must not be specified when labelSelector is not set");
    }
    for (i, key) in keys.iter().enumerate() {
        let key = key.as_str().unwrap_or_default();
        complain(&at.index(i), key, names::qualified_name(key), errors);
        if selector.is_some_and(|selector| selector_keys(selector).any(|other| other == key)) {
            errors.invalid(at.index(i), &Value::from(key), IN_BOTH);
        }
    }
}

/// The keys of a selector, in its order.
fn selector_keys(selector: &Value) -> impl Iterator<Item = &str> {
    let labels = selector.get("matchLabels").and_then(Value::as_object).into_iter().flat_map(Map::keys);
    let expressions = list(selector, "matchExpressions").iter().map(|expression| text(expression, "key"));
    labels.map(|key| key.as_str()).chain(expressions)
}

/// Keys whose values are those of the pod itself, or are not. They are already merged into the selector: a key
/// that it has twice was in both.
pub(crate) fn validate_match_label_keys(
    keys: &[Value],
    other_keys: &[Value],
    selector: Option<&Value>,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    for (list, name) in [(keys, "matchLabelKeys"), (other_keys, "mismatchLabelKeys")] {
        let at = at.child(name);
        if !list.is_empty() && selector.is_none() {
            errors.forbidden(at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (i, key) in list.iter().enumerate() {
            let key = key.as_str().unwrap_or_default();
            complain(&at.index(i), key, names::qualified_name(key), errors);
        }
    }
    if keys.is_empty() {
        return;
    }
    if let Some(selector) = selector {
        validate_selected_once(keys, selector, at, errors);
    }
    let other_keys = set_of(other_keys);
    let both = keys.iter().enumerate().filter(|(_, key)| other_keys.contains(&ByContent(key)));
    for (i, key) in both {
        let why = "exists in both matchLabelKeys and mismatchLabelKeys";
        errors.invalid(at.child("matchLabelKeys").index(i), key, why);
    }
}

fn validate_selected_once(keys: &[Value], selector: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let labels = selector.get("matchLabels").and_then(Value::as_object).map_or(0, Map::len);
    let selected: Vec<&str> = selector_keys(selector).collect();
    let repeats = Repeats::of(&selected, |key| *key);
    let places: HashMap<&str, usize> =
        keys.iter().enumerate().filter_map(|(i, key)| Some((key.as_str()?, i))).collect();
    for (j, key) in selected.iter().enumerate().skip(labels) {
        let Some(i) = places.get(key).copied() else { continue };
        if repeats.at(j) {
            errors.invalid(at.index(i), &Value::from(*key), IN_BOTH);
        }
    }
}
