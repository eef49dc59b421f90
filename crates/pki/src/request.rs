//! Certificate signing requests: the requested subject and names.
//!
//! Only reads them: approvers and signers decide about a request.

use std::net::IpAddr;

use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::extensions::{GeneralName, ParsedExtension};
use x509_parser::prelude::FromDer;

use crate::identity::text;
use crate::leaf::address;
use crate::{Error, Result};

/// The subject of a certificate signing request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestedSubject {
    /// The user name; empty if the subject has none.
    pub common_name: String,
    /// The groups, in the request's order.
    pub organizations: Vec<String>,
}

/// A certificate signing request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CertificateRequest {
    pub subject: RequestedSubject,
    pub dns_names: Vec<String>,
    pub email_addresses: Vec<String>,
    pub ip_addresses: Vec<IpAddr>,
    pub uris: Vec<String>,
    pub(crate) der: Vec<u8>,
}

impl CertificateRequest {
    /// Reads a request in PEM.
    pub fn read(pem: &[u8]) -> Result<CertificateRequest> {
        const WRONG_BLOCK: &str = "PEM block type must be CERTIFICATE REQUEST";
        let wrong = || Error::NotARequest(WRONG_BLOCK.to_owned());
        let (_, block) = x509_parser::pem::parse_x509_pem(pem).map_err(|_| wrong())?;
        if block.label != "CERTIFICATE REQUEST" {
            return Err(wrong());
        }
        let (_, parsed) = X509CertificationRequest::from_der(&block.contents)
            .map_err(|error| Error::NotARequest(error.to_string()))?;
        let subject = &parsed.certification_request_info.subject;
        let mut request = CertificateRequest {
            subject: RequestedSubject {
                common_name: subject.iter_common_name().last().map(text).transpose()?.unwrap_or_default(),
                organizations: subject.iter_organization().map(text).collect::<Result<_>>()?,
            },
            ..CertificateRequest::default()
        };
        for extension in parsed.requested_extensions().into_iter().flatten() {
            if let ParsedExtension::SubjectAlternativeName(names) = extension {
                names.general_names.iter().for_each(|name| request.add(name));
            }
        }
        request.der = block.contents;
        Ok(request)
    }

    /// Adds a name. Names of other types are ignored and never certified.
    fn add(&mut self, name: &GeneralName<'_>) {
        match name {
            GeneralName::DNSName(name) => self.dns_names.push((*name).to_owned()),
            GeneralName::RFC822Name(name) => self.email_addresses.push((*name).to_owned()),
            GeneralName::URI(name) => self.uris.push((*name).to_owned()),
            GeneralName::IPAddress(bytes) => self.ip_addresses.extend(address(bytes)),
            _ => {}
        }
    }
}

/// Reads the subject of a request in PEM.
pub fn requested_subject(pem: &[u8]) -> Result<RequestedSubject> {
    CertificateRequest::read(pem).map(|request| request.subject)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};

    use super::*;

    #[test]
    fn subject_and_names_are_read() {
        let mut params =
            CertificateParams::new(vec!["n1.example".to_owned(), "10.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, "system:node:n1");
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        let request = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let request = CertificateRequest::read(request.as_bytes()).unwrap();
        assert_eq!(request.subject.common_name, "system:node:n1");
        assert_eq!(request.subject.organizations, ["system:nodes"]);
        assert_eq!(request.dns_names, ["n1.example"]);
        assert_eq!(request.ip_addresses, [IpAddr::from([10, 0, 0, 1])]);
        for bad in ["", "nonsense", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"] {
            let error = requested_subject(bad.as_bytes()).unwrap_err();
            assert_eq!(error.to_string(), "PEM block type must be CERTIFICATE REQUEST");
        }
    }
}
