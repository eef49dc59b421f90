//! The serving certificate, which can be replaced while the API is served.

use std::sync::Arc;

use corten_pki::IssuedCert;
use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::Error;

/// The serving certificate, shared with the listener. Cheap to clone.
#[derive(Debug, Clone)]
pub struct ServingCertificate {
    current: Arc<RwLock<Arc<CertifiedKey>>>,
    provider: Arc<CryptoProvider>,
}

impl ServingCertificate {
    pub(super) fn new(
        certificate: &IssuedCert,
        provider: Arc<CryptoProvider>,
    ) -> Result<ServingCertificate, Error> {
        let current = Arc::new(RwLock::new(Arc::new(certified(certificate, &provider)?)));
        Ok(ServingCertificate { current, provider })
    }

    /// Replaces the certificate. New connections get the new one.
    pub fn replace(&self, certificate: &IssuedCert) -> Result<(), Error> {
        let certified = certified(certificate, &self.provider)?;
        *self.current.write() = Arc::new(certified);
        Ok(())
    }
}

fn certified(certificate: &IssuedCert, provider: &CryptoProvider) -> Result<CertifiedKey, Error> {
    let chain = certificate.chain().map_err(Error::Certificates)?;
    let key = certificate.key().map_err(Error::Certificates)?;
    CertifiedKey::from_der(chain, key, provider).map_err(Error::Tls)
}

impl ResolvesServerCert for ServingCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().clone())
    }
}
