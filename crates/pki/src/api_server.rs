//! Verification of API servers whose addresses come from the cluster itself.
//!
//! The cluster's CA signs the serving certificates of kubelets too, so that its signature for an address does not make the
//! machine there an API server: the certificate must also have the API server's own name, which no kubelet's has.

use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{VerifierBuilderError, WebPkiServerVerifier, verify_server_name};
use rustls::crypto::CryptoProvider;
use rustls::server::ParsedCertificate;
use rustls::{DigitallySignedStruct, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

/// The name that every API server's certificate has.
const NAME: &str = "kubernetes.default.svc";

/// A verifier of API servers.
#[derive(Debug)]
pub struct ApiServerVerifier(Arc<WebPkiServerVerifier>);

impl ApiServerVerifier {
    pub fn new(
        roots: RootCertStore,
        provider: Arc<CryptoProvider>,
    ) -> Result<ApiServerVerifier, VerifierBuilderError> {
        WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().map(ApiServerVerifier)
    }
}

type Signed = Result<HandshakeSignatureValid, rustls::Error>;

impl ServerCertVerifier for ApiServerVerifier {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let verified = self.0.verify_server_cert(presented, intermediates, name, ocsp, now)?;
        let own = ServerName::try_from(NAME).map_err(|error| rustls::Error::General(error.to_string()))?;
        verify_server_name(&ParsedCertificate::try_from(presented)?, &own)?;
        Ok(verified)
    }

    fn verify_tls12_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        self.0.verify_tls12_signature(m, c, s)
    }

    fn verify_tls13_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        self.0.verify_tls13_signature(m, c, s)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
