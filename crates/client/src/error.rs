//! Why a request failed.

use corten_api::Status;

#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The server answered, and refused.
    #[error("{0}")]
    Status(Box<Status>),
    /// There was no answer, or none that can be read.
    #[error("{0}")]
    Transport(String),
}

impl Error {
    pub fn transport(error: impl std::fmt::Display) -> Error {
        Error::Transport(error.to_string())
    }

    fn reason(&self) -> &str {
        match self {
            Error::Status(status) => status.reason,
            Error::Transport(_) => "",
        }
    }

    /// The HTTP status; zero if there was no answer.
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

    /// A version too old to go on from.
    pub fn is_expired(&self) -> bool {
        matches!(self.reason(), "Expired" | "Gone")
    }

    /// Whether one of the causes has this reason.
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
