//! `TokenRequest`: what may be asked for, and for how long a token is made.

use corten_api::status::ErrorList;
use corten_api::{Value, resources};

/// The shortest lifetime that may be asked for.
const SHORTEST: i64 = 10 * 60;
const LONGEST: i64 = 1 << 32;
/// What clients that cannot renew tokens ask for: a mark, one hour and seven seconds.
const MARKED: i64 = 60 * 60 + 7;
/// How long tokens with that mark live.
const EXTENDED: i64 = 365 * 24 * 60 * 60;

/// For how long a token is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Lifetime {
    /// What the client is told.
    pub told: i64,
    /// What the token says.
    pub actual: i64,
    /// From when on its use is worth a warning.
    pub warn_after: Option<i64>,
}

/// What the server does with lifetimes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LifetimeRules {
    /// In seconds; zero means no limit.
    pub longest: i64,
    pub extend: bool,
}

impl LifetimeRules {
    /// The lifetime of a token that is asked for: `for_pod` if it is bound to one, `for_api` if it is for
    /// the API server alone.
    pub fn lifetime(self, asked: i64, for_pod: bool, for_api: bool) -> Lifetime {
        let told = if self.longest > 0 { asked.min(self.longest) } else { asked };
        if self.extend && for_pod && told == MARKED && for_api {
            return Lifetime { told, actual: EXTENDED, warn_after: Some(told) };
        }
        Lifetime { told, actual: told, warn_after: None }
    }
}

/// What is wrong with the `spec` of a request whose defaults are filled in.
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

/// What a token is to be bound to, as the request names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bound {
    Pod,
    Secret,
    Node,
}

/// Reads the kind of a `boundObjectRef`; the error is upstream's.
pub fn bound_kind(reference: &Value) -> Result<Bound, String> {
    let text = |key| reference.str_at(&[key]).unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    // What is not a version at all counts as none.
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
