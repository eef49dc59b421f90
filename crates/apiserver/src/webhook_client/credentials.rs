//! The credentials that a webhook is called with: a bearer token or a password, a client certificate, and a user to
//! impersonate. Tokens and certificates in files are read again when the files may have changed.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::header::{AUTHORIZATION, HeaderMap, HeaderName, HeaderValue};
use parking_lot::Mutex;
use rustls::SignatureScheme;
use rustls::client::ResolvesClientCert;
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::sign::CertifiedKey;

/// The time after which a file with a token is read again, as of upstream's clients.
const TOKEN_AGE: Duration = Duration::from_secs(60);
/// Maximum size of a file with a token, a certificate or a key.
const MAX_BYTES: u64 = 1 << 20;

/// A user's credentials.
#[derive(Debug, Default)]
pub(super) struct Credentials {
    pub(super) token: Option<Bearer>,
    /// Name and password.
    pub(super) basic: Option<(String, String)>,
    pub(super) certificate: Option<Arc<Certificate>>,
    /// Names and values of headers.
    pub(super) impersonation: Vec<(String, String)>,
}

impl Credentials {
    /// Checks that tokens and certificates in files can be read.
    pub(super) fn check(&self) -> Result<(), String> {
        if let Some(token) = &self.token {
            token.current()?;
        }
        match &self.certificate {
            Some(certificate) => certificate.current().map(drop),
            None => Ok(()),
        }
    }

    pub(super) fn set_headers(&self, headers: &mut HeaderMap) -> Result<(), String> {
        let authorization = match (&self.token, &self.basic) {
            (Some(token), _) => Some(format!("Bearer {}", token.current()?)),
            (None, Some((name, password))) => {
                Some(format!("Basic {}", STANDARD.encode(format!("{name}:{password}"))))
            }
            (None, None) => None,
        };
        let value = |text: &str| HeaderValue::from_str(text).map_err(|error| error.to_string());
        if let Some(authorization) = authorization {
            let mut authorization = value(&authorization)?;
            authorization.set_sensitive(true);
            headers.insert(AUTHORIZATION, authorization);
        }
        for (name, text) in &self.impersonation {
            let name = HeaderName::from_bytes(name.as_bytes()).map_err(|error| error.to_string())?;
            headers.append(name, value(text)?);
        }
        Ok(())
    }
}

/// A bearer token.
pub(super) enum Bearer {
    Fixed(String),
    File {
        path: PathBuf,
        /// Used while the file cannot be read.
        inline: Option<String>,
        known: Mutex<Option<(Instant, String)>>,
    },
}

// Tokens are never shown.
impl std::fmt::Debug for Bearer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Bearer")
    }
}

impl Bearer {
    pub(super) fn file(path: PathBuf, inline: Option<String>) -> Bearer {
        Bearer::File { path, inline, known: Mutex::default() }
    }

    fn current(&self) -> Result<String, String> {
        let (path, inline, known) = match self {
            Bearer::Fixed(token) => return Ok(token.clone()),
            Bearer::File { path, inline, known } => (path, inline, known),
        };
        let mut known = known.lock();
        if let Some((read, token)) = &*known
            && read.elapsed() < TOKEN_AGE
        {
            return Ok(token.clone());
        }
        match (read_token(path), &*known, inline) {
            (Ok(token), ..) => {
                *known = Some((Instant::now(), token.clone()));
                Ok(token)
            }
            // A file that is being replaced: the token before may still be valid.
            (Err(_), Some((_, token)), _) | (Err(_), None, Some(token)) => Ok(token.clone()),
            (Err(why), None, None) => Err(why),
        }
    }
}

fn read_token(path: &Path) -> Result<String, String> {
    let text = String::from_utf8(read(path)?).map_err(|error| error.to_string())?;
    match text.trim() {
        "" => Err(format!("read empty token from file {path:?}")),
        token => Ok(token.to_owned()),
    }
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    let bounded = || -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        File::open(path)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    bounded().map_err(|error| {
        let why = match error.kind() {
            io::ErrorKind::NotFound => "no such file or directory".to_owned(),
            io::ErrorKind::PermissionDenied => "permission denied".to_owned(),
            _ => error.to_string(),
        };
        format!("open {}: {why}", path.display())
    })
}

/// A certificate chain or a key.
#[derive(Debug)]
pub(super) enum Pem {
    Inline(Vec<u8>),
    File(PathBuf),
}

impl Pem {
    fn read(&self) -> Result<Vec<u8>, String> {
        match self {
            Pem::Inline(bytes) => Ok(bytes.clone()),
            Pem::File(path) => read(path),
        }
    }

    /// The time at which a file was last written; none for inline data.
    fn written(&self) -> Option<SystemTime> {
        match self {
            Pem::Inline(_) => None,
            Pem::File(path) => fs::metadata(path).and_then(|file| file.modified()).ok(),
        }
    }
}

/// The times at which chain and key were last written.
type Written = (Option<SystemTime>, Option<SystemTime>);

/// A client certificate.
pub(super) struct Certificate {
    chain: Pem,
    key: Pem,
    known: Mutex<Option<(Written, Arc<CertifiedKey>)>>,
}

impl std::fmt::Debug for Certificate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Certificate")
    }
}

impl Certificate {
    pub(super) fn new(chain: Pem, key: Pem) -> Certificate {
        Certificate { chain, key, known: Mutex::default() }
    }

    /// The certificate as its files are now; the one before if they cannot be used.
    fn current(&self) -> Result<Arc<CertifiedKey>, String> {
        let written = (self.chain.written(), self.key.written());
        let mut known = self.known.lock();
        if let Some((since, certificate)) = &*known
            && *since == written
        {
            return Ok(certificate.clone());
        }
        match (self.load(), &*known) {
            (Ok(certificate), _) => {
                let certificate = Arc::new(certificate);
                *known = Some((written, certificate.clone()));
                Ok(certificate)
            }
            (Err(why), Some((_, before))) => {
                tracing::warn!(
                    err = why,
                    "cannot reload client certificate of webhooks; keeping the one in use"
                );
                Ok(before.clone())
            }
            (Err(why), None) => Err(why),
        }
    }

    fn load(&self) -> Result<CertifiedKey, String> {
        let (chain, key) = (self.chain.read()?, self.key.read()?);
        let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(&chain)
            .collect::<Result<_, _>>()
            .map_err(|error| format!("tls: failed to find any PEM data in certificate input: {error}"))?;
        if chain.is_empty() {
            return Err("tls: failed to find any PEM data in certificate input".to_owned());
        }
        let key = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|error| format!("tls: failed to find any PEM data in key input: {error}"))?;
        let provider: CryptoProvider = rustls::crypto::aws_lc_rs::default_provider();
        CertifiedKey::from_der(chain, key, &provider).map_err(|error| format!("tls: {error}"))
    }
}

impl ResolvesClientCert for Certificate {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.current().ok().filter(|found| found.key.choose_scheme(schemes).is_some())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use corten_pki::IssuedCert;

    use super::*;

    #[test]
    fn a_token_in_a_file_is_used_while_the_file_cannot_be_read() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        let bearer = Bearer::file(path.clone(), None);
        let error = bearer.current().unwrap_err();
        assert_eq!(error, format!("open {}: no such file or directory", path.display()));
        fs::write(&path, " \n").unwrap();
        assert!(bearer.current().unwrap_err().starts_with("read empty token from file "));
        fs::write(&path, "first\n").unwrap();
        assert_eq!(bearer.current().unwrap(), "first");
        fs::remove_file(&path).unwrap();
        assert_eq!(bearer.current().unwrap(), "first");
        assert_eq!(Bearer::file(path, Some("inline".to_owned())).current().unwrap(), "inline");
    }

    #[test]
    fn a_certificate_is_reloaded_and_a_broken_one_is_not_used() {
        let directory = tempfile::tempdir().unwrap();
        let (chain, key) = (directory.path().join("tls.crt"), directory.path().join("tls.key"));
        let certificate = Certificate::new(Pem::File(chain.clone()), Pem::File(key.clone()));
        assert!(certificate.current().is_err());
        let write = |seconds: u64| {
            let issued = IssuedCert::self_signed("client", SystemTime::now()).unwrap();
            let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
            for (path, text) in [(&chain, &issued.cert_pem), (&key, &issued.key_pem)] {
                fs::write(path, text).unwrap();
                File::options().write(true).open(path).unwrap().set_modified(at).unwrap();
            }
        };
        write(1);
        let first = certificate.current().unwrap();
        assert!(Arc::ptr_eq(&first, &certificate.current().unwrap()), "not read again");
        write(2);
        let second = certificate.current().unwrap();
        assert_ne!(first.cert, second.cert);
        fs::write(&chain, "broken").unwrap();
        assert_eq!(certificate.current().unwrap().cert, second.cert);
    }

    #[test]
    fn headers_carry_the_credentials() {
        let headers = |credentials: &Credentials| {
            let mut headers = HeaderMap::new();
            credentials.set_headers(&mut headers).map(|()| headers)
        };
        let token = Credentials { token: Some(Bearer::Fixed("t".into())), ..Credentials::default() };
        let found = headers(&token).unwrap();
        assert_eq!(found[AUTHORIZATION], "Bearer t");
        assert!(found[AUTHORIZATION].is_sensitive());
        let basic = Credentials { basic: Some(("u".into(), "p".into())), ..Credentials::default() };
        assert_eq!(headers(&basic).unwrap()[AUTHORIZATION], "Basic dTpw");
        let broken = Credentials { token: Some(Bearer::Fixed("a\nb".into())), ..Credentials::default() };
        assert!(headers(&broken).is_err());
        let pairs = [("impersonate-group", "a"), ("impersonate-group", "b")];
        let impersonation = pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).to_vec();
        let found = headers(&Credentials { impersonation, ..Credentials::default() }).unwrap();
        assert_eq!(found.get_all("impersonate-group").iter().count(), 2);
    }
}
