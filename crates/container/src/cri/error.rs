//! What can go wrong behind the CRI, as far as callers tell it apart.

/// The variants that callers branch on are gRPC's codes; the texts are what a pod's events show.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such sandbox, container or image.
    #[error("{0}")]
    NotFound(String),
    /// The name is taken: the same sandbox or container attempt exists already.
    #[error("{0}")]
    AlreadyExists(String),
    /// What was asked for makes no sense, for this runtime or at all.
    #[error("{0}")]
    InvalidArgument(String),
    /// It makes sense, but not in the state things are in.
    #[error("{0}")]
    FailedPrecondition(String),
    /// It took longer than was asked for.
    #[error("{0}")]
    DeadlineExceeded(String),
    /// The registry could not be reached, or is not well.
    #[error("{0}")]
    RegistryUnavailable(String),
    /// The image's signature does not satisfy the policy.
    #[error("{0}")]
    SignatureValidationFailed(String),
    /// The runtime cannot be reached; trying again later makes sense.
    #[error("{0}")]
    Unavailable(String),
    /// This runtime does not do that.
    #[error("{0}")]
    Unimplemented(String),
    /// Everything else.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// A failed operation and everything behind it, in one line.
    pub fn internal(operation: impl std::fmt::Display, cause: impl std::error::Error) -> Error {
        let mut text = format!("{operation}: {cause}");
        let mut source = cause.source();
        while let Some(cause) = source {
            text = format!("{text}: {cause}");
            source = cause.source();
        }
        Error::Internal(text)
    }

    pub fn is_not_found(&self) -> bool {
        matches!(self, Error::NotFound(_))
    }
}
