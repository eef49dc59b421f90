//! New certificate signing requests: a key, and the request for a certificate of it.

use rcgen::{CertificateParams, DistinguishedName, DnType};

use crate::leaf::alternative_names;
use crate::{Error, Result, Sans, authority};

/// A certificate signing request in PEM, with its key.
pub struct SigningRequest {
    pub request_pem: String,
    /// Private, PKCS #8.
    pub key_pem: String,
}

/// Generates a key and a request to certify it for a subject and these names.
pub fn signing_request(common_name: &str, organization: &str, sans: &Sans) -> Result<SigningRequest> {
    let key = authority::generate_key()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = alternative_names(sans)?;
    let request =
        params.serialize_request(&key).map_err(Error::crypto("make a certificate signing request"))?;
    let request_pem = request.pem().map_err(Error::crypto("write a certificate signing request"))?;
    Ok(SigningRequest { request_pem, key_pem: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CertificateRequest;

    #[test]
    fn a_signing_request_reads_back_as_written() {
        let sans = Sans::default().with_host("n1").unwrap().with_address([192, 0, 2, 1].into());
        let requested = signing_request("system:node:n1", "system:nodes", &sans).unwrap();
        let read = CertificateRequest::read(requested.request_pem.as_bytes()).unwrap();
        assert_eq!(read.subject.common_name, "system:node:n1");
        assert_eq!(read.subject.organizations, ["system:nodes"]);
        assert_eq!((read.dns_names.as_slice(), read.ip_addresses.len()), (&["n1".to_owned()][..], 1));
        let plain = signing_request("system:node:n1", "system:nodes", &Sans::default()).unwrap();
        let read = CertificateRequest::read(plain.request_pem.as_bytes()).unwrap();
        assert!(read.dns_names.is_empty() && read.ip_addresses.is_empty());
        assert_ne!(requested.key_pem, plain.key_pem);
    }
}
