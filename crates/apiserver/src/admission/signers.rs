//! Whether a user may act for a signer: approve, sign or attest in its name.

use corten_auth::Attributes as Question;

use super::Attributes;
use crate::authorization;

/// Whether the user of a request may do something for the signer itself or for all of its domain.
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
