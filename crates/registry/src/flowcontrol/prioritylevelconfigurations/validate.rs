//! Validation of priority levels. Two levels are part of every cluster.

use corten_api::status::ErrorList;
use corten_api::{Field, Value, value};

use crate::flowcontrol::validate_conditions;
use crate::validation::fields::{number, part};
use crate::validation::internal_form;
use crate::validation::text::{member, text};

const MOST_QUEUES: i64 = 10_000_000;
/// Bits of a hash that dealing a hand of queues may use up.
const MOST_ENTROPY_BITS: f64 = 60.0;
/// The annotation of an older version that could not represent zero.
const ZERO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

pub(super) fn validate(level: &Value, errors: &mut ErrorList) {
    if level.at(&["metadata", "annotations", ZERO_SHARES]).is_some() {
        errors.forbidden("metadata.annotations", format!("annotation '{ZERO_SHARES}' is forbidden"));
    }
    let (spec, at) = (part(level, "spec"), Field::new("spec"));
    let name = text(part(level, "metadata"), "name");
    validate_spec(name, spec, &at, errors);
    validate_fixed(name, spec, &at, errors);
    validate_conditions(level, errors);
    validate_members(spec, &at, errors);
}

/// Of the mandatory levels, only the lendable concurrency of the exempt level is mutable.
fn validate_fixed(name: &str, spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (fixed, exception) = match name {
        "exempt" => {
            let same = text(spec, "type") == "Exempt" && member(spec, "limited").is_none();
            (same, " except the 'spec.exempt' field")
        }
        "catch-all" => {
            let limited = value!({
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
            });
            (*spec == value!({"type": "Limited", "limited": limited}), "")
        }
        _ => return,
    };
    if !fixed {
        let why = format!("spec of '{name}'{exception} must equal the fixed value");
        errors.invalid_shown(*at, internal_form::compact("PriorityLevelConfigurationSpec", spec), why);
    }
}

fn validate_spec(name: &str, spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(spec, "type");
    if (name == "exempt") != (kind == "Exempt") {
        let why = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.invalid(at.child("type"), &Value::from(kind), why);
    }
    match kind {
        "Exempt" => {
            if let Some(exempt) = member(spec, "exempt") {
                validate_shares(exempt, &at.child("exempt"), errors);
                validate_lendable(exempt, &at.child("exempt"), errors);
            }
        }
        "Limited" => {
            if let Some(limited) = member(spec, "limited") {
                validate_limited(limited, &at.child("limited"), errors);
            }
        }
        "" => {}
        other => errors.not_supported(at.child("type"), &Value::from(other), &["Exempt", "Limited"]),
    }
}

/// The members of each type must be set, and no others.
fn validate_members(spec: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let kind = text(spec, "type");
    if kind != "Exempt" && member(spec, "exempt").is_some() {
        errors.forbidden(at.child("exempt"), "");
    }
    validate_member(spec, "limited", "Limited", at, errors);
    if let Some(limited) = member(spec, "limited") {
        let at = at.child("limited");
        validate_member(
            part(limited, "limitResponse"),
            "queuing",
            "Queue",
            &at.child("limitResponse"),
            errors,
        );
    }
}

/// A member that is required for one type and forbidden for all others.
fn validate_member(owner: &Value, key: &str, kind: &str, at: &Field<'_>, errors: &mut ErrorList) {
    match (text(owner, "type") == kind, member(owner, key)) {
        (true, None) => errors.required(at.child(key), ""),
        (false, Some(_)) => errors.forbidden(at.child(key), ""),
        _ => {}
    }
    if text(owner, "type").is_empty() {
        errors.required(at.child("type"), "");
    }
}

fn validate_shares(level: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let shares = number(level, "nominalConcurrencyShares");
    if shares < 0 {
        let why = "must be a non-negative integer";
        errors.invalid(at.child("nominalConcurrencyShares"), &Value::Int(shares), why);
    }
}

fn validate_lendable(level: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let percent = number(level, "lendablePercent");
    if !(0..=100).contains(&percent) {
        let why = "must be between 0 and 100, inclusive";
        errors.invalid(at.child("lendablePercent"), &Value::Int(percent), why);
    }
}

fn validate_limited(limited: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    validate_shares(limited, at, errors);
    validate_response(part(limited, "limitResponse"), &at.child("limitResponse"), errors);
    validate_lendable(limited, at, errors);
    let borrowed = number(limited, "borrowingLimitPercent");
    if borrowed < 0 {
        let why = "if specified, must be a non-negative integer";
        errors.invalid(at.child("borrowingLimitPercent"), &Value::Int(borrowed), why);
    }
}

fn validate_response(response: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    match (text(response, "type"), member(response, "queuing")) {
        ("Queue", Some(queuing)) => validate_queuing(queuing, &at.child("queuing"), errors),
        ("" | "Queue" | "Reject", _) => {}
        (other, _) => errors.not_supported(at.child("type"), &Value::from(other), &["Queue", "Reject"]),
    }
}

fn validate_queuing(queuing: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    let (queues, hand) = (number(queuing, "queues"), number(queuing, "handSize"));
    let mut refuse = |key: &str, why: String| {
        errors.invalid(at.child(key), &Value::Int(number(queuing, key)), why);
    };
    if number(queuing, "queueLengthLimit") <= 0 {
        refuse("queueLengthLimit", "must be positive".to_owned());
    }
    if queues <= 0 {
        refuse("queues", "must be positive".to_owned());
    } else if queues > MOST_QUEUES {
        refuse("queues", format!("must not be greater than {MOST_QUEUES}"));
    }
    if hand <= 0 {
        refuse("handSize", "must be positive".to_owned());
    } else if hand > queues {
        refuse("handSize", format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > MOST_ENTROPY_BITS {
        let why = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MOST_ENTROPY_BITS}"
        );
        refuse("handSize", why);
    }
}

/// The bits of a hash that dealing a hand of queues uses.
fn entropy_bits(queues: i64, hand: i64) -> f64 {
    let exact = |number: i64| f64::from(i32::try_from(number).unwrap_or(i32::MAX));
    (exact(queues).log2() * exact(hand)).ceil()
}
