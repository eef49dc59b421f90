//! Who is asking: what a request's credentials prove.
//!
//! A credential that cannot be believed is refused, never taken for none.

use std::sync::Arc;

use corten_api::Status;
use corten_auth::{AUTHENTICATED, User};
use corten_pki::CertIdentity;

/// What a connection's certificate says of whoever uses it.
#[derive(Debug, Clone)]
pub(crate) enum Peer {
    /// No certificate was shown.
    Nobody,
    /// One that does not verify.
    Refused,
    Known(Arc<User>),
}

/// The user of a request.
pub(crate) fn authenticate(peer: &Peer, headers: &http::HeaderMap) -> Result<Arc<User>, Status> {
    match peer {
        Peer::Known(user) => Ok(user.clone()),
        Peer::Refused => Err(Status::unauthorized()),
        // A token nobody can check is a bad credential, not none.
        Peer::Nobody if bears_token(headers) => Err(Status::unauthorized()),
        Peer::Nobody => Ok(Arc::new(User::anonymous())),
    }
}

fn bears_token(headers: &http::HeaderMap) -> bool {
    let header = headers.get(http::header::AUTHORIZATION).and_then(|v| v.to_str().ok()).unwrap_or_default();
    header.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("bearer "))
}

/// The user a client certificate names.
pub(crate) fn certified(identity: CertIdentity) -> User {
    let mut groups = identity.organizations;
    groups.push(AUTHENTICATED.into());
    User { name: identity.common_name, uid: identity.uid.unwrap_or_default(), groups, ..User::default() }
}
