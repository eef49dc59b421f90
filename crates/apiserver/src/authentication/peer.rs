//! The other end of a connection, as far as its certificate says who that is.

use std::net::IpAddr;
use std::sync::Arc;

use corten_auth::authentication::{CREDENTIAL_ID, REMOTE_ADDRESS, digest};
use corten_auth::{AUTHENTICATED, User};
use corten_pki::CertIdentity;
use jiff::Timestamp;

/// The group of nodes.
const NODES: &str = "system:nodes";

/// Who is at the other end.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// No certificate was shown.
    Nobody,
    /// Somebody inside this process.
    Known(Arc<User>),
    Certificate(Certificate),
}

/// What a certificate proves, for as long as it is valid.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    /// The user it names, if an authority of clients signed it.
    pub(crate) user: Option<Arc<User>>,
    /// Whether it may speak for others.
    pub(crate) is_proxy: bool,
    pub(crate) expires: Timestamp,
}

impl Certificate {
    /// One that proves nothing.
    pub(crate) fn worthless() -> Certificate {
        Certificate { user: None, is_proxy: false, expires: Timestamp::MAX }
    }
}

/// The user a client certificate names; `None` if it names no user. Of a node it is noted where it connected from: only
/// that address can it have certified without an administrator.
pub(crate) fn certified(identity: &CertIdentity, der: &[u8], remote: Option<IpAddr>) -> Option<User> {
    if identity.common_name.is_empty() || identity.uid.as_deref() == Some("") {
        return None;
    }
    let mut groups = identity.organizations.clone();
    groups.push(AUTHENTICATED.into());
    let mut user = User {
        name: identity.common_name.clone(),
        uid: identity.uid.clone().unwrap_or_default(),
        groups,
        ..User::default()
    };
    let fingerprint: String = digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("X509SHA256={fingerprint}")]);
    if let Some(remote) = remote.filter(|_| user.is_in(NODES)) {
        user.extra.insert(REMOTE_ADDRESS.to_owned(), vec![remote.to_canonical().to_string()]);
    }
    Some(user)
}
