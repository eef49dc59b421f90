//! Selectors of nodes: terms of expressions on labels and fields.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::text::{complain, list, text};

/// The validation of values; those of preferences and of stored objects are not validated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NodeSelectorValues {
    Checked,
    Unchecked,
}

pub(crate) fn validate_node_selector(
    selector: &Value,
    values: NodeSelectorValues,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let at = at.child("nodeSelectorTerms");
    let terms = list(selector, "nodeSelectorTerms");
    if terms.is_empty() {
        errors.required(at, "must have at least one node selector term");
    }
    for (i, term) in terms.iter().enumerate() {
        validate_node_selector_term(term, values, &at.index(i), errors);
    }
}

pub(crate) fn validate_node_selector_term(
    term: &Value,
    values: NodeSelectorValues,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let expressions_at = at.child("matchExpressions");
    for (i, requirement) in list(term, "matchExpressions").iter().enumerate() {
        validate_expression(requirement, values, &expressions_at.index(i), errors);
    }
    let fields_at = at.child("matchFields");
    for (i, requirement) in list(term, "matchFields").iter().enumerate() {
        validate_field(requirement, &fields_at.index(i), errors);
    }
}

fn validate_expression(
    requirement: &Value,
    checked: NodeSelectorValues,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let (values, values_at) = (list(requirement, "values"), at.child("values"));
    match (text(requirement, "operator"), values.len()) {
        ("In" | "NotIn", 0) => {
            errors.required(values_at, "must be specified when `operator` is 'In' or 'NotIn'");
        }
        ("Exists" | "DoesNotExist", 1..) => {
            let why = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.forbidden(values_at, why);
        }
        ("Gt" | "Lt", 0 | 2..) => {
            errors.required(values_at, "must be specified single value when `operator` is 'Lt' or 'Gt'");
        }
        ("In" | "NotIn" | "Exists" | "DoesNotExist" | "Gt" | "Lt", _) => {}
        (other, _) => {
            errors.invalid(at.child("operator"), &Value::from(other), "not a valid selector operator");
        }
    }
    let key = text(requirement, "key");
    complain(&at.child("key"), key, names::qualified_name(key), errors);
    if checked == NodeSelectorValues::Unchecked {
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        complain(&values_at.index(i), value, names::label_value(value), errors);
    }
}

/// The only field is the node's name.
fn validate_field(requirement: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (values, values_at) = (list(requirement, "values"), at.child("values"));
    match (text(requirement, "operator"), values.len()) {
        ("In" | "NotIn", 1) => {}
        ("In" | "NotIn", _) => {
            let why = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
            errors.required(values_at, why);
        }
        (other, _) => {
            errors.invalid(at.child("operator"), &Value::from(other), "not a valid selector operator");
        }
    }
    let key = text(requirement, "key");
    if key != "metadata.name" {
        errors.invalid(at.child("key"), &Value::from(key), "not a valid field selector key");
        return;
    }
    for (i, value) in values.iter().enumerate() {
        let value = value.as_str().unwrap_or_default();
        complain(&values_at.index(i), value, names::dns1123_subdomain(value), errors);
    }
}

/// Returns true if an expression of a term has a value that no label can have.
pub(crate) fn has_invalid_values(term: &Value) -> bool {
    let values = list(term, "matchExpressions").iter().flat_map(|requirement| list(requirement, "values"));
    values.into_iter().any(|value| !names::label_value(value.as_str().unwrap_or_default()).is_empty())
}
