//! Who a certificate signing request asks to be.
//!
//! Only reads names: whether the request may be granted is decided by whoever approves and signs it.

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::identity::text;
use crate::{Error, Result};

/// The subject of a certificate signing request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequestedSubject {
    /// The user name; empty if the subject has none.
    pub common_name: String,
    /// The groups, in the request's order.
    pub organizations: Vec<String>,
}

/// Reads the subject of a request in PEM.
pub fn requested_subject(pem: &[u8]) -> Result<RequestedSubject> {
    const WRONG_BLOCK: &str = "PEM block type must be CERTIFICATE REQUEST";
    let wrong = || Error::NotARequest(WRONG_BLOCK.to_owned());
    let (_, block) = x509_parser::pem::parse_x509_pem(pem).map_err(|_| wrong())?;
    if block.label != "CERTIFICATE REQUEST" {
        return Err(wrong());
    }
    let (_, request) = X509CertificationRequest::from_der(&block.contents)
        .map_err(|error| Error::NotARequest(error.to_string()))?;
    let subject = &request.certification_request_info.subject;
    let common_name = subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default();
    let organizations = subject.iter_organization().map(text).collect::<Result<_>>()?;
    Ok(RequestedSubject { common_name, organizations })
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_subject_is_read() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "system:node:n1");
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let subject = requested_subject(request.as_bytes()).unwrap();
        assert_eq!(subject.common_name, "system:node:n1");
        assert_eq!(subject.organizations, ["system:nodes"]);
        for bad in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = requested_subject(bad.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "PEM block type must be CERTIFICATE REQUEST");
        }
    }
}
