//! Validation of claims: requests, constraints and configuration.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};
use corten_cel::library::regex::Budget;

use super::validate::{
    CONFIG_MAX, Keyed, selector_budget, validate_configuration, validate_fully_qualified_name,
    validate_items, validate_keyed_items, validate_label, validate_selectors, validate_texts,
    validate_toleration, validate_toleration_fields,
};
use crate::validation::text::{complain, list, member, required, text};

const REQUESTS_MAX: usize = 32;
const CONSTRAINTS_MAX: usize = 32;
const ALTERNATIVES_MAX: usize = 8;

/// The `devices` of a claim's spec.
pub(super) fn validate_claim(devices: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let requests = list(devices, "requests");
    let patterns = selector_budget();
    validate_keyed_items(
        requests,
        Keyed { key: "name", most: REQUESTS_MAX, declared: Some("DeviceRequest") },
        &at.child("requests"),
        errors,
        &mut |request, at, errors| validate_request(request, &patterns, at, errors),
    );
    let constraints = list(devices, "constraints");
    let constraints_at = at.child("constraints");
    validate_items(constraints, CONSTRAINTS_MAX, &constraints_at, errors, &mut |constraint, at, errors| {
        validate_request_names(constraint, devices, at, errors);
        validate_constraint(constraint, at, errors);
    });
    let config = list(devices, "config");
    validate_items(config, CONFIG_MAX, &at.child("config"), errors, &mut |config, at, errors| {
        validate_request_names(config, devices, at, errors);
        validate_configuration(config, false, at, errors);
    });
}

fn validate_request(request: &Value, patterns: &Budget, at: &Field<'_>, errors: &mut ErrorList) {
    validate_label(text(request, "name"), &at.child("name"), errors);
    let alternatives = list(request, "firstAvailable");
    match (member(request, "exactly"), alternatives) {
        (None, []) => errors.required(at, "exactly one of `exactly` or `firstAvailable` is required"),
        (None, alternatives) => {
            let at = at.child("firstAvailable");
            validate_keyed_items(
                alternatives,
                Keyed { key: "name", most: ALTERNATIVES_MAX, declared: Some("DeviceSubRequest") },
                &at,
                errors,
                &mut |one, at, errors| {
                    validate_label(text(one, "name"), &at.child("name"), errors);
                    validate_device_request(one, patterns, at, errors);
                },
            );
        }
        (Some(exactly), []) => validate_device_request(exactly, patterns, &at.child("exactly"), errors),
        (Some(exactly), alternatives) => {
            let why = "exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set";
            errors.invalid(at, &Value::Null, why);
            validate_request_fields(exactly, &at.child("exactly"), errors);
            for (i, one) in alternatives.iter().enumerate() {
                let at = at.child("firstAvailable");
                let at = at.index(i);
                required(
                    text(one, "deviceClassName"),
                    names::long_name,
                    &at.child("deviceClassName"),
                    errors,
                );
                validate_request_fields(one, &at, errors);
            }
        }
    }
}

/// Validates fields by themselves, which is done even for forms of a request that exclude each other.
fn validate_request_fields(wish: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let mode = text(wish, "allocationMode");
    if !matches!(mode, "" | "All" | "ExactCount") {
        errors.not_supported(at.child("allocationMode"), &Value::from(mode), &["All", "ExactCount"]);
    }
    for (i, toleration) in list(wish, "tolerations").iter().enumerate() {
        validate_toleration_fields(toleration, &at.child("tolerations").index(i), errors);
    }
}

/// The devices of a request, and their number.
fn validate_device_request(wish: &Value, patterns: &Budget, at: &Field<'_>, errors: &mut ErrorList) {
    match text(wish, "deviceClassName") {
        "" => errors.required(at.child("deviceClassName"), ""),
        class => complain(&at.child("deviceClassName"), class, names::dns1123_subdomain(class), errors),
    }
    validate_selectors(list(wish, "selectors"), false, patterns, &at.child("selectors"), errors);
    let count = wish.int_at(&["count"]).unwrap_or(0);
    let mut refuse = |why: &str| errors.invalid(at.child("count"), &Value::from(count), why);
    match text(wish, "allocationMode") {
        "All" if count != 0 => refuse("must not be specified when allocationMode is 'All'"),
        "ExactCount" if count <= 0 => refuse("must be greater than zero"),
        "All" | "ExactCount" => {}
        other => {
            let known = &["All", "ExactCount"];
            errors.not_supported(at.child("allocationMode"), &Value::from(other), known);
        }
    }
    for (i, toleration) in list(wish, "tolerations").iter().enumerate() {
        validate_toleration(toleration, &at.child("tolerations").index(i), errors);
    }
}

fn validate_constraint(constraint: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let attributes = ["matchAttribute", "distinctAttribute"];
    let given = attributes.into_iter().filter_map(|key| Some((key, member(constraint, key)?)));
    let mut is_given = false;
    for (key, name) in given {
        is_given = true;
        validate_fully_qualified_name(name.as_str().unwrap_or_default(), &at.child(key), errors);
    }
    if !is_given {
        let why = "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set";
        errors.required(at, why);
    }
}

/// The `requests` of a member that applies to some of a claim's requests.
pub(super) fn validate_request_names(owner: &Value, devices: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("requests");
    validate_texts(list(owner, "requests"), REQUESTS_MAX, &at, errors, &mut |name, at, errors| {
        validate_request_name(name, devices, at, errors);
    });
}

/// A request of the claim, or one of its alternatives: `gpu`, `gpu/fast`.
pub(super) fn validate_request_name(name: &str, devices: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (request, alternative) = match name.split_once('/') {
        Some((request, alternative)) => (request, Some(alternative)),
        None => (name, None),
    };
    let parts = [Some(request), alternative];
    if alternative.is_none_or(|alternative| !alternative.contains('/')) {
        parts.into_iter().flatten().for_each(|part| validate_label(part, at, errors));
    }
    let named = |items: &'_ [Value], name: &str| items.iter().rposition(|item| text(item, "name") == name);
    let requests = list(devices, "requests");
    let known = named(requests, request).and_then(|i| requests.get(i)).is_some_and(|request| {
        alternative.is_none_or(|name| named(list(request, "firstAvailable"), name).is_some())
    });
    if !known {
        let why = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
        errors.invalid(at, &Value::from(name), why);
    }
}
