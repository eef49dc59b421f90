//! The identity in a client certificate.
//!
//! Only reads names: the TLS layer has verified the certificate before.

use std::time::{Duration, SystemTime};

use x509_parser::der_parser::{Oid, oid};
use x509_parser::x509::AttributeTypeAndValue;

use crate::{Error, Result};

/// The subject attribute that carries a user's uid, as upstream defines it.
const UID: Oid<'static> = oid!(1.3.6.1.4.1.57683.2);

/// The identity in a certificate's subject.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertIdentity {
    /// The user name; empty if the subject has none.
    pub common_name: String,
    /// The groups, in the certificate's order.
    pub organizations: Vec<String>,
    /// The user's uid, from attribute 1.3.6.1.4.1.57683.2.
    pub uid: Option<String>,
    /// When the certificate begins to be valid.
    pub not_before: SystemTime,
    /// When the certificate stops being valid.
    pub not_after: SystemTime,
}

/// Reads the identity from a certificate in DER.
pub fn identity_of(cert_der: &[u8]) -> Result<CertIdentity> {
    let (_, cert) = x509_parser::parse_x509_certificate(cert_der)
        .map_err(|error| Error::NotACertificate(error.to_string()))?;
    let subject = cert.subject();
    // Go's pkix.Name keeps the last of several common names, and so do we: two servers that disagree about
    // who a certificate belongs to would be a hole.
    let common_name = subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default();
    let organizations = subject.iter_organization().map(text).collect::<Result<_>>()?;
    let mut uids = subject.iter_by_oid(&UID);
    let uid = uids.next().map(text).transpose()?;
    if uids.next().is_some() {
        return Err(Error::NotACertificate("its subject has more than one uid".to_owned()));
    }
    let at = |seconds: i64| {
        SystemTime::UNIX_EPOCH + Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
    };
    let validity = cert.validity();
    let (not_before, not_after) = (at(validity.not_before.timestamp()), at(validity.not_after.timestamp()));
    Ok(CertIdentity { common_name, organizations, uid, not_before, not_after })
}

/// The public key of a certificate in DER, with what kind of key it is, in DER too.
pub fn public_key_of(cert_der: &[u8]) -> Result<Vec<u8>> {
    let (_, cert) = x509_parser::parse_x509_certificate(cert_der)
        .map_err(|error| Error::NotACertificate(error.to_string()))?;
    Ok(cert.public_key().raw.to_vec())
}

/// Text of any string type Go also reads; anything else is refused rather than guessed at.
pub(crate) fn text(attribute: &AttributeTypeAndValue<'_>) -> Result<String> {
    attribute
        .as_str()
        .map(str::to_owned)
        .map_err(|_| Error::NotACertificate("its subject holds a value that is not text".to_owned()))
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    #[test]
    fn the_uid_attribute_is_read() {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "jane");
        params.distinguished_name.push(DnType::from_oid(&[1, 3, 6, 1, 4, 1, 57683, 2]), "u-7");
        let cert = params.self_signed(&KeyPair::generate().unwrap()).unwrap();
        let identity = identity_of(cert.der()).unwrap();
        assert_eq!(identity.common_name, "jane");
        assert_eq!(identity.organizations, Vec::<String>::new());
        assert_eq!(identity.uid.as_deref(), Some("u-7"));
    }
}
