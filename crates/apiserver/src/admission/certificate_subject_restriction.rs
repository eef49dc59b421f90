//! CertificateSubjectRestriction: nobody gets into `system:masters` through a certificate request.

use corten_api::{Status, Value};
use corten_pki::{RequestedSubject, requested_subject};

use super::Attributes;
use super::certificate_approval::REQUESTS;
use super::plugins::{Admit, Plugin, Validate};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "CertificateSubjectRestriction",
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let creates = attributes.is_object(REQUESTS.0, REQUESTS.1) && attributes.creates();
    let Some(request) = object.filter(|_| creates) else { return Ok(()) };
    check(request).map_err(|why| attributes.forbidden(Some(request), why))
}

fn check(request: &Value) -> Result<(), String> {
    if request.str_at(&["spec", "signerName"]) != Some(SIGNER) {
        return Ok(());
    }
    let subject = subject(request).map_err(|why| format!("failed to parse CSR: {why}"))?;
    if subject.organizations.iter().any(|group| group == corten_auth::MASTERS) {
        return Err(format!("use of {SIGNER} signer with system:masters group is not allowed"));
    }
    Ok(())
}

/// Whom the certificate request in an object is about.
pub(super) fn subject(request: &Value) -> Result<RequestedSubject, String> {
    use base64::Engine as _;
    let text = request.str_at(&["spec", "request"]).unwrap_or_default();
    let pem = base64::engine::general_purpose::STANDARD.decode(text).unwrap_or_default();
    requested_subject(&pem).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn what_cannot_be_read_is_refused() {
        let request = |signer: &str| value!({"spec": {"signerName": signer, "request": "bm9uc2Vuc2U="}});
        assert_eq!(check(&request("example.com/any")), Ok(()));
        assert_eq!(
            check(&request(SIGNER)).unwrap_err(),
            "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"
        );
    }
}
