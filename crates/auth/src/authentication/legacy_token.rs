//! Tokens in secrets of type `kubernetes.io/service-account-token`: they never expire and are valid while the secret contains
//! them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, meta, value};
use jiff::{Span, Timestamp};

use super::service_account_token::{self, Registered, text};
use super::{Refusal, same_secret};
use crate::User;
use crate::service_account::{split_user_name, user_name};

/// The issuer of these tokens.
pub const ISSUER: &str = "kubernetes/serviceaccount";
/// The label of a secret with the day on which its token was last used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// The label of a secret whose token is invalid.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// The warning about a token that was created with its service account.
pub const AUTO_GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub namespace: String,
    pub secret: String,
    pub name: String,
    uid: String,
}

/// A valid token, and the warning about its use.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    pub user: User,
    /// True if the secret was created with the service account, which clients are warned about.
    pub auto_generated: bool,
}

impl Claims {
    /// The claims, if they are complete and agree with the subject.
    pub fn read(claims: &Value, registered: &Registered) -> Result<Claims, Refusal> {
        let claim = |name: &str| text(claims, &format!("kubernetes.io/serviceaccount/{name}"));
        let required = |name: &'static str, value: String| match value.is_empty() {
            true => Err(Refusal::MissingClaim(name)),
            false => Ok(value),
        };
        required("sub", registered.subject.clone())?;
        let found = Claims {
            namespace: required("namespace", claim("namespace")?)?,
            secret: required("secretName", claim("secret.name")?)?,
            name: required("serviceAccountName", claim("service-account.name")?)?,
            uid: required("serviceAccountUID", claim("service-account.uid")?)?,
        };
        if split_user_name(&registered.subject) != Some((&found.namespace, &found.name)) {
            return Err(Refusal::Subject);
        }
        Ok(found)
    }

    /// Compares a token with its secret and its service account.
    pub fn check(
        &self,
        token: &str,
        secret: Option<&Value>,
        account: Option<&Value>,
    ) -> Result<Accepted, Refusal> {
        let secret = secret.filter(|s| !meta::is_deleting(s)).ok_or(Refusal::LegacyInvalidated)?;
        let held = secret.str_at(&["data", "token"]).and_then(|data| STANDARD.decode(data).ok());
        if !same_secret(&held.unwrap_or_default(), token.as_bytes()) {
            return Err(Refusal::OtherToken);
        }
        let account = account.ok_or_else(|| Refusal::NoServiceAccount(self.name.clone()))?;
        if meta::is_deleting(account) {
            let (namespace, name) = (self.namespace.clone(), self.name.clone());
            return Err(Refusal::LegacyServiceAccountDeleted { namespace, name });
        }
        if meta::uid(account) != self.uid {
            let (found, claimed) = (meta::uid(account).to_owned(), self.uid.clone());
            return Err(Refusal::OtherUid { subject: "ServiceAccount UID", found, claim: "claim", claimed });
        }
        if label(secret, INVALID_SINCE).is_some_and(|since| !since.is_empty()) {
            let (namespace, secret, name) = (self.namespace.clone(), self.secret.clone(), self.name.clone());
            return Err(Refusal::MarkedInvalid { namespace, secret, name });
        }
        let mut own_secrets = account.items_at(&["secrets"]).iter();
        Ok(Accepted {
            user: service_account_token::user(&self.namespace, &self.name, &self.uid),
            auto_generated: own_secrets.any(|s| s.str_at(&["name"]) == Some(&self.secret)),
        })
    }
}

/// The claims of the token in a service account's secret.
pub fn claims(account: &Value, secret: &str) -> Value {
    let (namespace, name) = (meta::namespace(account), meta::name(account));
    value!({
        "iss": ISSUER,
        "kubernetes.io/serviceaccount/namespace": namespace,
        "kubernetes.io/serviceaccount/secret.name": secret,
        "kubernetes.io/serviceaccount/service-account.name": name,
        "kubernetes.io/serviceaccount/service-account.uid": (meta::uid(account)),
        "sub": (user_name(namespace, name)),
    })
}

/// The day for the label of a secret whose token is used, if it is not set already. Tomorrow's counts as set too, because
/// the clocks of several servers differ.
pub fn last_used(secret: &Value, now: Timestamp) -> Option<String> {
    let day = |at: Timestamp| at.strftime("%Y-%m-%d").to_string();
    let (today, tomorrow) = (day(now), now.checked_add(Span::new().hours(24)).map(day));
    let noted = label(secret, LAST_USED).unwrap_or_default();
    (noted != today && tomorrow.is_ok_and(|tomorrow| noted != tomorrow)).then_some(today)
}

fn label<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    meta::labels(object)?.get(key)?.as_str()
}

#[cfg(test)]
mod tests;
