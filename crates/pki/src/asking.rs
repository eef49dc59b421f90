//! Asking to be certified: a new key, and the request that goes to whoever signs.

use rcgen::{CertificateParams, DistinguishedName, DnType};

use crate::leaf::alternative_names;
use crate::{Error, Result, Sans, authority};

/// A request that nobody has granted yet, in PEM, with the key that it is about.
pub struct Asked {
    pub request_pem: String,
    /// Private, PKCS #8.
    pub key_pem: String,
}

/// Makes a key and the request to have it certified for a subject under these names.
pub fn ask(common_name: &str, organization: &str, sans: &Sans) -> Result<Asked> {
    let key = authority::generate_key()?;
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, organization);
    params.distinguished_name.push(DnType::CommonName, common_name);
    params.subject_alt_names = alternative_names(sans)?;
    let request =
        params.serialize_request(&key).map_err(Error::crypto("make a certificate signing request"))?;
    let request_pem = request.pem().map_err(Error::crypto("write a certificate signing request"))?;
    Ok(Asked { request_pem, key_pem: key.serialize_pem() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CertificateRequest;

    #[test]
    fn what_is_asked_for_can_be_read() {
        let sans = Sans::default().with_host("n1").unwrap().with_address([192, 0, 2, 1].into());
        let asked = ask("system:node:n1", "system:nodes", &sans).unwrap();
        let read = CertificateRequest::read(asked.request_pem.as_bytes()).unwrap();
        assert_eq!(read.subject.common_name, "system:node:n1");
        assert_eq!(read.subject.organizations, ["system:nodes"]);
        assert_eq!((read.dns_names.as_slice(), read.ip_addresses.len()), (&["n1".to_owned()][..], 1));
        let plain = ask("system:node:n1", "system:nodes", &Sans::default()).unwrap();
        let read = CertificateRequest::read(plain.request_pem.as_bytes()).unwrap();
        assert!(read.dns_names.is_empty() && read.ip_addresses.is_empty());
        assert_ne!(asked.key_pem, plain.key_pem);
    }
}
