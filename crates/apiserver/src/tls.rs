//! TLS: the server's side of the handshake, and what the client's certificate is worth.
//!
//! As upstream does, any certificate is let through the handshake, so that a bad one gets a `401` that
//! says so rather than a broken connection; what it proves is decided right after. The handshake itself
//! still proves that the client holds the certificate's key.

use std::net::IpAddr;
use std::sync::Arc;

use corten_auth::authentication::FrontProxy;
use corten_pki::{Anybody, ServerPki};
use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore, ServerConfig};

use crate::authentication::{AuthenticationOptions, Certificate, Peer, certified};

/// Why the server cannot speak TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("the authorities of {whose} are not PEM")]
    Pem {
        whose: &'static str,
        #[source]
        source: corten_pki::Error,
    },
    #[error("the authorities of {whose} cannot be used")]
    Authorities {
        whose: &'static str,
        #[source]
        source: rustls::server::VerifierBuilderError,
    },
    #[error("the serving certificate cannot be used")]
    Serving(#[source] Error),
}

/// Decides who a client certificate speaks for.
#[derive(Clone)]
pub(crate) struct ClientCertificates {
    clients: Arc<dyn ClientCertVerifier>,
    /// Whose certificates speak for others, and under which names; nobody's if there is no authority.
    proxies: Option<(Arc<dyn ClientCertVerifier>, FrontProxy)>,
}

impl ClientCertificates {
    /// Who is at the other end of a connection from `remote`.
    pub(crate) fn peer(&self, certificates: Option<&[CertificateDer<'_>]>, remote: Option<IpAddr>) -> Peer {
        let Some((leaf, intermediates)) = certificates.and_then(|c| c.split_first()) else {
            return Peer::Nobody;
        };
        let Ok(identity) = corten_pki::identity_of(leaf) else {
            return Peer::Certificate(Certificate::worthless());
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

/// The server's TLS and its judgement of clients.
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
    let any = Anybody::new(&provider);
    let mut config = server_config(provider, Arc::new(any), pki).map_err(TlsError::Serving)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = 1;
    Ok((config, ClientCertificates { clients, proxies }))
}

/// What tells whether one of some authorities signed a client's certificate.
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
    verifier: Arc<Anybody>,
    pki: &ServerPki,
) -> Result<ServerConfig, Error> {
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(pki.serving_chain.clone(), pki.serving_key.clone_key())
}
