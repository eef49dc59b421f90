//! CertificateSubjectRestriction: a certificate request cannot name the group `system:masters`.

use corten_api::{Status, Value};

use super::{Admit, CREATE, Plugin, Validate};
use crate::admission::Attributes;
use crate::admission::certificate_requests::{self, subject};

pub(super) const PLUGIN: Plugin = Plugin {
    name: "CertificateSubjectRestriction",
    operations: CREATE,
    admit: Admit::Nothing,
    validate: Validate::Now(validate),
};

const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

fn validate(attributes: &Attributes<'_>, object: Option<&Value>) -> Result<(), Status> {
    let (group, resource) = certificate_requests::RESOURCE;
    let creates = attributes.is_object(group, resource) && attributes.creates();
    let Some(request) = object.filter(|_| creates) else { return Ok(()) };
    check(request).map_err(|why| attributes.forbidden(Some(request), why))
}

pub(super) fn check(request: &Value) -> Result<(), String> {
    if request.str_at(&["spec", "signerName"]) != Some(SIGNER) {
        return Ok(());
    }
    let subject = subject(request).map_err(|why| format!("failed to parse CSR: {why}"))?;
    if subject.organizations.iter().any(|group| group == corten_auth::MASTERS) {
        return Err(format!("use of {SIGNER} signer with system:masters group is not allowed"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use corten_api::value;

    use super::*;

    #[test]
    fn invalid_requests_are_refused() {
        let request = |signer: &str| value!({"spec": {"signerName": signer, "request": "bm9uc2Vuc2U="}});
        assert_eq!(check(&request("example.com/any")), Ok(()));
        assert_eq!(
            check(&request(SIGNER)).unwrap_err(),
            "failed to parse CSR: PEM block type must be CERTIFICATE REQUEST"
        );
    }
}
