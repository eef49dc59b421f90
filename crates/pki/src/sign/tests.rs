use rcgen::{CertificateParams, DistinguishedName, DnType, KeyPair};
use x509_parser::prelude::X509Certificate;

use super::*;
use crate::{identity_of, pem_certificates};

const HOUR: Duration = Duration::from_secs(3600);

fn at(seconds: u64) -> SystemTime {
    SystemTime::UNIX_EPOCH + Duration::from_secs(1_800_000_000 + seconds)
}

fn authority() -> (tempfile::TempDir, Authority) {
    let directory = tempfile::tempdir().unwrap();
    let authority = Authority::load_or_create(directory.path(), "ca", "kubernetes", at(0)).unwrap();
    (directory, authority)
}

fn request(names: &[&str]) -> CertificateRequest {
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    let mut params = CertificateParams::new(names).unwrap();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
    params.distinguished_name.push(DnType::CommonName, "system:node:n1");
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    CertificateRequest::read(pem.as_bytes()).unwrap()
}

fn signed(
    request: &CertificateRequest,
    lifetime: Duration,
    usages: &[&str],
    check: impl Fn(&X509Certificate<'_>),
) {
    let (_directory, authority) = authority();
    let pem = authority.sign(request, &SigningPolicy { lifetime, usages }, at(0)).unwrap();
    let der = pem_certificates(&pem).unwrap().remove(0);
    let (rest, certificate) = x509_parser::parse_x509_certificate(&der).unwrap();
    assert!(rest.is_empty());
    assert!(authority.signed(&certificate), "the signature is the authority's");
    assert_eq!(identity_of(&der).unwrap().common_name, request.subject.common_name);
    check(&certificate);
}

#[test]
fn a_certificate_says_what_was_asked_for() {
    let usages = ["key encipherment", "digital signature", "server auth", "client auth", "client auth"];
    signed(&request(&["n1.example", "10.0.0.1"]), 24 * HOUR, &usages, |certificate| {
        assert!(!certificate.is_ca());
        let usage = certificate.key_usage().unwrap().unwrap();
        assert!(usage.critical && usage.value.digital_signature() && usage.value.key_encipherment());
        assert!(!usage.value.key_cert_sign());
        let extended = certificate.extended_key_usage().unwrap().unwrap();
        assert!(extended.value.server_auth && extended.value.client_auth && !extended.value.any);
        assert!(certificate.basic_constraints().unwrap().unwrap().critical);
        let names = certificate.subject_alternative_name().unwrap().unwrap();
        assert_eq!(names.value.general_names.len(), 2);
        assert!(!names.critical);
        let validity = certificate.validity();
        assert_eq!(SystemTime::from(validity.not_before.to_datetime()), at(0) - CLOCK_SKEW);
        assert_eq!(SystemTime::from(validity.not_after.to_datetime()), at(24 * 3600) - CLOCK_SKEW);
    });
}

#[test]
fn a_short_lifetime_counts_from_now() {
    signed(&request(&[]), HOUR, &["client auth"], |certificate| {
        assert_eq!(SystemTime::from(certificate.validity().not_after.to_datetime()), at(3600));
        assert!(certificate.subject_alternative_name().unwrap().is_none());
        assert!(certificate.key_usage().unwrap().is_none());
    });
}

#[test]
fn no_certificate_outlives_its_authority() {
    let (_directory, authority) = authority();
    let end = SystemTime::from(authority.not_after);
    signed(&request(&[]), 20 * 365 * 24 * HOUR, &["client auth"], |certificate| {
        assert_eq!(SystemTime::from(certificate.validity().not_after.to_datetime()), end);
    });
    let policy = SigningPolicy { lifetime: HOUR, usages: &["client auth"] };
    let refused = authority.sign(&request(&[]), &policy, end).unwrap_err();
    assert!(matches!(refused, Error::SignerExpired(_)), "{refused}");
}

#[test]
fn every_usage_is_known() {
    for (usage, _) in EXTENDED_KEY_USAGES {
        signed(&request(&[]), HOUR, &[usage], |certificate| {
            assert!(certificate.extended_key_usage().unwrap().is_some(), "{usage}");
        });
    }
    let (_directory, authority) = authority();
    let policy = SigningPolicy { lifetime: HOUR, usages: &["signing", "unsupported string"] };
    let refused = authority.sign(&request(&[]), &policy, at(0)).unwrap_err();
    assert_eq!(refused.to_string(), "unrecognized usage values: [\"unsupported string\"]");
}

#[test]
fn a_request_is_signed_with_its_own_key() {
    let (_directory, authority) = authority();
    let mut forged = request(&[]);
    let last = forged.der.len() - 1;
    forged.der[last] ^= 1;
    let policy = SigningPolicy { lifetime: HOUR, usages: &["client auth"] };
    assert!(authority.sign(&forged, &policy, at(0)).is_err());
}
