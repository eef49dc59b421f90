//! The permission of a user to act for a signer: to approve, sign or attest.

use corten_auth::Attributes as Question;

use super::Attributes;
use crate::authorization;

/// True if the user of a request has a verb on the signer itself or on all signers of its domain.
pub(super) fn may(attributes: &Attributes<'_>, verb: &str, signer: &str) -> bool {
    let whole_domain = format!("{}/*", signer.split('/').next().unwrap_or_default());
    [signer, &whole_domain].into_iter().any(|name| {
        let question = Question {
            name,
            ..Question::resource(&attributes.call.user, verb, "certificates.k8s.io", "signers")
        };
        authorization::authorize(attributes.backend(), &question).is_allowed()
    })
}
