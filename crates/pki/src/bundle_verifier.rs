//! Verification of servers against a bundle of root certificates, as Go's TLS does.
//!
//! A server may present a root of the bundle itself, with `CA:TRUE`, as its own certificate: many webhooks create one
//! self-signed certificate for both. The standard verifier refuses that. Here such a certificate is accepted if it is a
//! root of the bundle byte for byte, is valid for the name and the time, and may authenticate servers.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{CertificateError, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};
use x509_parser::prelude::{FromDer as _, ParsedExtension, X509Certificate, X509Extension};

use crate::{Error, pem_certificates};

/// A verifier of servers whose roots are a bundle in PEM.
#[derive(Debug)]
pub struct BundleVerifier {
    chains: Arc<WebPkiServerVerifier>,
    roots: Vec<CertificateDer<'static>>,
}

impl BundleVerifier {
    /// `None` if the bundle has no certificate that can be used.
    pub fn new(bundle: &str, provider: Arc<CryptoProvider>) -> Result<Option<BundleVerifier>, Error> {
        let roots = pem_certificates(bundle)?;
        let mut store = RootCertStore::empty();
        store.add_parsable_certificates(roots.iter().cloned());
        let chains = WebPkiServerVerifier::builder_with_provider(Arc::new(store), provider).build();
        Ok(chains.ok().map(|chains| BundleVerifier { chains, roots }))
    }
}

/// Verifies a root of the bundle that a server presents as its own certificate.
fn verify_root(
    root: &CertificateDer<'_>,
    name: &ServerName<'_>,
    now: UnixTime,
) -> Result<ServerCertVerified, rustls::Error> {
    verify_server_name(&ParsedCertificate::try_from(root)?, name)?;
    let (_, certificate) = X509Certificate::from_der(root).map_err(|_| CertificateError::BadEncoding)?;
    let now = i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
    if now < certificate.validity().not_before.timestamp() {
        return Err(CertificateError::NotValidYet.into());
    }
    if now > certificate.validity().not_after.timestamp() {
        return Err(CertificateError::Expired.into());
    }
    if certificate.extensions().iter().any(is_unhandled) {
        return Err(CertificateError::UnhandledCriticalExtension.into());
    }
    let usage = certificate.extended_key_usage().map_err(|_| CertificateError::BadEncoding)?;
    match usage {
        Some(usage) if !usage.value.server_auth && !usage.value.any => {
            Err(CertificateError::InvalidPurpose.into())
        }
        _ => Ok(ServerCertVerified::assertion()),
    }
}

/// Returns true for a critical extension whose meaning is not known here.
fn is_unhandled(extension: &X509Extension<'_>) -> bool {
    let known = !matches!(
        extension.parsed_extension(),
        ParsedExtension::UnsupportedExtension { .. }
            | ParsedExtension::ParseError { .. }
            | ParsedExtension::Unparsed
    );
    extension.critical && !known
}

type Signed = Result<HandshakeSignatureValid, rustls::Error>;

impl ServerCertVerifier for BundleVerifier {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let chain = self.chains.verify_server_cert(presented, intermediates, name, ocsp, now);
        // Whatever the standard verifier says of a root that is presented as a server's certificate, these rules decide.
        match chain {
            Err(_) if self.roots.iter().any(|root| root == presented) => verify_root(presented, name, now),
            chain => chain,
        }
    }

    fn verify_tls12_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        self.chains.verify_tls12_signature(m, c, s)
    }

    fn verify_tls13_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        self.chains.verify_tls13_signature(m, c, s)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.chains.supported_verify_schemes()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use rcgen::{BasicConstraints, CertificateParams, ExtendedKeyUsagePurpose, IsCa, KeyPair, date_time_ymd};

    use super::*;

    /// A self-signed certificate with `CA:TRUE` for `s.n.svc`, valid in 2026.
    fn own(usages: &[ExtendedKeyUsagePurpose]) -> rcgen::Certificate {
        let mut params = CertificateParams::new(vec!["s.n.svc".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.extended_key_usages = usages.to_vec();
        params.not_before = date_time_ymd(2026, 1, 1);
        params.not_after = date_time_ymd(2027, 1, 1);
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    /// The same with a critical extension that has no meaning.
    fn own_with_unknown_extension() -> rcgen::Certificate {
        let mut unknown = rcgen::CustomExtension::from_oid_content(&[1, 2, 3, 4], vec![5, 0]);
        unknown.set_criticality(true);
        let mut params = CertificateParams::new(vec!["s.n.svc".to_owned()]).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.custom_extensions = vec![unknown];
        params.self_signed(&KeyPair::generate().unwrap()).unwrap()
    }

    fn verify(bundle: &str, presented: &rcgen::Certificate, name: &str, at: u64) -> Result<(), String> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let verifier = BundleVerifier::new(bundle, provider).unwrap().unwrap();
        let name = ServerName::try_from(name.to_owned()).unwrap();
        let at = UnixTime::since_unix_epoch(Duration::from_secs(at));
        let outcome = verifier.verify_server_cert(presented.der(), &[], &name, &[], at);
        outcome.map(|_| ()).map_err(|error| error.to_string())
    }

    const IN_2025: u64 = 1_750_000_000;
    const IN_2026: u64 = 1_780_000_000;
    const IN_2027: u64 = 1_810_000_000;

    #[test]
    fn a_root_of_the_bundle_is_a_server_within_its_name_time_and_purpose() {
        let root = own(&[]);
        let bundle = root.pem();
        assert_eq!(verify(&bundle, &root, "s.n.svc", IN_2026), Ok(()));
        assert!(verify(&bundle, &root, "other.n.svc", IN_2026).is_err(), "another name");
        assert!(verify(&bundle, &root, "s.n.svc", IN_2025).is_err(), "not valid yet");
        assert!(verify(&bundle, &root, "s.n.svc", IN_2027).is_err(), "expired");
        assert!(verify(&bundle, &own(&[]), "s.n.svc", IN_2026).is_err(), "not in the bundle");
        let unknown = own_with_unknown_extension();
        assert!(
            verify(&unknown.pem(), &unknown, "s.n.svc", IN_2026).is_err(),
            "an unknown critical extension"
        );
        for (usage, accepted) in
            [(ExtendedKeyUsagePurpose::ServerAuth, true), (ExtendedKeyUsagePurpose::ClientAuth, false)]
        {
            let root = own(&[usage]);
            assert_eq!(verify(&root.pem(), &root, "s.n.svc", IN_2026).is_ok(), accepted);
        }
    }

    #[test]
    fn a_bundle_without_certificates_verifies_nothing() {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        assert!(BundleVerifier::new("", provider).is_ok_and(|verifier| verifier.is_none()));
    }
}
