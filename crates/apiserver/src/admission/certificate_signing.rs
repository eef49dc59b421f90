//! CertificateSigning: only who may sign for a signer writes its certificates and conditions.

use corten_api::{Status, Value};

use super::certificate_approval::REQUESTS;
use super::plugins::{Admit, Plugin, Validate};
use super::{Attributes, signers};

pub(super) const PLUGIN: Plugin =
    Plugin { name: "CertificateSigning", admit: Admit::Nothing, validate: Validate::Now(validate) };

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    if attributes.resource() != REQUESTS || attributes.subresource != "status" || !attributes.updates() {
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

/// Whether an update changes what only a signer says.
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
    fn what_only_signers_write() {
        let old = value!({"status": {"conditions": [{"type": "Approved"}]}});
        assert!(!signs(&old, &old));
        assert!(!signs(&value!({"status": {"conditions": []}}), &value!({})));
        assert!(signs(&value!({"status": {"certificate": "x"}}), &value!({})));
        assert!(signs(&value!({"status": {"conditions": [{"type": "Failed"}]}}), &old));
    }
}
