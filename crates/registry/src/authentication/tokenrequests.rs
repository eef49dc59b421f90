//! Token requests: a token of a service account. They are a subresource of service
//! accounts, and never stored.

use corten_api::status::ErrorList;
use corten_api::{Field, Map, Value, json, names};

use crate::validation::fields::{number, part};
use crate::validation::text::{list, text};

const SHORTEST_SECONDS: i64 = 10 * 60;
const LONGEST_SECONDS: i64 = 1 << 32;
/// The groups for whose admission reviews a webhook's token is valid.
const ADMISSION_GROUPS: &str = "admissionReviewAPIGroups";

/// All errors of a defaulted `TokenRequest`.
pub fn validate_token_request(request: &Value, errors: &mut ErrorList) {
    let (spec, at) = (part(request, "spec"), Field::new("spec"));
    let seconds = number(spec, "expirationSeconds");
    let mut duration = |why: &str| errors.invalid(at.child("expirationSeconds"), &Value::Int(seconds), why);
    if seconds < SHORTEST_SECONDS {
        duration("may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST_SECONDS {
        duration("may not specify a duration larger than 2^32 seconds");
    }
    if is_webhook(part(spec, "boundObjectRef")) {
        if list(spec, "audiences").len() != 1 {
            let why = "must be length 1 when bound to a webhook config";
            errors.invalid(at.child("audiences"), part(spec, "audiences"), why);
        }
        validate_attestations(part(spec, "attestations"), &at.child("attestations"), errors);
        return;
    }
    let attestations = part(spec, "attestations");
    if attestations.as_object().is_some_and(|map| !map.is_empty()) {
        errors.0.clear();
        let why = "attestations may only be specified with a webhook bound object reference";
        errors.invalid(at.child("attestations"), attestations, why);
    }
}

fn is_webhook(reference: &Value) -> bool {
    text(reference, "apiVersion") == "admissionregistration.k8s.io/v1"
        && matches!(
            text(reference, "kind"),
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration"
        )
}

fn validate_attestations(attestations: &Value, at: &Field<'_>, errors: &mut ErrorList) {
    static NONE: Map = Map::new();
    let map = attestations.as_object().unwrap_or(&NONE);
    if map.len() != 1 {
        let why = "webhook bound requests require exactly one admissionReviewAPIGroups attestation";
        errors.invalid_shown(*at, json::write_to_string(attestations), why);
        return;
    }
    for (key, values) in map.iter() {
        let at = at.key(key);
        match (key.as_str(), values.as_array().unwrap_or_default()) {
            (ADMISSION_GROUPS, [group]) => {
                validate_group(group.as_str().unwrap_or_default(), &at.index(0), errors);
            }
            (ADMISSION_GROUPS, _) => errors.invalid(at, values, "must specify a single value"),
            (other, _) => errors.not_supported(at, &Value::from(other), &[ADMISSION_GROUPS]),
        }
    }
}

/// The empty group would mean all groups to an authorizer, so it is refused.
fn validate_group(group: &str, at: &Field<'_>, errors: &mut ErrorList) {
    match group {
        "" => errors.invalid(*at, &Value::from(group), "may not be an empty string"),
        "*" => {}
        _ => {
            for complaint in names::dns1123_subdomain(group) {
                let why = format!("must specify a valid API Group: {complaint}");
                errors.invalid(*at, &Value::from(group), why);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn tokens_live_ten_minutes_at_least() {
        let complaints = |spec: Value| {
            let mut errors = ErrorList::new();
            validate_token_request(&value!({"spec": spec}), &mut errors);
            errors.summary()
        };
        assert_eq!(complaints(value!({"expirationSeconds": 3600})), "");
        assert_eq!(
            complaints(value!({"expirationSeconds": 60})),
            "spec.expirationSeconds: Invalid value: 60: may not specify a duration less than 10 minutes"
        );
        assert_eq!(
            complaints(value!({"expirationSeconds": 4294967297i64})),
            "spec.expirationSeconds: Invalid value: 4294967297: may not specify a duration larger than 2^32 seconds"
        );
    }
}
