//! The formats of names, labels and other metadata, and upstream's errors for invalid ones.
//!
//! The functions named after a format return all errors of a text, none if it is valid; the
//! matchers (`is_…`) check characters only, not the length. Nothing here allocates for a valid text.

mod object_meta;
#[cfg(test)]
mod tests;

pub use object_meta::{
    TOTAL_ANNOTATION_SIZE_LIMIT, validate_annotations, validate_field_manager, validate_finalizer_name,
    validate_labels, validate_managed_fields, validate_object_meta, validate_object_meta_update,
    validate_owner_references,
};

pub const LABEL_MAX_LENGTH: usize = 63;
pub const SUBDOMAIN_MAX_LENGTH: usize = 253;

/// The rule for names of a resource's objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameRule {
    /// Most resources.
    DnsSubdomain,
    /// The same, with the messages of declarative validation.
    LongName,
    DnsLabel,
    /// A label that starts with a letter.
    Dns1035Label,
    /// Any text that fits between two slashes.
    PathSegment,
    /// The resource checks its names itself.
    Any,
}

impl NameRule {
    /// The errors of a name.
    pub fn check(self, name: &str) -> Vec<String> {
        match self {
            NameRule::DnsSubdomain => dns1123_subdomain(name),
            NameRule::LongName => {
                let mut complaints = dns1123_subdomain(name);
                let shown = too_long(SUBDOMAIN_MAX_LENGTH);
                complaints
                    .iter_mut()
                    .filter(|why| **why == shown)
                    .for_each(|why| *why = too_many_bytes(SUBDOMAIN_MAX_LENGTH));
                complaints
            }
            NameRule::DnsLabel => dns1123_label(name),
            NameRule::Dns1035Label => dns1035_label(name),
            NameRule::PathSegment => path_segment_name(name),
            NameRule::Any => Vec::new(),
        }
    }

    /// The errors of a prefix that will be completed (`generateName`).
    pub fn check_prefix(self, prefix: &str) -> Vec<String> {
        match self {
            // Declarative validation knows only the name itself.
            NameRule::PathSegment | NameRule::LongName => path_segment_prefix(prefix),
            _ => self.check(&mask_trailing_dash(prefix)),
        }
    }
}

/// A trailing dash is allowed in a prefix: it will not be the last character.
fn mask_trailing_dash(prefix: &str) -> String {
    match prefix.strip_suffix('-') {
        Some(rest) if !rest.is_empty() => {
            let mut masked = rest.to_owned();
            masked.pop();
            masked.push('a');
            masked
        }
        _ => prefix.to_owned(),
    }
}

/// The errors of a namespace's name.
pub fn namespace_name(name: &str) -> Vec<String> {
    dns1123_label(name)
}

fn is_lower_alphanumeric(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit()
}

/// Returns true if all characters satisfy `inner`, and the first and the last also `ends`.
fn is_enclosed(text: &str, ends: fn(u8) -> bool, inner: fn(u8) -> bool) -> bool {
    match text.as_bytes() {
        [] => false,
        [only] => ends(*only),
        [first, middle @ .., last] => ends(*first) && ends(*last) && middle.iter().all(|byte| inner(*byte)),
    }
}

pub fn is_dns1123_label(text: &str) -> bool {
    is_enclosed(text, is_lower_alphanumeric, |byte| is_lower_alphanumeric(byte) || byte == b'-')
}

pub fn is_dns1123_subdomain(text: &str) -> bool {
    text.split('.').all(is_dns1123_label)
}

pub fn is_dns1035_label(text: &str) -> bool {
    is_dns1123_label(text) && text.as_bytes()[0].is_ascii_lowercase()
}

/// The part of a label key after the slash.
fn is_label_name(text: &str) -> bool {
    is_enclosed(
        text,
        |byte| byte.is_ascii_alphanumeric(),
        |byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.'),
    )
}

fn too_long(max: usize) -> String {
    format!("must be no more than {max} characters")
}

/// The length of labels is counted in bytes, which the message says.
fn too_many_bytes(max: usize) -> String {
    format!("must be no more than {max} bytes")
}

/// Appends examples and the regular expression, as upstream does.
fn regex_error(message: &str, regex: &str, examples: &[&str]) -> String {
    let mut out = format!("{message} (");
    for (i, example) in examples.iter().enumerate() {
        out.push_str(if i == 0 { "e.g. '" } else { " or '" });
        out.push_str(example);
        out.push_str("', ");
    }
    out.push_str("regex used for validation is '");
    out.push_str(regex);
    out + "')"
}

const DNS1123_SUBDOMAIN_REGEX: &str = r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*";
const LABEL_NAME_REGEX: &str = "([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]";

fn subdomain_characters() -> String {
    regex_error(
        "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character",
        DNS1123_SUBDOMAIN_REGEX,
        &["example.com"],
    )
}

fn label_name_characters() -> String {
    regex_error(
        "must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
        LABEL_NAME_REGEX,
        &["MyName", "my.name", "123-abc"],
    )
}

pub fn dns1123_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX_LENGTH {
        errors.push(too_long(LABEL_MAX_LENGTH));
    }
    if is_dns1123_label(text) {
        return errors;
    }
    errors.push(if is_dns1123_subdomain(text) {
        "must not contain dots".to_owned()
    } else {
        regex_error(
            "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character",
            "[a-z0-9]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "123-abc"],
        )
    });
    errors
}

/// The same as `dns1123_label`, as a declared format: its messages count bytes.
pub fn short_name(text: &str) -> Vec<String> {
    if text.len() > LABEL_MAX_LENGTH {
        return vec![too_many_bytes(LABEL_MAX_LENGTH)];
    }
    dns1123_label(text)
}

/// The same as `dns1123_subdomain`, as a declared format: its messages count bytes.
pub fn long_name(text: &str) -> Vec<String> {
    if text.len() > SUBDOMAIN_MAX_LENGTH {
        return vec![too_many_bytes(SUBDOMAIN_MAX_LENGTH)];
    }
    dns1123_subdomain(text)
}

/// The same as `long_name`, in letters of any case.
pub fn long_name_caseless(text: &str) -> Vec<String> {
    if text.len() > SUBDOMAIN_MAX_LENGTH {
        return vec![too_many_bytes(SUBDOMAIN_MAX_LENGTH)];
    }
    if is_dns1123_subdomain(&text.to_lowercase()) {
        return Vec::new();
    }
    let why = "an RFC 1123 subdomain must consist of alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character";
    vec![regex_error(why, DNS1123_SUBDOMAIN_REGEX, &["Example.com"])]
}

pub fn dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX_LENGTH {
        errors.push(too_long(SUBDOMAIN_MAX_LENGTH));
    }
    if !is_dns1123_subdomain(text) {
        errors.push(subdomain_characters());
    }
    errors
}

pub fn dns1035_label(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX_LENGTH {
        errors.push(too_long(LABEL_MAX_LENGTH));
    }
    if !is_dns1035_label(text) {
        errors.push(regex_error(
            "a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character",
            "[a-z]([-a-z0-9]*[a-z0-9])?",
            &["my-name", "abc-123"],
        ));
    }
    errors
}

/// `*.example.com`
pub fn wildcard_dns1123_subdomain(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX_LENGTH {
        errors.push(too_long(SUBDOMAIN_MAX_LENGTH));
    }
    if !text.strip_prefix("*.").is_some_and(is_dns1123_subdomain) {
        errors.push(regex_error(
            "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric character",
            &format!(r"\*\.{DNS1123_SUBDOMAIN_REGEX}"),
            &["*.example.com"],
        ));
    }
    errors
}

/// A label key: `name` or `example.com/name`. Finalizers and annotations look the same.
pub fn qualified_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    let name = match text.split_once('/') {
        None => text,
        Some((_, rest)) if rest.contains('/') => {
            errors.push(format!(
                "a valid label key {} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')",
                label_name_characters()
            ));
            return errors;
        }
        Some(("", name)) => {
            errors.push("prefix part must be non-empty".to_owned());
            name
        }
        Some((prefix, name)) => {
            if prefix.len() > SUBDOMAIN_MAX_LENGTH {
                errors.push(format!("prefix part {}", too_many_bytes(SUBDOMAIN_MAX_LENGTH)));
            }
            if !is_dns1123_subdomain(prefix) {
                errors.push(format!("prefix part {}", subdomain_characters()));
            }
            name
        }
    };
    if name.is_empty() {
        errors.push("name part must be non-empty".to_owned());
    } else if name.len() > LABEL_MAX_LENGTH {
        errors.push(format!("name part {}", too_many_bytes(LABEL_MAX_LENGTH)));
    }
    if !is_label_name(name) {
        errors.push(format!("name part {}", label_name_characters()));
    }
    errors
}

pub fn label_value(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > LABEL_MAX_LENGTH {
        errors.push(too_many_bytes(LABEL_MAX_LENGTH));
    }
    if !text.is_empty() && !is_label_name(text) {
        errors.push(regex_error(
            "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character",
            &format!("({LABEL_NAME_REGEX})?"),
            &["MyValue", "my_value", "12345"],
        ));
    }
    errors
}

pub fn path_segment_name(text: &str) -> Vec<String> {
    match text {
        "." | ".." => vec![format!("may not be '{text}'")],
        _ => path_segment_prefix(text),
    }
}

fn path_segment_prefix(text: &str) -> Vec<String> {
    ['/', '%']
        .into_iter()
        .filter(|illegal| text.contains(*illegal))
        .map(|illegal| format!("may not contain '{illegal}'"))
        .collect()
}

/// A key of a `ConfigMap` or `Secret`.
pub fn config_map_key(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > SUBDOMAIN_MAX_LENGTH {
        errors.push(too_long(SUBDOMAIN_MAX_LENGTH));
    }
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_');
    if text.is_empty() || !text.bytes().all(fits) {
        errors.push(regex_error(
            "a valid config key must consist of alphanumeric characters, '-', '_' or '.'",
            "[-._a-zA-Z0-9]+",
            &["key.name", "KEY_NAME", "key-name"],
        ));
    }
    match text {
        "." | ".." => errors.push(format!("must not be '{text}'")),
        _ if text.starts_with("..") => errors.push("must not start with '..'".to_owned()),
        _ => {}
    }
    errors
}

/// The name of a container's port.
pub fn port_name(text: &str) -> Vec<String> {
    let mut errors = Vec::new();
    if text.len() > 15 {
        errors.push(too_long(15));
    }
    if text.is_empty() || !text.bytes().all(|byte| is_lower_alphanumeric(byte) || byte == b'-') {
        errors.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !text.bytes().any(|byte| byte.is_ascii_lowercase()) {
        errors.push("must contain at least one letter (a-z)".to_owned());
    }
    if text.contains("--") {
        errors.push("must not contain consecutive hyphens".to_owned());
    }
    if text.starts_with('-') || text.ends_with('-') {
        errors.push("must not begin or end with a hyphen".to_owned());
    }
    errors
}
