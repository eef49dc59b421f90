//! Tokens that live in secrets of type `kubernetes.io/service-account-token`: they never expire and are good
//! for as long as the secret holds them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, meta, value};
use jiff::{Span, Timestamp};

use super::service_account::{self, Registered, text};
use super::{Refusal, same_secret};
use crate::User;
use crate::service_account::{split_user_name, user_name};

/// Who makes these tokens.
pub const ISSUER: &str = "kubernetes/serviceaccount";
/// On a secret: the day its token was last used.
pub const LAST_USED: &str = "kubernetes.io/legacy-token-last-used";
/// On a secret: its token is not to be used any more.
pub const INVALID_SINCE: &str = "kubernetes.io/legacy-token-invalid-since";
/// What users of a token hear that came with its service account.
pub const AUTO_GENERATED: &str = "Use tokens from the TokenRequest API or manually created secret-based tokens instead of auto-generated secret-based tokens.";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claims {
    pub namespace: String,
    pub secret: String,
    pub name: String,
    uid: String,
}

/// A token that is good, and what its use brings with it.
#[derive(Debug, PartialEq, Eq)]
pub struct Accepted {
    pub user: User,
    /// Whether the secret came with the service account, which its users are warned of.
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

    /// Holds a token against the secret it came from and the service account it is for.
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
            user: service_account::user(&self.namespace, &self.name, &self.uid),
            auto_generated: own_secrets.any(|s| s.str_at(&["name"]) == Some(&self.secret)),
        })
    }
}

/// What the token in a secret says of the service account it is for.
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

/// The day to write on a secret whose token is used, if it is not there already. Tomorrow's counts too: the
/// clocks of several servers differ.
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
