//! Certificates and CAs that are replaced while they are in use: new connections use the new ones.

use std::sync::{Arc, PoisonError, RwLock};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ResolvesClientCert, WebPkiServerVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{DigitallySignedStruct, DistinguishedName, RootCertStore, SignatureScheme};
use rustls_pki_types::{CertificateDer, ServerName, UnixTime};

use crate::{Error, IssuedCert, Result, pem_certificates};

/// The value in force. A writer that panicked left a whole one.
fn current<T>(of: &RwLock<Arc<T>>) -> Arc<T> {
    Arc::clone(&of.read().unwrap_or_else(PoisonError::into_inner))
}

fn replace<T>(of: &RwLock<Arc<T>>, value: T) {
    *of.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
}

fn provider() -> Arc<CryptoProvider> {
    Arc::new(aws_lc_rs::default_provider())
}

/// A certificate of a server or a client, with its key. Clones share it.
#[derive(Debug, Clone)]
pub struct LiveCertificate {
    current: Arc<RwLock<Arc<CertifiedKey>>>,
}

impl LiveCertificate {
    pub fn new(certificate: &IssuedCert) -> Result<LiveCertificate> {
        Ok(LiveCertificate { current: Arc::new(RwLock::new(Arc::new(certified(certificate)?))) })
    }

    /// Presents this certificate on new connections.
    pub fn replace(&self, certificate: &IssuedCert) -> Result<()> {
        replace(&self.current, certified(certificate)?);
        Ok(())
    }
}

fn certified(certificate: &IssuedCert) -> Result<CertifiedKey> {
    let (chain, key) = (certificate.chain()?, certificate.key()?);
    CertifiedKey::from_der(chain, key, &provider()).map_err(Error::Tls)
}

impl ResolvesServerCert for LiveCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(current(&self.current))
    }
}

impl ResolvesClientCert for LiveCertificate {
    fn resolve(&self, _: &[&[u8]], _: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        Some(current(&self.current))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// CAs that verify clients and servers. Clones share them.
#[derive(Debug, Clone)]
pub struct LiveAuthorities {
    current: Arc<RwLock<Arc<Verifiers>>>,
}

#[derive(Debug)]
struct Verifiers {
    clients: Arc<dyn ClientCertVerifier>,
    servers: Arc<WebPkiServerVerifier>,
}

impl LiveAuthorities {
    /// The CAs of a bundle in PEM, which has at least one.
    pub fn new(bundle: &str) -> Result<LiveAuthorities> {
        Ok(LiveAuthorities { current: Arc::new(RwLock::new(Arc::new(verifiers(bundle)?))) })
    }

    /// Trusts these CAs, and no others, on new connections.
    pub fn replace(&self, bundle: &str) -> Result<()> {
        replace(&self.current, verifiers(bundle)?);
        Ok(())
    }
}

fn verifiers(bundle: &str) -> Result<Verifiers> {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(pem_certificates(bundle)?);
    let unusable = |error: &dyn std::fmt::Display| Error::NotACertificate(error.to_string());
    let roots = Arc::new(roots);
    let clients = WebPkiClientVerifier::builder_with_provider(Arc::clone(&roots), provider()).build();
    let servers = WebPkiServerVerifier::builder_with_provider(roots, provider()).build();
    Ok(Verifiers {
        clients: clients.map_err(|error| unusable(&error))?,
        servers: servers.map_err(|error| unusable(&error))?,
    })
}

type Signed = std::result::Result<HandshakeSignatureValid, rustls::Error>;

impl ServerCertVerifier for LiveAuthorities {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        current(&self.current).servers.verify_server_cert(presented, intermediates, name, ocsp, now)
    }

    fn verify_tls12_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        current(&self.current).servers.verify_tls12_signature(m, c, s)
    }

    fn verify_tls13_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        current(&self.current).servers.verify_tls13_signature(m, c, s)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        current(&self.current).servers.supported_verify_schemes()
    }
}

impl ClientCertVerifier for LiveAuthorities {
    /// None: they could change during a handshake, and clients here have one certificate.
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> std::result::Result<ClientCertVerified, rustls::Error> {
        current(&self.current).clients.verify_client_cert(presented, intermediates, now)
    }

    fn verify_tls12_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        current(&self.current).clients.verify_tls12_signature(m, c, s)
    }

    fn verify_tls13_signature(&self, m: &[u8], c: &CertificateDer<'_>, s: &DigitallySignedStruct) -> Signed {
        current(&self.current).clients.verify_tls13_signature(m, c, s)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        current(&self.current).clients.supported_verify_schemes()
    }
}
