//! CertificateApproval: only users with the verb `approve` on a signer approve requests to it.

use corten_api::{Status, Value};

use super::{Admit, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, certificate_requests, signers};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "CertificateApproval",
    operations: UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    if attributes.resource() != certificate_requests::RESOURCE
        || attributes.subresource != "approval"
        || !attributes.updates()
    {
        return Ok(());
    }
    // The current signer, not the update's.
    let Some(old) = attributes.old else { return Ok(()) };
    let signer = old.str_at(&["spec", "signerName"]).unwrap_or_default();
    if signers::may(attributes, "approve", signer) {
        return Ok(());
    }
    let why = format!("user not permitted to approve requests with signerName {signer:?}");
    Err(attributes.forbidden(object, why))
}
