//! HTTP/1.1 over TLS with the certificate authorities of the system and of a file, and over plain TCP.

use std::error::Error as StdError;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::stream;
use http_body_util::combinators::BoxBody;
use http_body_util::{BodyExt, Empty, StreamBody};
use hyper::body::Frame;
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::PemObject;
use tokio::fs::File;
use tokio::io::AsyncReadExt;

use super::S3Error;

/// Bundles of trusted CA certificates of Linux distributions.
const SYSTEM: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];
const CONNECT: Duration = Duration::from_secs(10);
const PART: usize = 64 << 10;

pub(super) type Body = BoxBody<Bytes, io::Error>;
pub(super) type Http = Client<HttpsConnector<HttpConnector>, Body>;

pub(super) fn http(ca_file: Option<&Path>) -> Result<Http, S3Error> {
    let mut roots = RootCertStore::empty();
    if let Some(system) = SYSTEM.iter().map(Path::new).find(|path| path.exists()) {
        // A bundle may hold certificates that are not understood; the others are used.
        roots.add_parsable_certificates(read(system)?);
    }
    if let Some(file) = ca_file {
        for certificate in read(file)? {
            roots.add(certificate).map_err(|error| S3Error::Tls(error.to_string()))?;
        }
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| S3Error::Tls(error.to_string()))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_connect_timeout(Some(CONNECT));
    tcp.set_nodelay(true);
    // The scheme was checked with the address.
    let connector = HttpsConnectorBuilder::new()
        .with_tls_config(config)
        .https_or_http()
        .enable_http1()
        .wrap_connector(tcp);
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

fn read(file: &Path) -> Result<Vec<CertificateDer<'static>>, S3Error> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    read.map_err(|error| S3Error::Tls(format!("certificates in {}: {error}", file.display())))
}

pub(super) fn empty() -> Body {
    Empty::new().map_err(|never| match never {}).boxed()
}

/// The contents of a file, a part at a time.
pub(super) fn file(file: File) -> Body {
    let parts = stream::unfold(file, |mut file| async move {
        let mut part = BytesMut::with_capacity(PART);
        match file.read_buf(&mut part).await {
            Ok(0) => None,
            read => Some((read.map(|_| Frame::data(part.freeze())), file)),
        }
    });
    BodyExt::boxed(StreamBody::new(parts))
}

/// The text of an error with those of its sources.
pub(super) fn with_sources(error: &dyn StdError) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        text.push_str(": ");
        text.push_str(&error.to_string());
        source = error.source();
    }
    text
}
