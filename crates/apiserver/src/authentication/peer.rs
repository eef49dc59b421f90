//! The peer of a connection, by its certificate.

use std::net::IpAddr;
use std::sync::Arc;

use corten_auth::authentication::{CREDENTIAL_ID, REMOTE_ADDRESS, digest};
use corten_auth::{AUTHENTICATED, User};
use corten_pki::CertIdentity;
use jiff::Timestamp;

/// The group of nodes.
const NODES: &str = "system:nodes";

/// The peer of a connection.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// No client certificate.
    NoCertificate,
    /// A client in this process.
    InProcess(Arc<User>),
    Certificate(Certificate),
}

/// The identity in a client certificate, while it is valid.
#[derive(Debug, Clone)]
pub(crate) struct Certificate {
    /// The user that it names, if a client CA signed it.
    pub(crate) user: Option<Arc<User>>,
    /// True for the certificate of a front proxy.
    pub(crate) is_proxy: bool,
    pub(crate) expires: Timestamp,
}

impl Certificate {
    /// A certificate that proves nothing.
    pub(crate) fn invalid() -> Certificate {
        Certificate { user: None, is_proxy: false, expires: Timestamp::MAX }
    }
}

/// The user that a client certificate names; `None` if it names no user. A node's user gets the remote address in its extra:
/// only for that address can a node get a certificate approved without an administrator.
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
