//! Conditions of newer types: each type once, with a reason and a transition time.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, names};

use crate::validation::repeats::Repeats;
use crate::validation::text::{complain, member, text};

const REASON_MAX_LENGTH: usize = 1024;
const MESSAGE_MAX_LENGTH: usize = 32 * 1024;

pub(crate) fn validate_conditions(conditions: &[Value], at: &Field<'_>, errors: &mut ErrorList) {
    let repeats = Repeats::of(conditions, |item| text(item, "type"));
    for (i, condition) in conditions.iter().enumerate() {
        let kind = text(condition, "type");
        if repeats.at(i) {
            errors.duplicate(at.index(i), &Value::from(kind));
        }
        validate_condition(condition, &at.index(i), errors);
    }
}

fn validate_condition(condition: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match text(condition, "type") {
        "" => errors.required(at.child("type"), "is required"),
        kind => complain(&at.child("type"), kind, names::qualified_name(kind), errors),
    }
    match text(condition, "status") {
        "True" | "False" | "Unknown" => {}
        "" => errors.required(at.child("status"), ""),
        other => {
            errors.not_supported(at.child("status"), &Value::from(other), &["False", "True", "Unknown"]);
        }
    }
    let generation = condition.int_at(&["observedGeneration"]).unwrap_or(0);
    if generation < 0 {
        let why = "must be greater than or equal to zero";
        errors.invalid(at.child("observedGeneration"), &Value::Int(generation), why);
    }
    if member(condition, "lastTransitionTime").is_none() {
        errors.required(at.child("lastTransitionTime"), "");
    }
    validate_reason(text(condition, "reason"), &at.child("reason"), errors);
    if text(condition, "message").len() > MESSAGE_MAX_LENGTH {
        errors.too_long(at.child("message"), MESSAGE_MAX_LENGTH);
    }
}

fn validate_reason(reason: &str, at: &Field<'_>, errors: &mut ErrorList) {
    if reason.is_empty() {
        errors.required(*at, "");
        return;
    }
    if !is_reason(reason) {
        let why = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')";
        errors.invalid(*at, &Value::from(reason), why);
    }
    if reason.len() > REASON_MAX_LENGTH {
        errors.too_long(*at, REASON_MAX_LENGTH);
    }
}

fn is_reason(reason: &str) -> bool {
    let word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    match reason.as_bytes() {
        [only] => only.is_ascii_alphabetic(),
        [first, middle @ .., last] => {
            first.is_ascii_alphabetic()
                && word(*last)
                && middle.iter().all(|byte| word(*byte) || matches!(byte, b',' | b':'))
        }
        [] => false,
    }
}
