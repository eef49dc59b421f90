//! Errors of requests.

use corten_api::Status;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server responded with a failure.
    #[error("{0}")]
    Status(Box<Status>),
    /// There was no response, or an unreadable one.
    #[error("{0}")]
    Transport(String),
}

impl Error {
    pub fn transport(error: impl std::fmt::Display) -> Error {
        Error::Transport(error.to_string())
    }

    /// A transport error with the causes in its text, since nothing else keeps them.
    pub(crate) fn with_sources(error: &(dyn std::error::Error + 'static)) -> Error {
        let mut text = error.to_string();
        let mut source = error.source();
        while let Some(cause) = source {
            text.push_str(&format!(": {cause}"));
            source = cause.source();
        }
        Error::Transport(text)
    }

    fn reason(&self) -> &str {
        match self {
            Error::Status(status) => &status.reason,
            Error::Transport(_) => "",
        }
    }

    /// The HTTP status; zero if there was no response.
    pub fn code(&self) -> u16 {
        match self {
            Error::Status(status) => status.code,
            Error::Transport(_) => 0,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.reason() == "NotFound"
    }

    pub fn is_conflict(&self) -> bool {
        self.reason() == "Conflict"
    }

    pub fn already_exists(&self) -> bool {
        self.reason() == "AlreadyExists"
    }

    pub fn is_forbidden(&self) -> bool {
        self.reason() == "Forbidden"
    }

    pub fn is_invalid(&self) -> bool {
        self.reason() == "Invalid"
    }

    /// True if the resource version is too old to watch from.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason(), "Expired" | "Gone")
    }

    /// True if one of the causes has this reason.
    pub fn has_cause(&self, reason: &str) -> bool {
        match self {
            Error::Status(status) => status.details.causes.iter().any(|cause| cause.reason == reason),
            Error::Transport(_) => false,
        }
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Error {
        Error::Status(Box::new(status))
    }
}
