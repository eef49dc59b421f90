//! TLS: the server's side of the handshake, and the verification of client certificates.
//!
//! As upstream does, the handshake accepts any certificate, so that an invalid one gets a `401` rather than a broken
//! connection; it is verified right after. The handshake itself proves that the client has the certificate's key.

use std::net::IpAddr;
use std::sync::Arc;

use corten_auth::authentication::FrontProxy;
use corten_pki::{AcceptAnyCertificate, ServerPki};
use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore, ServerConfig};

use crate::authentication::{AuthenticationOptions, Certificate, Peer, certified};

/// A failure to configure TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("CA bundle of {whose} is not PEM")]
    Pem {
        whose: &'static str,
        #[source]
        source: corten_pki::Error,
    },
    #[error("cannot use CA bundle of {whose}")]
    Authorities {
        whose: &'static str,
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    #[error("cannot use serving certificate")]
    Serving(#[source] Error),
}

/// The verifiers of client certificates.
#[derive(Clone)]
pub(crate) struct ClientCertificates {
    clients: Arc<dyn ClientCertVerifier>,
    /// The verifier and names of front proxies; `None` without a CA for them.
    proxies: Option<(Arc<dyn ClientCertVerifier>, FrontProxy)>,
}

impl ClientCertificates {
    /// The peer of a connection from `remote`.
    pub(crate) fn peer(&self, certificates: Option<&[CertificateDer<'_>]>, remote: Option<IpAddr>) -> Peer {
        let Some((leaf, intermediates)) = certificates.and_then(|c| c.split_first()) else {
            return Peer::NoCertificate;
        };
        let Ok(identity) = corten_pki::identity_of(leaf) else {
            return Peer::Certificate(Certificate::invalid());
        };
        let now = UnixTime::now();
        let verifies = |verifier: &Arc<dyn ClientCertVerifier>| {
            verifier.verify_client_cert(leaf, intermediates, now).is_ok()
        };
        let is_proxy = self
            .proxies
            .as_ref()
            .is_some_and(|(verifier, proxy)| verifies(verifier) && proxy.allows(&identity.common_name));
        let user = certified(&identity, leaf, remote).filter(|_| verifies(&self.clients)).map(Arc::new);
        let expires = identity.not_after.try_into().unwrap_or(Timestamp::MIN);
        Peer::Certificate(Certificate { user, is_proxy, expires })
    }
}

/// The server's TLS configuration, and its verifiers of client certificates.
pub(crate) fn configure(
    pki: &ServerPki,
    options: &AuthenticationOptions,
) -> Result<(ServerConfig, ClientCertificates), TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients = verifier(&provider, "clients", &options.client_ca_pem)?;
    let proxies = match options.front_proxy_ca_pem.as_str() {
        "" => None,
        pem => Some((verifier(&provider, "front proxies", pem)?, options.front_proxy.clone())),
    };
    let any = AcceptAnyCertificate::new(&provider);
    let mut config = server_config(provider, Arc::new(any), pki).map_err(TlsError::Serving)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = 1;
    Ok((config, ClientCertificates { clients, proxies }))
}

/// A verifier of client certificates that one of some CAs signed.
fn verifier(
    provider: &Arc<CryptoProvider>,
    whose: &'static str,
    pem: &str,
) -> Result<Arc<dyn ClientCertVerifier>, TlsError> {
    let authorities = corten_pki::pem_certificates(pem).map_err(|source| TlsError::Pem { whose, source })?;
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(authorities);
    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|source| TlsError::Authorities { whose, source })
}

fn server_config(
    provider: Arc<CryptoProvider>,
    verifier: Arc<AcceptAnyCertificate>,
    pki: &ServerPki,
) -> Result<ServerConfig, Error> {
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(pki.serving_chain.clone(), pki.serving_key.clone_key())
}
