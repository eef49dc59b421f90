//! Secrets, as the controllers that look after tokens see them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Str, Value};
use corten_client::View;

pub(crate) const BOOTSTRAP_TOKEN: &str = "bootstrap.kubernetes.io/token";
pub(crate) const SERVICE_ACCOUNT_TOKEN: &str = "kubernetes.io/service-account-token";
pub(crate) const ACCOUNT_NAME: &str = "kubernetes.io/service-account.name";
pub(crate) const ACCOUNT_UID: &str = "kubernetes.io/service-account.uid";

/// What secrets are told apart by.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Secret {
    pub(crate) kind: Str,
    /// Of a token: the service account it is for, and which one of that name, if it says so.
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

/// What a secret holds under a key; empty if it holds nothing there.
pub(crate) fn data(secret: &Value, key: &str) -> Vec<u8> {
    let text = secret.str_at(&["data", key]).unwrap_or_default();
    STANDARD.decode(text).unwrap_or_default()
}

pub(crate) fn set_data(secret: &mut Value, key: &str, value: &[u8]) {
    secret.set(&["data", key], STANDARD.encode(value));
}

/// Whether a service account is the one that is meant: any of its name, if only that is said.
pub(crate) fn is_meant(account: &Value, uid: &str) -> bool {
    uid.is_empty() || uid == corten_api::meta::uid(account)
}

/// Whether a service account names a secret as its own.
pub(crate) fn refers_to(account: &Value, secret: &str) -> bool {
    account.items_at(&["secrets"]).iter().any(|own| own.str_at(&["name"]) == Some(secret))
}
