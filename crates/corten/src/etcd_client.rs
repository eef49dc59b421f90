//! Connections to etcd as a client: endpoints and files of TLS.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use corten_grpc::Endpoint;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

/// The files of TLS with the flags that name them.
pub(crate) struct TlsFiles<'a> {
    pub(crate) authorities: (&'static str, Option<&'a Path>),
    pub(crate) certificate: (&'static str, Option<&'a Path>),
    pub(crate) key: (&'static str, Option<&'a Path>),
}

/// The prefix of keys, with its slashes.
pub(crate) fn key_prefix(prefix: &str) -> String {
    match prefix.trim_matches('/') {
        "" => "/".to_owned(),
        prefix => format!("/{prefix}/"),
    }
}

/// The endpoints of URLs. Those with https need the certificate authorities of the servers.
pub(crate) fn endpoints(urls: &[String], tls: &TlsFiles<'_>) -> anyhow::Result<Vec<Endpoint>> {
    let config = tls.client_config()?;
    if config.is_none() && urls.iter().any(|url| url.starts_with("https://")) {
        bail!("https:// needs {}", tls.authorities.0);
    }
    let endpoints = urls.iter().map(|url| Endpoint::parse(url, config.as_ref()));
    Ok(endpoints.collect::<Result<_, _>>()?)
}

impl TlsFiles<'_> {
    fn client_config(&self) -> anyhow::Result<Option<Arc<ClientConfig>>> {
        let (flag, Some(path)) = self.authorities else { return Ok(None) };
        let mut roots = RootCertStore::empty();
        for authority in certificates(path)? {
            roots.add(authority).with_context(|| format!("{flag} {}", path.display()))?;
        }
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let builder = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_root_certificates(roots);
        let config = match (self.certificate, self.key) {
            ((flag, Some(certificate)), (key_flag, Some(key))) => {
                let key = PrivateKeyDer::from_pem_file(key)
                    .with_context(|| format!("{key_flag} {}", key.display()))?;
                builder
                    .with_client_auth_cert(certificates(certificate)?, key)
                    .with_context(|| format!("{flag} {}", certificate.display()))?
            }
            _ => builder.with_no_client_auth(),
        };
        Ok(Some(Arc::new(config)))
    }
}

fn certificates(path: &Path) -> anyhow::Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(path)?.collect::<Result<Vec<_>, _>>();
    read().with_context(|| format!("cannot read certificates of {}", path.display()))
}
