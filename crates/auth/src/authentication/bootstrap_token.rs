//! Bootstrap tokens, with which a machine joins a cluster.
//!
//! A token is `id.secret`; a Secret in `kube-system` named after the id contains its secret, expiry and usages. An invalid
//! token is treated like one that does not exist.

use std::time::Duration;

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use corten_api::{Value, meta, time};
use jiff::Timestamp;

use super::same_secret;
use crate::{AUTHENTICATED, User};

/// The namespace of the secrets.
pub const NAMESPACE: &str = "kube-system";
const PREFIX: &str = "bootstrap-token-";
const TYPE: &str = "bootstrap.kubernetes.io/token";
const GROUP: &str = "system:bootstrappers";

/// A token in the valid format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BootstrapToken<'a> {
    id: &'a str,
    secret: &'a str,
}

impl<'a> BootstrapToken<'a> {
    /// Parses six characters, a dot, sixteen characters; lower-case letters and digits.
    pub fn parse(token: &'a str) -> Option<BootstrapToken<'a>> {
        let (id, secret) = token.split_once('.')?;
        let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
        (id.len() == 6 && secret.len() == 16 && plain(id) && plain(secret))
            .then_some(BootstrapToken { id, secret })
    }

    /// The name of the token's secret.
    pub fn secret_name(&self) -> String {
        format!("{PREFIX}{}", self.id)
    }

    /// The user of the token, if its secret allows authentication.
    pub fn user(&self, secret: &Value, now: Timestamp) -> Option<User> {
        let data = |key: &str| data(secret, key);
        if meta::is_deleting(secret) || secret.str_at(&["type"]) != Some(TYPE) {
            return None;
        }
        if !same_secret(data("token-secret").as_bytes(), self.secret.as_bytes())
            || data("token-id") != self.id
        {
            return None;
        }
        let expiration = data("expiration");
        let live = expiration.is_empty() || time::parse(&expiration).is_ok_and(|at| at > now);
        if !live || data("usage-bootstrap-authentication") != "true" {
            return None;
        }
        let mut groups = groups(&data("auth-extra-groups"))?;
        groups.push(AUTHENTICATED.to_owned());
        Some(User { name: format!("system:bootstrap:{}", self.id), groups, ..User::default() })
    }
}

/// The remaining validity of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expiration {
    Never,
    In(Duration),
    /// Expired, or with an invalid expiration.
    Over,
}

/// The remaining validity of a secret's token.
pub fn expiration(secret: &Value, now: Timestamp) -> Expiration {
    let text = data(secret, "expiration");
    if text.is_empty() {
        return Expiration::Never;
    }
    let left = time::parse(&text).ok().and_then(|end| Duration::try_from(end.duration_since(now)).ok());
    left.filter(|left| !left.is_zero()).map_or(Expiration::Over, Expiration::In)
}

/// The id and the secret of a token that may sign the `cluster-info` config map.
pub fn for_signing(secret: &Value, now: Timestamp) -> Option<(String, String)> {
    let (id, value) = (data(secret, "token-id"), data(secret, "token-secret"));
    let plain = |text: &str| text.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit());
    let named = id.len() == 6 && plain(&id) && meta::name(secret).strip_prefix(PREFIX) == Some(&id);
    let good =
        expiration(secret, now) != Expiration::Over && data(secret, "usage-bootstrap-signing") == "true";
    (named && good && !value.is_empty()).then_some((id, value))
}

/// A token's detached signature of a text.
pub fn sign(content: &str, id: &str, secret: &str) -> String {
    let header = URL_SAFE_NO_PAD.encode(format!(r#"{{"alg":"HS256","kid":"{id}"}}"#));
    let message = format!("{header}.{}", URL_SAFE_NO_PAD.encode(content));
    let signature = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), message.as_bytes());
    format!("{header}..{}", URL_SAFE_NO_PAD.encode(signature))
}

/// The groups of a token, sorted and without duplicates; `None` if one is not a bootstrappers group.
fn groups(extra: &str) -> Option<Vec<String>> {
    let mut groups = vec![GROUP.to_owned()];
    for group in extra.split(',').filter(|_| !extra.is_empty()) {
        let rest = group.strip_prefix("system:bootstrappers:")?;
        let inner = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        let last = *rest.as_bytes().last()?;
        if rest.len() > 256 || !inner(last) || !rest.bytes().all(|b| inner(b) || b == b':' || b == b'-') {
            return None;
        }
        groups.push(group.to_owned());
    }
    groups.sort();
    groups.dedup();
    Some(groups)
}

fn data(secret: &Value, key: &str) -> String {
    let encoded = secret.str_at(&["data", key]).unwrap_or_default();
    STANDARD.decode(encoded).ok().and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests;
