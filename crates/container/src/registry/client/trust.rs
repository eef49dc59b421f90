//! Verification of registries' certificates.

use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use super::super::TlsConfig;
use super::Verifier;
use crate::{Error, Result};

/// Bundles of trusted CA certificates of Linux distributions.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

pub(super) fn config(settings: Option<&TlsConfig>) -> Result<ClientConfig> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let failed = |error| Error::internal("cannot set up TLS", error);
    let builder = ClientConfig::builder_with_provider(provider.clone()).with_safe_default_protocol_versions();
    let builder = builder.map_err(failed)?;
    if settings.is_some_and(|settings| settings.insecure_skip_verify) {
        let verifier: Verifier = Arc::new(AcceptAnyCertificate(provider));
        return Ok(builder.dangerous().with_custom_certificate_verifier(verifier).with_no_client_auth());
    }
    let mut roots = RootCertStore::empty();
    if let Some(system) = SYSTEM.iter().find(|path| Path::new(path).exists()) {
        let certificates = read(Path::new(system))?;
        // A bundle may hold certificates that are not understood; the others are used.
        roots.add_parsable_certificates(certificates);
    }
    if let Some(file) = settings.and_then(|settings| settings.ca_file.as_ref()) {
        for certificate in read(file)? {
            roots.add(certificate).map_err(failed)?;
        }
    }
    Ok(builder.with_root_certificates(roots).with_no_client_auth())
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let failed = |error| Error::internal(format!("cannot read certificates from {}", file.display()), error);
    CertificateDer::pem_file_iter(file).map_err(failed)?.collect::<Result<_, _>>().map_err(failed)
}

/// Accepts every certificate; only if `insecure_skip_verify` is configured.
#[derive(Debug)]
struct AcceptAnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AcceptAnyCertificate {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
