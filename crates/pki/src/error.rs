//! Everything that can go wrong with key material. Each variant names the file and says what to do about it.

use std::io;
use std::path::{Path, PathBuf};

/// A failed operation on certificates, keys or kubeconfigs.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A file or directory could not be read or written.
    #[error("cannot {operation} {}; check its owner and permissions", path.display())]
    File {
        /// `read`, `create`, `write`, ...
        operation: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// A file exists but has the wrong content.
    #[error("{} {problem}; {remedy}", path.display())]
    Broken {
        /// The unusable file.
        path: PathBuf,
        /// The problem, as a predicate: `is not a PEM certificate`.
        problem: String,
        /// The remedy for the operator.
        remedy: &'static str,
    },
    /// A key could not be made or a certificate could not be signed.
    #[error("cannot {operation}")]
    Crypto {
        /// The operation that failed.
        operation: &'static str,
        /// The library's reason.
        #[source]
        source: rcgen::Error,
    },
    /// A name that cannot be put into a certificate.
    #[error("{0:?} is neither an IP address nor a DNS name, so no certificate can be issued for it")]
    InvalidName(String),
    /// A point in time outside what a certificate can hold.
    #[error("the system clock is outside the range of certificate dates; set it and start again")]
    Clock,
    /// Bytes that are not a certificate.
    #[error("not an X.509 certificate: {0}")]
    NotACertificate(String),
    /// Text that is not a certificate signing request.
    #[error("{0}")]
    NotARequest(String),
    /// A certificate and key that TLS cannot use.
    #[error("cannot use certificate")]
    Tls(#[source] rustls::Error),
    /// An authority whose own certificate has expired.
    #[error("the signer has expired: NotAfter={0}")]
    SignerExpired(String),
    /// The system gave no random numbers.
    #[error("cannot read random numbers from the system")]
    Random,
    /// A kubeconfig that cannot be used.
    #[error("unusable kubeconfig: {0}")]
    Kubeconfig(String),
}

/// The result of every operation here.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    pub(crate) fn file(operation: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Error {
        move |source| Error::File { operation, path: path.to_owned(), source }
    }

    pub(crate) fn broken(path: &Path, problem: impl Into<String>, remedy: &'static str) -> Error {
        Error::Broken { path: path.to_owned(), problem: problem.into(), remedy }
    }

    pub(crate) fn crypto(operation: &'static str) -> impl FnOnce(rcgen::Error) -> Error {
        move |source| Error::Crypto { operation, source }
    }
}
