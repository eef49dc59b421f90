//! Errors of the image store.

use std::io;
use std::path::PathBuf;

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error("invalid reference format: {0:?}")]
    InvalidReference(String),
    #[error("invalid digest: {0:?}")]
    InvalidDigest(String),
    #[error("image {0:?} not found")]
    NotFound(String),
    #[error("content has digest {found}, expected {wanted}")]
    WrongContent { wanted: String, found: String },
    #[error("no image for {platform}; available: {}", available.join(", "))]
    NoPlatform { platform: String, available: Vec<String> },
    #[error("{0}")]
    Malformed(String),
    #[error("image {image:?} is used by container {container}")]
    InUse { image: String, container: String },
    #[error("cannot {operation} {}", path.display())]
    Io { operation: &'static str, path: PathBuf, source: io::Error },
}

impl From<ImageError> for crate::Error {
    fn from(error: ImageError) -> crate::Error {
        match error {
            ImageError::InvalidReference(_) | ImageError::InvalidDigest(_) => {
                crate::Error::InvalidArgument(error.to_string())
            }
            ImageError::NotFound(_) => crate::Error::NotFound(error.to_string()),
            error @ ImageError::Io { .. } => {
                let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                crate::Error::Internal(format!("{error}: {source}"))
            }
            error => crate::Error::Internal(error.to_string()),
        }
    }
}

/// Adds the operation and the path to an I/O error.
pub(crate) trait At<T> {
    fn at(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T, ImageError>;
}

impl<T, E: Into<io::Error>> At<T> for Result<T, E> {
    fn at(self, operation: &'static str, path: impl Into<PathBuf>) -> Result<T, ImageError> {
        self.map_err(|source| ImageError::Io { operation, path: path.into(), source: source.into() })
    }
}
