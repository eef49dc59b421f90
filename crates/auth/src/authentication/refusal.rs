//! The reasons of rejected credentials.
//!
//! Clients read these messages in token reviews, so they are upstream's.

use corten_api::status::quoted;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// No authenticator accepts it.
    #[error("invalid bearer token")]
    Unknown,
    /// It was sent in an invalid way.
    #[error("{0}")]
    Misplaced(&'static str),
    #[error("invalid signature, no keys found")]
    NoKey,
    #[error("go-jose/go-jose: error in cryptographic primitive")]
    Signature,
    #[error("go-jose/go-jose/jwt: expected number value to unmarshal NumericDate")]
    NotADate,
    #[error("go-jose/go-jose/jwt: expected string or array value to unmarshal to Audience")]
    NotAnAudience,
    #[error("json: cannot unmarshal {found} into Go value of type {expected}")]
    Malformed { found: &'static str, expected: &'static str },
    #[error("token audiences {} is invalid for the target audiences {}", list(.token), list(.target))]
    Audience { token: Vec<String>, target: Vec<String> },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("service account token is issued in the future")]
    IssuedInTheFuture,
    #[error("service account token has been invalidated")]
    Invalidated,
    #[error("resource name may not be empty")]
    NoName,
    #[error("serviceaccounts {} not found", quoted(.0))]
    NoServiceAccount(String),
    #[error("{subject} ({found}) does not match {claim} ({claimed})")]
    OtherUid { subject: &'static str, found: String, claim: &'static str, claimed: String },
    #[error("service account {namespace}/{name} has been deleted")]
    ServiceAccountDeleted { namespace: String, name: String },
    #[error("ServiceAccount {namespace}/{name} has been deleted")]
    LegacyServiceAccountDeleted { namespace: String, name: String },
    #[error("{0} claim is missing")]
    MissingClaim(&'static str),
    #[error("sub claim is invalid")]
    Subject,
    #[error("Token has been invalidated")]
    LegacyInvalidated,
    #[error("Token does not match server's copy")]
    OtherToken,
    #[error(
        "the token in secret {namespace}/{secret} for service account {namespace}/{name} has been marked invalid. \
         Use tokens from the TokenRequest API or manually created secret-based tokens, or remove the \
         'kubernetes.io/legacy-token-invalid-since' label from the secret to temporarily allow use of this token"
    )]
    MarkedInvalid { namespace: String, secret: String, name: String },
}

fn list(items: &[String]) -> String {
    let items: Vec<String> = items.iter().map(|item| quoted(item)).collect();
    format!("[{}]", items.join(" "))
}
