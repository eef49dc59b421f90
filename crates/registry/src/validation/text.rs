//! Texts with a format: names, paths, keys, URLs.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::rules::NameRule;

/// A member's text; empty if there is none.
pub(crate) fn text<'v>(value: &'v Value, key: &str) -> &'v str {
    value.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// A member that exists and is not null.
pub(crate) fn member<'v>(value: &'v Value, key: &str) -> Option<&'v Value> {
    value.get(key).filter(|member| !member.is_null())
}

/// The items of a member that is a list.
pub(crate) fn list<'v>(value: &'v Value, key: &str) -> &'v [Value] {
    value.get(key).and_then(Value::as_array).unwrap_or_default()
}

/// Adds each error of a text.
pub(crate) fn complain(at: &Field<'_>, text: &str, complaints: Vec<String>, errors: &mut ErrorList) {
    for complaint in complaints {
        errors.invalid(at, &Value::from(text), complaint);
    }
}

/// The prefix of a generated name, which upstream validates in updates of some resources, too.
pub(crate) fn validate_generate_name(object: &Value, rule: NameRule, errors: &mut ErrorList) {
    let prefix = object.str_at(&["metadata", "generateName"]).unwrap_or_default();
    if !prefix.is_empty() {
        complain(&Field::new("metadata").child("generateName"), prefix, rule.check_prefix(prefix), errors);
    }
}

/// A required text of a format.
pub(crate) fn required(text: &str, format: fn(&str) -> Vec<String>, at: &Field<'_>, errors: &mut ErrorList) {
    match text {
        "" => errors.required(at, ""),
        text => complain(at, text, format(text), errors),
    }
}

/// An optional text of a format.
pub(crate) fn optional(text: &str, format: fn(&str) -> Vec<String>, at: &Field<'_>, errors: &mut ErrorList) {
    if !text.is_empty() {
        complain(at, text, format(text), errors);
    }
}

/// Members whose texts must not be empty.
pub(crate) fn require(value: &Value, keys: &[&str], at: &Field<'_>, errors: &mut ErrorList) {
    for key in keys.iter().filter(|key| text(value, key).is_empty()) {
        errors.required(at.child(key), "");
    }
}

/// The errors of a port's number.
pub(crate) fn port_number(port: i64, at: &Field<'_>, errors: &mut ErrorList) {
    if !(1..=65535).contains(&port) {
        errors.invalid(at, &Value::from(port), "must be between 1 and 65535, inclusive");
    }
}

/// A domain and a path in it: `acme.io/foo`.
pub(crate) fn domain_prefixed_path(text: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if text.is_empty() {
        errors.required(at, "");
        return;
    }
    let Some((host, path)) = text.split_once('/').filter(|(host, path)| !host.is_empty() && !path.is_empty())
    else {
        let why = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.invalid(at, &Value::from(text), why);
        return;
    };
    complain(at, host, names::dns1123_subdomain(host), errors);
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&byte);
    if !path.bytes().all(fits) {
        let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        errors.invalid(at, &Value::from(path), why);
    }
}

/// A domain of at least three parts: `imagepolicy.kubernetes.io`.
pub(crate) fn fully_qualified_name(name: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if name.is_empty() {
        errors.required(at, "");
        return;
    }
    let complaints = names::dns1123_subdomain(name);
    if !complaints.is_empty() {
        errors.invalid(at, &Value::from(name), complaints.join(","));
    } else if name.split('.').count() < 3 {
        let why = "should be a domain with at least three segments separated by dots";
        errors.invalid(at, &Value::from(name), why);
    }
}
