//! Node affinity, pod affinity and anti-affinity.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::label_selector::{LabelSelectorOptions, validate_label_selector};
use crate::validation::node_selector::{
    NodeSelectorValues, validate_node_selector, validate_node_selector_term,
};
use crate::validation::number::int;
use crate::validation::pod_context::PodContext;
use crate::validation::text::{complain, list, member, text};
use crate::validation::tolerance;
use crate::validation::topology_spread::validate_match_label_keys;

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";
const OF_PODS: [&str; 2] = ["podAffinity", "podAntiAffinity"];

pub(crate) fn validate_affinity(context: &PodContext<'_>, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(affinity) = member(context.spec, "affinity") else { return };
    if let Some(nodes) = member(affinity, "nodeAffinity") {
        validate_node_affinity(context, nodes, &at.child("nodeAffinity"), errors);
    }
    let allow_invalid_values = context.old(tolerance::invalid_affinity_selectors);
    let options = LabelSelectorOptions { allow_invalid_values };
    for key in OF_PODS {
        if let Some(pods) = member(affinity, key) {
            validate_pod_affinity(pods, options, &at.child(key), errors);
        }
    }
}

fn validate_node_affinity(
    context: &PodContext<'_>,
    affinity: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    if let Some(selector) = member(affinity, REQUIRED) {
        let values = match context.old(tolerance::invalid_node_affinity_values) {
            true => NodeSelectorValues::Unchecked,
            false => NodeSelectorValues::Checked,
        };
        validate_node_selector(selector, values, &at.child(REQUIRED), errors);
    }
    let at = at.child(PREFERRED);
    for (i, term) in list(affinity, PREFERRED).iter().enumerate() {
        let at = at.index(i);
        validate_weight(term, &at, errors);
        let preference = term.get("preference").unwrap_or(&Value::Null);
        validate_node_selector_term(
            preference,
            NodeSelectorValues::Unchecked,
            &at.child("preference"),
            errors,
        );
    }
}

fn validate_weight(term: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let weight = int(term, "weight");
    if !(1..=100).contains(&weight) {
        errors.invalid(at.child("weight"), &Value::from(weight), "must be in the range 1-100");
    }
}

fn validate_pod_affinity(
    affinity: &Value,
    options: LabelSelectorOptions,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let required_at = at.child(REQUIRED);
    for (i, term) in list(affinity, REQUIRED).iter().enumerate() {
        validate_pod_affinity_term(term, options, &required_at.index(i), errors);
    }
    let preferred_at = at.child(PREFERRED);
    for (i, weighted) in list(affinity, PREFERRED).iter().enumerate() {
        let at = preferred_at.index(i);
        validate_weight(weighted, &at, errors);
        let term = weighted.get("podAffinityTerm").unwrap_or(&Value::Null);
        validate_pod_affinity_term(term, options, &at.child("podAffinityTerm"), errors);
    }
}

fn validate_pod_affinity_term(
    term: &Value,
    options: LabelSelectorOptions,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_selectors(term, options, at, errors);
    for namespace in list(term, "namespaces") {
        let namespace = namespace.as_str().unwrap_or_default();
        complain(&at.child("namespace"), namespace, names::namespace_name(namespace), errors);
    }
    let (keys, other_keys) = (list(term, "matchLabelKeys"), list(term, "mismatchLabelKeys"));
    validate_match_label_keys(keys, other_keys, member(term, "labelSelector"), at, errors);
    let key = text(term, "topologyKey");
    if key.is_empty() {
        errors.required(at.child("topologyKey"), "can not be empty");
    }
    complain(&at.child("topologyKey"), key, names::qualified_name(key), errors);
}

fn validate_selectors(term: &Value, options: LabelSelectorOptions, at: &Field<'_>, errors: &mut ErrorList) {
    for key in ["labelSelector", "namespaceSelector"] {
        validate_label_selector(member(term, key), options, &at.child(key), errors);
    }
}

/// Returns true if the selectors of a spec's affinity terms are valid.
pub(crate) fn affinity_selectors_are_valid(spec: &Value) -> bool {
    let mut errors = ErrorList::new();
    for affinity in OF_PODS.into_iter().filter_map(|key| spec.at(&["affinity", key])) {
        let preferred = list(affinity, PREFERRED).iter().filter_map(|term| term.get("podAffinityTerm"));
        for term in list(affinity, REQUIRED).iter().chain(preferred) {
            validate_selectors(term, LabelSelectorOptions::default(), &Field::ROOT, &mut errors);
        }
    }
    errors.is_empty()
}
