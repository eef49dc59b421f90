//! Secrets, as the controllers of tokens see them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Str, Value};
use corten_client::View;

pub(crate) const BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";
pub(crate) const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
pub(crate) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
pub(crate) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// The identifying fields of a secret.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) kind: Str,
    /// For a token: the name of its service account, and its uid if it is set.
    pub(crate) account: Str,
    pub(crate) account_uid: Str,
}

impl View for Secret {
    fn of(tree: &Value) -> Secret {
        let text = |path: &[&str]| Str::new(tree.str_at(path).unwrap_or_default());
        Secret {
            kind: text(&["type"]),
            account: text(&["metadata", "annotations", ACCOUNT_NAME]),
            account_uid: text(&["metadata", "annotations", ACCOUNT_UID]),
        }
    }
}

/// The data under a key; empty without one.
pub(crate) fn data(secret: &Value, key: &str) -> Vec<u8> {
    let text = secret.str_at(&["data", key]).unwrap_or_default();
    STANDARD.decode(text).unwrap_or_default()
}

pub(crate) fn set_data(secret: &mut Value, key: &str, value: &[u8]) {
    secret.set(&["data", key], STANDARD.encode(value));
}

/// True if a service account is the referenced one: any of its name, if there is no uid.
pub(crate) fn is_meant(account: &Value, uid: &str) -> bool {
    uid.is_empty() || uid == corten_api::meta::uid(account)
}

/// True if a service account lists a secret.
pub(crate) fn refers_to(account: &Value, secret: &str) -> bool {
    account.items_at(&["secrets"]).iter().any(|own| own.str_at(&["name"]) == Some(secret))
}
