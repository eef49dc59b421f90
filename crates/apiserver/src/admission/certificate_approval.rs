//! CertificateApproval: only who may approve for a signer approves requests to it.

use corten_api::{Status, Value};

use super::plugins::{Admit, Plugin, Validate};
use super::{Attributes, signers};

pub(super) const PLUGIN: Plugin =
    Plugin { name: "CertificateApproval", admit: Admit::Nothing, validate: Validate::Now(validate) };

pub(super) const REQUESTS: (&str, &str) = ("certificates.k8s.io", "certificatesigningrequests");

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    if attributes.resource() != REQUESTS || attributes.subresource != "approval" || !attributes.updates() {
        return Ok(());
    }
    // The signer as it is, not as the update would have it.
    let Some(old) = attributes.old else { return Ok(()) };
    let signer = old.str_at(&["spec", "signerName"]).unwrap_or_default();
    if signers::may(attributes, "approve", signer) {
        return Ok(());
    }
    let why = format!("user not permitted to approve requests with signerName {signer:?}");
    Err(attributes.forbidden(object, why))
}
