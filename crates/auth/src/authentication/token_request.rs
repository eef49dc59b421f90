//! `TokenRequest`: validation, and the lifetime of the token.

use corten_api::status::ErrorList;
use corten_api::{Value, resources};

/// The minimum lifetime of a request.
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;
/// The lifetime that marks requests for clients that may not renew tokens: one hour and seven seconds.
const MARKED: i64 = 60 * 60 + 7;
/// The actual lifetime of such tokens.
const EXTENDED: i64 = 365 * 24 * 60 * 60;

/// The lifetime of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// The lifetime in the response.
    pub reported: i64,
    /// The lifetime in the token.
    pub actual: i64,
    /// The seconds after which its use is warned about.
    pub warn_after: Option<i64>,
}

/// The server's rules for lifetimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeRules {
    /// In seconds; zero means no limit.
    pub longest: i64,
    pub extend: bool,
}

impl LifetimeRules {
    /// The lifetime of a requested token: `for_pod` if it is bound to a pod, `for_api` if its only audience is the API server.
    pub fn lifetime(self, asked: i64, for_pod: bool, for_api: bool) -> Lifetime {
        let reported = if self.longest > 0 { asked.min(self.longest) } else { asked };
        if self.extend && for_pod && reported == MARKED && for_api {
            return Lifetime { reported, actual: EXTENDED, warn_after: Some(reported) };
        }
        Lifetime { reported, actual: reported, warn_after: None }
    }
}

/// Validates the `spec` of a request with its defaults set.
pub fn validate(spec: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let seconds = spec.int_at(&["expirationSeconds"]).unwrap_or_default();
    let mut invalid = |why| errors.invalid("spec.expirationSeconds", &Value::Int(seconds), why);
    if seconds < SHORTEST {
        invalid("may not specify a duration less than 10 minutes");
    }
    if seconds > LONGEST {
        invalid("may not specify a duration larger than 2^32 seconds");
    }
    if let Some(attestations) =
        spec.get("attestations").filter(|a| a.as_object().is_some_and(|a| !a.is_empty()))
    {
        let mut errors = ErrorList::new();
        let why = "attestations may only be specified with a webhook bound object reference";
        errors.invalid("spec.attestations", attestations, why);
        return errors;
    }
    errors
}

/// The kind of the request's bound object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Pod,
    Secret,
    Node,
}

/// Parses the kind of a `boundObjectRef`; the error is upstream's.
pub fn bound_kind(reference: &Value) -> Result<Bound, String> {
    let text = |key| reference.str_at(&[key]).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    // An invalid version counts as absent.
    let (group, version) = match api_version.matches('/').count() {
        0 | 1 => resources::split_api_version(api_version),
        _ => ("", ""),
    };
    match (group, kind) {
        ("", "Pod") => Ok(Bound::Pod),
        ("", "Secret") => Ok(Bound::Secret),
        ("", "Node") => Ok(Bound::Node),
        (
            "admissionregistration.k8s.io",
            "ValidatingWebhookConfiguration" | "MutatingWebhookConfiguration",
        ) if version == "v1" => Err(format!(
            "cannot bind token to object of type {group}/{version}, Kind={kind} (feature gate APIServerWebhookAuthenticationToken is disabled)"
        )),
        _ => Err(format!("cannot bind token to object of type {group}/{version}, Kind={kind}")),
    }
}

#[cfg(test)]
mod tests;
