//! Errors of the CRI, as far as callers distinguish them.

/// The variants are gRPC's codes; the texts appear in the pod's events.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No such sandbox, container or image.
    #[error("{0}")]
    NotFound(String),
    /// The name is taken: the same sandbox or container attempt exists already.
    #[error("{0}")]
    AlreadyExists(String),
    /// The request is invalid, for this runtime or in general.
    #[error("{0}")]
    InvalidArgument(String),
    /// The request is valid, but not in the current state.
    #[error("{0}")]
    FailedPrecondition(String),
    /// The operation took longer than its timeout.
    #[error("{0}")]
    DeadlineExceeded(String),
    /// The registry could not be reached or failed.
    #[error("{0}")]
    RegistryUnavailable(String),
    /// The image's signature does not satisfy the policy.
    #[error("{0}")]
    SignatureValidationFailed(String),
    /// The runtime cannot be reached; the call can be retried.
    #[error("{0}")]
    Unavailable(String),
    /// The runtime does not support the operation.
    #[error("{0}")]
    Unimplemented(String),
    /// Everything else.
    #[error("{0}")]
    Internal(String),
}

impl Error {
    /// A failed operation and its chain of causes, in one line.
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
