//! Seccomp and AppArmor profiles: as fields, as the annotations they used to be, and both together.

use corten_api::status::ErrorList;
use corten_api::{Field, Value};

use crate::validation::internal_form;
use crate::validation::path::local_descending;
use crate::validation::text::{member, text};

const TYPES: [&str; 3] = ["Localhost", "RuntimeDefault", "Unconfined"];

fn local_profile(profile: &Value) -> Option<&str> {
    profile.get("localhostProfile").and_then(Value::as_str)
}

/// The member `seccompProfile`.
pub(crate) fn validate_seccomp_profile(security: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(profile) = member(security, "seccompProfile") else { return };
    let at = at.child("seccompProfile");
    let kind = text(profile, "type");
    match kind {
        "" => errors.required(at.child("type"), "type is required when seccompProfile is set"),
        kind if TYPES.contains(&kind) => {}
        other => errors.not_supported(at.child("type"), &Value::from(other), &TYPES),
    }
    let local_at = at.child("localhostProfile");
    match (kind, local_profile(profile)) {
        ("Localhost", None) => errors.required(local_at, "must be set when seccomp type is Localhost"),
        ("Localhost", Some(path)) => local_descending(path, &local_at, errors),
        (_, Some(_)) => {
            let shown = internal_form::compact("SeccompProfile", profile);
            errors.invalid_shown(local_at, shown, "can only be set when seccomp type is Localhost");
        }
        (_, None) => {}
    }
}

/// The member `appArmorProfile`.
pub(crate) fn validate_apparmor_profile(security: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let Some(profile) = member(security, "appArmorProfile") else { return };
    let at = at.child("appArmorProfile");
    let local_at = at.child("localhostProfile");
    match (text(profile, "type"), local_profile(profile)) {
        ("Localhost", local) => validate_apparmor_name(local, &local_at, errors),
        ("RuntimeDefault" | "Unconfined", Some(name)) => {
            let why = "can only be set when AppArmor type is Localhost";
            errors.invalid(local_at, &Value::from(name), why);
        }
        ("RuntimeDefault" | "Unconfined", None) => {}
        ("", _) => errors.required(at.child("type"), "type is required when appArmorProfile is set"),
        (other, _) => errors.not_supported(at.child("type"), &Value::from(other), &TYPES),
    }
}

fn validate_apparmor_name(name: Option<&str>, at: &Field<'_>, errors: &mut ErrorList) {
    const MOST: usize = 4095;
    match name {
        None | Some("") => errors.required(at, "must be set when AppArmor type is Localhost"),
        Some(name) => {
            if name.trim() != name {
                errors.invalid(at, &Value::from(name), "must not be padded with whitespace");
            }
            if name.len() > MOST {
                errors.too_long(at, MOST);
            }
        }
    }
}

/// The annotation format of a profile's type and name.
struct Spelling {
    /// The first words of a mismatch's message.
    kind: &'static str,
    runtime_default: &'static [&'static str],
}

const SECCOMP: Spelling =
    Spelling { kind: "seccomp", runtime_default: &["runtime/default", "docker/default"] };
const APPARMOR: Spelling = Spelling { kind: "apparmor", runtime_default: &["runtime/default"] };

/// Reports a seccomp profile that differs from its annotation.
pub(crate) fn validate_seccomp_matches(
    annotation: &str,
    profile: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_matches(&SECCOMP, annotation, profile, at, errors);
}

/// Reports an AppArmor profile that differs from its annotation.
pub(crate) fn validate_apparmor_matches(
    annotation: &str,
    profile: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    validate_matches(&APPARMOR, annotation, profile, at, errors);
}

fn validate_matches(
    spelling: &Spelling,
    annotation: &str,
    profile: &Value,
    at: &Field<'_>,
    errors: &mut ErrorList,
) {
    let local = annotation.strip_prefix("localhost/");
    let same_type = match text(profile, "type") {
        "Unconfined" => annotation == "unconfined",
        "RuntimeDefault" => spelling.runtime_default.contains(&annotation),
        "Localhost" => local.is_some(),
        _ => return,
    };
    let kind = spelling.kind;
    if !same_type {
        errors.forbidden(at.child("type"), format!("{kind} type in annotation and field must match"));
    } else if text(profile, "type") == "Localhost" && local != local_profile(profile) {
        let why = format!("{kind} profile in annotation and field must match");
        errors.forbidden(at.child("localhostProfile"), why);
    }
}
