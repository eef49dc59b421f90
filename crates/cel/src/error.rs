//! The outcome of an evaluation that gives no value.

use std::borrow::Cow;
use std::fmt;

/// An evaluation error. `&&`, `||` and comprehensions can absorb errors of values; a cancelled evaluation ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Error {
    Value(Cow<'static, str>),
    /// The evaluation exceeded its cost limit, or the memory that a program within the cost limit may use.
    Cancelled,
}

/// The result of evaluating an expression or a function.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub const fn new(message: &'static str) -> Error {
        Error::Value(Cow::Borrowed(message))
    }

    /// False instead of an error of a value.
    pub(crate) fn unless_cancelled(self) -> Result<bool> {
        match self {
            Error::Value(_) => Ok(false),
            Error::Cancelled => Err(Error::Cancelled),
        }
    }

    pub const fn no_such_overload() -> Error {
        Error::new("no such overload")
    }
}

impl From<String> for Error {
    fn from(message: String) -> Error {
        Error::Value(Cow::Owned(message))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Value(message) => f.write_str(message),
            Error::Cancelled => f.write_str("operation cancelled: actual cost limit exceeded"),
        }
    }
}

impl std::error::Error for Error {}
