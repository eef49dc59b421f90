//! The certificate that the node shows, which can be replaced while it serves.

use std::sync::Arc;

use corten_pki::IssuedCert;
use parking_lot::RwLock;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

use super::Error;

#[derive(Debug, Clone)]
pub struct Shown {
    current: Arc<RwLock<Arc<CertifiedKey>>>,
    provider: Arc<CryptoProvider>,
}

impl Shown {
    pub(super) fn new(certificate: &IssuedCert, provider: Arc<CryptoProvider>) -> Result<Shown, Error> {
        let current = Arc::new(RwLock::new(Arc::new(certified(certificate, &provider)?)));
        Ok(Shown { current, provider })
    }

    /// Connections from now on see another one.
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

impl ResolvesServerCert for Shown {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().clone())
    }
}
