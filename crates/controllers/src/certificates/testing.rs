//! Certificate signing requests for tests.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use corten_api::{Value, value};
use corten_pki::CertificateRequest;
use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, SanType};

use crate::testing::at_text;

/// The contents of a certificate request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Asked<'a> {
    pub(super) common_name: &'a str,
    pub(super) organizations: &'a [&'a str],
    /// Addresses and DNS names; URIs and mail addresses with their schemes.
    pub(super) names: &'a [&'a str],
}

impl Asked<'_> {
    /// The request of a kubelet client.
    pub(super) fn node() -> Asked<'static> {
        Asked { common_name: "system:node:n1", organizations: &["system:nodes"], names: &[] }
    }

    pub(super) fn pem(&self) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (at, name) in self.organizations.iter().enumerate() {
            // An attribute type can occur once; two values show the refusal all the same.
            let kind =
                if at == 0 { DnType::OrganizationName } else { DnType::CustomDnType(vec![2, 5, 4, 10]) };
            params.distinguished_name.push(kind, DnValue::Utf8String((*name).to_owned()));
        }
        params.distinguished_name.push(DnType::CommonName, self.common_name);
        params.subject_alt_names = self.names.iter().map(|name| alternative(name)).collect();
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    pub(super) fn read(&self) -> CertificateRequest {
        CertificateRequest::read(self.pem().as_bytes()).unwrap()
    }

    /// The object, created at second 0.
    pub(super) fn csr(&self, signer: &str, usages: &[&str], user: &str) -> Value {
        let usages: Vec<Value> = usages.iter().map(|usage| Value::from(*usage)).collect();
        value!({
            "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
            "metadata": {"name": "csr", "uid": "u", "resourceVersion": "3", "creationTimestamp": (at_text(0))},
            "spec": {
                "request": (STANDARD.encode(self.pem())), "signerName": signer, "usages": usages,
                "username": user, "groups": ["g"], "uid": "7", "extra": {"scopes": ["a"]},
            },
        })
    }
}

fn alternative(name: &str) -> SanType {
    match (name.strip_prefix("mailto:"), name.parse()) {
        (Some(mail), _) => SanType::Rfc822Name(mail.try_into().unwrap()),
        (None, Ok(address)) => SanType::IpAddress(address),
        _ if name.contains("://") => SanType::URI(name.try_into().unwrap()),
        _ => SanType::DnsName(name.try_into().unwrap()),
    }
}

/// A condition that was set some seconds after the creation.
pub(super) fn condition(kind: &str, seconds: i64) -> Value {
    value!({"type": kind, "status": "True", "lastUpdateTime": (at_text(seconds))})
}
