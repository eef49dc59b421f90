//! CertificateSigning: only users with the verb `sign` on a signer write certificates and conditions of its requests.

use corten_api::{Status, Value};

use super::{Admit, Plugin, UPDATE, Validate};
use crate::admission::{Attributes, certificate_requests, signers};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "CertificateSigning",
    operations: UPDATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    if attributes.resource() != certificate_requests::RESOURCE
        || attributes.subresource != "status"
        || !attributes.updates()
    {
        return Ok(());
    }
    let (Some(request), Some(old)) = (object, attributes.old) else { return Ok(()) };
    if !signs(request, old) {
        return Ok(());
    }
    let signer = old.str_at(&["spec", "signerName"]).unwrap_or_default();
    if signers::may(attributes, "sign", signer) {
        return Ok(());
    }
    let why = format!("user not permitted to sign requests with signerName {signer:?}");
    Err(attributes.forbidden(object, why))
}

/// True if an update changes fields that only a signer may write.
fn signs(new: &Value, old: &Value) -> bool {
    let certificate = |request: &Value| request.str_at(&["status", "certificate"]).map(str::to_owned);
    certificate(new) != certificate(old)
        || new.items_at(&["status", "conditions"]) != old.items_at(&["status", "conditions"])
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn certificates_and_conditions_are_written_by_signers() {
        let old = value!({"status": {"conditions": [{"type": "Approved"}]}});
        assert!(!signs(&old, &old));
        assert!(!signs(&value!({"status": {"conditions": []}}), &value!({})));
        assert!(signs(&value!({"status": {"certificate": "x"}}), &value!({})));
        assert!(signs(&value!({"status": {"conditions": [{"type": "Failed"}]}}), &old));
    }
}
