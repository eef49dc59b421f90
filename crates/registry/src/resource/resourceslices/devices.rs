//! Validation of devices of a slice: attributes, capacities, taints and nodes.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use super::capacity::validate_request_policy;
use super::validate::validate_counters;
use crate::prepare::same;
use crate::resource::validate::{
    Keyed, validate_binding_conditions, validate_items, validate_keyed_items, validate_label,
    validate_qualified_name, validate_taint,
};
use crate::validation::fields::entries;
use crate::validation::node_selector::{NodeSelectorValues, validate_node_selector};
use crate::validation::text::{complain, list, member, text};

const PROPERTIES_MAX: usize = 32;
const VALUES_MAX: usize = 48;
const VALUE_MAX_LENGTH: usize = 64;
const TAINTS_MAX: usize = 16;
const CONSUMED_MAX: usize = 2;

/// The forms of an attribute's value.
const FORMS: [&str; 8] = ["int", "bool", "string", "version", "ints", "bools", "strings", "versions"];

/// Attributes with several values.
const LISTS: [&str; 4] = ["bools", "ints", "strings", "versions"];

pub(super) fn validate_device(
    device: &Value,
    old: Option<&Value>,
    per_device_nodes: bool,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_label(text(device, "name"), &at.child("name"), errors);
    validate_numbers(device, at, errors);
    for (name, attribute) in entries(device, "attributes") {
        let at = at.child("attributes");
        validate_qualified_name(name, &at, errors);
        validate_attribute(attribute, &at.key(name), errors);
    }
    let changed = |key: &str| old.is_none_or(|old| !same(device, old, &[key]));
    if changed("capacity") {
        let shared = device.bool_at(&["allowMultipleAllocations"]) == Some(true);
        for (name, capacity) in entries(device, "capacity") {
            let at = at.child("capacity");
            validate_qualified_name(name, &at, errors);
            let at = at.key(name);
            if shared {
                validate_request_policy(capacity, &at, errors);
            } else if member(capacity, "requestPolicy").is_some() {
                errors.forbidden(at.child("requestPolicy"), "allowMultipleAllocations must be true");
            }
        }
    }
    if changed("taints") {
        let taints = list(device, "taints");
        validate_items(taints, TAINTS_MAX, &at.child("taints"), errors, &mut |taint, at, errors| {
            validate_taint(taint, None, at, errors);
        });
    }
    let consumed = list(device, "consumesCounters");
    let consumed_at = at.child("consumesCounters");
    let declared = Some("DeviceCounterConsumption");
    let keyed = Keyed { key: "counterSet", most: CONSUMED_MAX, declared };
    validate_keyed_items(consumed, keyed, &consumed_at, errors, &mut |set, at, errors| {
        validate_counters(set, "counterSet", at, errors);
    });
    validate_nodes(device, per_device_nodes, at, errors);
    validate_binding_conditions(device, at, errors);
}

pub(super) fn has_list_values(device: &Value) -> bool {
    entries(device, "attributes")
        .any(|(_, attribute)| LISTS.iter().any(|key| member(attribute, key).is_some()))
}

fn validate_numbers(device: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let mut refuse = |number: usize, what: &str, most: usize| {
        if number > most {
            let why = format!("the total number of {what} must not exceed {most}");
            errors.invalid_shown(at, number.to_string(), why);
        }
    };
    let properties = entries(device, "attributes").count() + entries(device, "capacity").count();
    refuse(properties, "attributes and capacities", PROPERTIES_MAX);
    let values = |attribute: &Value| LISTS.iter().map(|key| list(attribute, key).len()).sum::<usize>().max(1);
    let values = entries(device, "attributes").map(|(_, attribute)| values(attribute)).sum();
    refuse(values, "attribute values", VALUES_MAX);
}

fn validate_attribute(attribute: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let said: Vec<&str> = FORMS.into_iter().filter(|key| member(attribute, key).is_some()).collect();
    if let Some(value) = attribute.str_at(&["string"]) {
        validate_text(value, &at.child("string"), errors);
    }
    if let Some(version) = attribute.str_at(&["version"]) {
        validate_version(version, &at.child("version"), errors);
    }
    for (i, text) in list(attribute, "strings").iter().enumerate() {
        validate_text(text.as_str().unwrap_or_default(), &at.child("strings").index(i), errors);
    }
    for (i, version) in list(attribute, "versions").iter().enumerate() {
        validate_version(version.as_str().unwrap_or_default(), &at.child("versions").index(i), errors);
    }
    let forms = "`int`, `bool`, `string`, `version`, `ints`, `bools`, `strings`, `versions`";
    match said.as_slice() {
        [] => errors.invalid(at, &Value::from(""), format!("must specify one of: {forms}")),
        [_] => {}
        several => {
            let shown = format!("{{{}}}", several.join(", "));
            errors.invalid(at, &Value::from(shown), format!("must specify exactly one of: {forms}"));
        }
    }
}

fn validate_text(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if text.len() > VALUE_MAX_LENGTH {
        errors.too_long(at, VALUE_MAX_LENGTH);
    }
}

fn validate_version(version: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if !is_semantic_version(version) {
        let why = "must be a string compatible with semver.org spec 2.0.0";
        errors.invalid(at, &Value::from(version), why);
    }
    validate_text(version, at, errors);
}

/// `1.2.3-alpha.1+build.7`.
fn is_semantic_version(version: &str) -> bool {
    let (version, build) = match version.split_once('+') {
        Some((version, build)) => (version, Some(build)),
        None => (version, None),
    };
    let (core, release) = match version.split_once('-') {
        Some((core, release)) => (core, Some(release)),
        None => (version, None),
    };
    let number = |text: &str| {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        digits && (text == "0" || !text.starts_with('0'))
    };
    let word = |text: &str| {
        !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
    };
    let part = |text: &str| number(text) || (word(text) && !text.bytes().all(|byte| byte.is_ascii_digit()));
    core.split('.').count() == 3
        && core.split('.').all(number)
        && release.is_none_or(|release| release.split('.').all(part))
        && build.is_none_or(|build| build.split('.').all(word))
}

/// Devices select their nodes exactly if the slice leaves that to them.
fn validate_nodes(device: &Value, per_device: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let (name, selector, all) =
        (member(device, "nodeName"), member(device, "nodeSelector"), member(device, "allNodes"));
    if !per_device {
        if name.is_some() || selector.is_some() || all.is_some() {
            let why = "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
            errors.invalid(at, &Value::Null, why);
        }
        return;
    }
    let mut said = Vec::new();
    match name.map(|name| name.as_str().unwrap_or_default()) {
        None => {}
        Some("") => errors.invalid(at.child("nodeName"), &Value::from(""), "must not be empty"),
        Some(name) => {
            said.push("`nodeName`");
            complain(&at.child("nodeName"), name, names::dns1123_subdomain(name), errors);
        }
    }
    if let Some(selector) = selector {
        said.push("`nodeSelector`");
        validate_node_selector(selector, NodeSelectorValues::Checked, &at.child("nodeSelector"), errors);
    }
    match all.and_then(Value::as_bool) {
        None => {}
        Some(true) => said.push("`allNodes`"),
        Some(false) => {
            let why = "must be either unset or set to true";
            errors.invalid(at.child("allNodes"), &Value::from(false), why);
        }
    }
    let why = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec";
    match said.len() {
        0 => errors.required(at, why),
        1 => {}
        _ => errors.invalid(at, &Value::from(format!("{{{}}}", said.join(", "))), why),
    }
}
