//! TLS: the server's side of the handshake, and the verification of client certificates.
//!
//! As upstream does, the handshake accepts any certificate, so that an invalid one gets a `401` rather than a broken
//! connection; it is verified right after. The handshake itself proves that the client has the certificate's key.

use std::net::IpAddr;
use std::sync::Arc;

use corten_auth::authentication::FrontProxy;
use corten_pki::{AcceptAnyCertificate, LiveAuthorities, ServerPki};
use jiff::Timestamp;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use rustls::{Error, RootCertStore, ServerConfig};
use tokio::sync::watch;

use crate::authentication::{AuthenticationOptions, Certificate, Peer, certified};

/// A failure to configure TLS.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read CA bundle of {whose}")]
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
pub(crate) struct ClientCertificates {
    clients: LiveAuthorities,
    /// Signalled when a CA is not trusted any more: connections whose certificates it signed are closed.
    pub(crate) distrusted: watch::Sender<()>,
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
        let verifies =
            |verifier: &dyn ClientCertVerifier| verifier.verify_client_cert(leaf, intermediates, now).is_ok();
        let is_proxy = self
            .proxies
            .as_ref()
            .is_some_and(|(verifier, proxy)| verifies(&**verifier) && proxy.allows(&identity.common_name));
        let user = certified(&identity, leaf, remote).filter(|_| verifies(&self.clients)).map(Arc::new);
        let expires = identity.not_after.try_into().unwrap_or(Timestamp::MIN);
        Peer::Certificate(Certificate { user, is_proxy, expires })
    }
}

impl ClientCertificates {
    /// Trusts these CAs of clients, and no others. With `closes`, connections are closed when they are idle, because a CA is not
    /// trusted any more.
    pub(crate) fn trust(&self, bundle: &str, closes: bool) -> Result<(), TlsError> {
        let unusable = |source| TlsError::Pem { whose: "clients", source };
        self.clients.replace(bundle).map_err(unusable)?;
        if closes {
            self.distrusted.send_replace(());
        }
        Ok(())
    }
}

/// The server's TLS configuration, and its verifiers of client certificates.
pub(crate) fn configure(
    pki: &ServerPki,
    options: &AuthenticationOptions,
) -> Result<(ServerConfig, ClientCertificates), TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let clients = LiveAuthorities::new(&options.client_ca_pem)
        .map_err(|source| TlsError::Pem { whose: "clients", source })?;
    let proxies = match options.front_proxy_ca_pem.as_str() {
        "" => None,
        pem => Some((verifier(&provider, "front proxies", pem)?, options.front_proxy.clone())),
    };
    let any = AcceptAnyCertificate::new(&provider);
    let mut config = server_config(provider, Arc::new(any), pki).map_err(TlsError::Serving)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = 1;
    let distrusted = watch::Sender::new(());
    Ok((config, ClientCertificates { clients, distrusted, proxies }))
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
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(Arc::new(pki.live.serving.clone()));
    Ok(config)
}
