//! TLS: the server's side of the handshake, and what the client's certificate is worth.
//!
//! As upstream does, any certificate is let through the handshake, so that a bad one gets a `401` that
//! says so rather than a broken connection; what it proves is decided right after. The handshake itself
//! still proves that the client holds the certificate's key.

use std::sync::Arc;

use corten_pki::ServerPki;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, RootCertStore, ServerConfig, SignatureScheme};

use crate::authentication::{self, Peer};

/// Why the server cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the client CA cannot be used")]
    ClientCa(#[source] rustls::server::VerifierBuilderError),
    #[error("the serving certificate cannot be used")]
    Serving(#[source] Error),
}

/// Decides who a client certificate speaks for.
#[derive(Clone)]
pub(crate) struct ClientCertificates {
    verifier: Arc<dyn ClientCertVerifier>,
}

impl ClientCertificates {
    /// Who is at the other end of a connection.
    pub(crate) fn peer(&self, certificates: Option<&[CertificateDer<'_>]>) -> Peer {
        let Some((leaf, intermediates)) = certificates.and_then(|c| c.split_first()) else {
            return Peer::Nobody;
        };
        if self.verifier.verify_client_cert(leaf, intermediates, UnixTime::now()).is_err() {
            return Peer::Refused;
        }
        match corten_pki::identity_of(leaf) {
            Ok(identity) if !identity.common_name.is_empty() => {
                Peer::Known(Arc::new(authentication::certified(identity)))
            }
            _ => Peer::Refused,
        }
    }
}

/// The server's TLS and its judgement of clients.
pub(crate) fn configure(pki: &ServerPki) -> Result<(ServerConfig, ClientCertificates), TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(pki.client_ca.iter().cloned());
    let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(TlsError::ClientCa)?;
    let any = AnyCertificate { algorithms: provider.signature_verification_algorithms };
    let mut config = server_config(provider, Arc::new(any), pki).map_err(TlsError::Serving)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = 1;
    Ok((config, ClientCertificates { verifier }))
}

fn server_config(
    provider: Arc<CryptoProvider>,
    verifier: Arc<AnyCertificate>,
    pki: &ServerPki,
) -> Result<ServerConfig, Error> {
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(pki.serving_chain.clone(), pki.serving_key.clone_key())
}

/// Asks for a certificate and takes whatever comes, if the client can sign with it.
#[derive(Debug)]
struct AnyCertificate {
    algorithms: WebPkiSupportedAlgorithms,
}

impl ClientCertVerifier for AnyCertificate {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn verify_client_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
