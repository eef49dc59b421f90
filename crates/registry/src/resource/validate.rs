//! Validation that claims, classes and slices share: names, selectors, configuration, taints.

use std::collections::HashSet;

use corten_api::status::ErrorList;
use corten_api::{ByContent, Field, Value, go, json, names, schema, set_of};
use corten_cel::library::regex::Budget;

use super::expressions;
use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, list, member, text};

const SELECTORS_MAX: usize = 32;
const PARAMETERS_MAX_LENGTH: usize = 10 * 1024;
pub(super) const POOL_NAME_MAX_LENGTH: usize = 253;
const DRIVER_MAX_LENGTH: usize = 63;
const IDENTIFIER_MAX_LENGTH: usize = 32;
const BINDING_CONDITIONS_MAX: usize = 4;
const EFFECTS: &[&str] = &["NoExecute", "NoSchedule", "None"];

pub(super) const CONFIG_MAX: usize = 32;

/// The names of device drivers have the rules of CSI drivers' names.
pub(super) use crate::validation::csi::validate_csi_driver_name as validate_driver_name;

/// Validates the items of a list within its maximum length, else only the length.
pub(super) fn validate_items(
    items: &[Value],
    most: usize,
    at: &Field<'_>,
    errors: &mut ErrorList,
    judge: &mut dyn FnMut(&Value, &Field<'_>, &mut ErrorList),
) -> bool {
    let fits = items.len() <= most;
    if !fits {
        errors.too_many(at, items.len(), most);
        return fits;
    }
    for (i, item) in items.iter().enumerate() {
        judge(item, &at.index(i), errors);
    }
    fits
}

/// A list whose items are unique by a member, up to a maximum length.
pub(super) struct Keyed {
    pub key: &'static str,
    pub most: usize,
    /// The type of the items, if upstream declares that they are unique: errors show whole items, before those in them.
    pub declared: Option<&'static str>,
}

pub(super) fn validate_keyed_items(
    items: &[Value],
    Keyed { key, most, declared }: Keyed,
    at: &Field<'_>,
    errors: &mut ErrorList,
    judge: &mut dyn FnMut(&Value, &Field<'_>, &mut ErrorList),
) {
    let schema = declared.and_then(|kind| schema::lookup("resource/v1", kind));
    if let Some(schema) = schema.filter(|_| items.len() <= most) {
        let mut seen = HashSet::new();
        for (i, item) in items.iter().enumerate().filter(|(_, item)| !seen.insert(text(item, key))) {
            errors.duplicate_shown(at.index(i), go::json_of(item, &schema));
        }
    }
    if validate_items(items, most, at, errors, judge) && declared.is_none() {
        refuse_duplicates(items, |item| text(item, key), at, errors);
    }
}

/// Validates a list of unique strings, up to a maximum length.
pub(super) fn validate_texts(
    texts: &[Value],
    most: usize,
    at: &Field<'_>,
    errors: &mut ErrorList,
    judge: &mut dyn FnMut(&str, &Field<'_>, &mut ErrorList),
) {
    let mut judge_item = |item: &Value, at: &Field<'_>, errors: &mut ErrorList| {
        judge(item.as_str().unwrap_or_default(), at, errors);
    };
    if validate_items(texts, most, at, errors, &mut judge_item) {
        refuse_duplicates(texts, |item| item.as_str().unwrap_or_default(), at, errors);
    }
}

fn refuse_duplicates<'v>(
    items: &'v [Value],
    key: impl Fn(&'v Value) -> &'v str,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let mut seen = HashSet::new();
    for (i, item) in items.iter().enumerate() {
        if !seen.insert(key(item)) {
            errors.duplicate(at.index(i), &Value::from(key(item)));
        }
    }
}

pub(super) fn validate_label(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    complain(at, name, names::dns1123_label(name), errors);
}

/// Subdomains separated by slashes.
pub(super) fn validate_pool_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    if name.len() > POOL_NAME_MAX_LENGTH {
        errors.too_long(at, POOL_NAME_MAX_LENGTH);
    }
    for part in name.split('/') {
        complain(at, part, names::dns1123_subdomain(part), errors);
    }
}

/// `name` or `domain/name`.
pub(super) fn validate_qualified_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    match name.split_once('/') {
        None => validate_identifier(name, at, errors),
        Some((_, rest)) if rest.contains('/') => {}
        Some((domain, name)) => {
            match domain {
                "" => errors.invalid(at, &Value::from(""), "the domain must not be empty"),
                domain => validate_driver_name(domain, at, errors),
            }
            match name {
                "" => errors.invalid(at, &Value::from(""), "the name must not be empty"),
                name => validate_identifier(name, at, errors),
            }
        }
    }
}

pub(super) fn validate_fully_qualified_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    validate_qualified_name(name, at, errors);
    if !name.contains('/') {
        let why = "a fully qualified name must be a domain and a name separated by a slash";
        errors.invalid(at, &Value::from(name), why);
    }
}

fn validate_identifier(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if name.len() > IDENTIFIER_MAX_LENGTH {
        errors.too_long(at, IDENTIFIER_MAX_LENGTH);
    }
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    if name.is_empty() || name.starts_with(|c: char| c.is_ascii_digit()) || !name.bytes().all(word) {
        let why = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName', regex used for validation is '[A-Za-z_][A-Za-z0-9_]*')";
        errors.invalid(at, &Value::from(name), why);
    }
}

/// The budget of the constant patterns in all selectors of one object.
pub(super) fn selector_budget() -> Budget {
    Budget::new(Budget::EXPRESSION)
}

/// Selectors of devices, which are expressions. Stored ones are not validated again.
pub(super) fn validate_selectors(
    selectors: &[Value],
    stored: bool,
    patterns: &Budget,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_items(selectors, SELECTORS_MAX, at, errors, &mut |selector, at, errors| {
        let at = at.child("cel");
        match member(selector, "cel") {
            None => errors.required(at, ""),
            Some(_) if stored => {}
            Some(cel) => {
                let expression = text(cel, "expression");
                expressions::validate_selector(expression, patterns, &at.child("expression"), errors)
            }
        }
    });
}

pub(super) fn validate_configuration(config: &Value, stored: bool, at: &Field<'_>, errors: &mut ErrorList) {
    let at = at.child("opaque");
    let Some(opaque) = member(config, "opaque") else { return errors.required(at, "") };
    validate_opaque_driver(text(opaque, "driver"), &at.child("driver"), errors);
    let at = at.child("parameters");
    match member(opaque, "parameters") {
        None => errors.required(at, ""),
        Some(parameters) => validate_data(parameters, stored, PARAMETERS_MAX_LENGTH, &at, errors),
    }
}

fn validate_opaque_driver(driver: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if driver.is_empty() {
        return errors.required(at, "");
    }
    if driver.chars().count() > DRIVER_MAX_LENGTH {
        errors.too_long_characters(at, DRIVER_MAX_LENGTH);
    }
    complain(at, driver, names::long_name_caseless(driver), errors);
}

/// Any object within a maximum size.
pub(super) fn validate_data(data: &Value, stored: bool, most: usize, at: &Field<'_>, errors: &mut ErrorList) {
    if !stored && json::write_to_string(data).len() > most {
        errors.too_long(at, most);
    } else if data.as_object().is_none() {
        errors.invalid(at, &Value::from("<value omitted>"), "must be a valid JSON object");
    }
}

pub(super) fn validate_toleration(toleration: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let value = text(toleration, "value");
    match text(toleration, "operator") {
        "Exists" if !value.is_empty() => {
            let why = "must be empty for operator `Exists`";
            errors.invalid(at.child("value"), &Value::from(value), why);
        }
        "Equal" => complain(&at.child("value"), value, names::label_value(value), errors),
        "" => errors.required(at.child("operator"), ""),
        _ => {}
    }
    validate_toleration_fields(toleration, at, errors);
}

/// Validates each field of a toleration by itself.
pub(super) fn validate_toleration_fields(toleration: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let key = text(toleration, "key");
    if !key.is_empty() {
        complain(&at.child("key"), key, names::qualified_name(key), errors);
    }
    let operator = text(toleration, "operator");
    if !matches!(operator, "" | "Equal" | "Exists") {
        errors.not_supported(at.child("operator"), &Value::from(operator), &["Equal", "Exists"]);
    }
    let effect = text(toleration, "effect");
    if !effect.is_empty() && !EFFECTS.contains(&effect) {
        errors.not_supported(at.child("effect"), &Value::from(effect), EFFECTS);
    }
}

/// A taint, whose effect is not restricted if it was already stored.
pub(super) fn validate_taint(taint: &Value, old: Option<&Value>, at: &Field<'_>, errors: &mut ErrorList) {
    let (key, value, effect) = (text(taint, "key"), text(taint, "value"), text(taint, "effect"));
    complain(&at.child("key"), key, names::qualified_name(key), errors);
    complain(&at.child("value"), value, names::label_value(value), errors);
    if old.is_some_and(|old| text(old, "effect") == effect) {
        return;
    }
    match effect {
        "" => errors.required(at.child("effect"), ""),
        effect if EFFECTS.contains(&effect) => {}
        effect => errors.not_supported(at.child("effect"), &Value::from(effect), EFFECTS),
    }
}

/// Conditions that must hold before a device is used, and those that must not. Each requires the other.
pub(super) fn validate_binding_conditions(device: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    const KEYS: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
    let [wanted, unwanted] = KEYS.map(|key| list(device, key));
    let [wanted_at, unwanted_at] = KEYS.map(|key| at.child(key));
    for (conditions, at) in [(wanted, &wanted_at), (unwanted, &unwanted_at)] {
        validate_items(conditions, BINDING_CONDITIONS_MAX, at, errors, &mut |condition, at, errors| {
            let name = condition.as_str().unwrap_or_default();
            complain(at, name, names::qualified_name(name), errors);
        });
    }
    refuse_duplicates(wanted, |name| name.as_str().unwrap_or_default(), &wanted_at, errors);
    let (repeats, wanted_names) = (Repeats::of(unwanted, ByContent), set_of(wanted));
    for (i, condition) in unwanted.iter().enumerate() {
        if repeats.at(i) {
            errors.duplicate(unwanted_at.index(i), condition);
        }
        if wanted_names.contains(&ByContent(condition)) {
            let why = "bindingFailureConditions must not overlap with bindingConditions";
            errors.invalid(unwanted_at.index(i), condition, why);
        }
    }
    for (missing, given, at, [key, other]) in
        [(wanted, unwanted, wanted_at, KEYS), (unwanted, wanted, unwanted_at, [KEYS[1], KEYS[0]])]
    {
        if missing.is_empty() && !given.is_empty() {
            errors.invalid(at, &Value::Null, format!("{key} are required to use {other}"));
        }
    }
}
