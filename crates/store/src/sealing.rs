//! Encryption of values on disk: the seam between the store and the owner of the keys.
//!
//! In memory values are plain; on disk they are what [`Sealing::seal`] makes of them. Invariants: a value that cannot be sealed
//! is not written; one that cannot be opened is an error, never its stored bytes. A transaction fails alone if one of its
//! values cannot be sealed.

use std::{fmt, sync::Arc};

use bytes::Bytes;

use crate::{Entry, Error};

/// Seals values before they are written to disk, and opens them when they are read.
pub trait Sealing: fmt::Debug + Send + Sync {
    /// The stored form of a value; `None` if it is stored as it is.
    fn seal(&self, key: &str, plain: &[u8]) -> Result<Option<Vec<u8>>, SealingError>;

    /// The value of a stored form; `None` if that is the value.
    fn open(&self, key: &str, stored: &[u8]) -> Result<Option<Opened>, SealingError>;
}

/// A value that was sealed.
#[derive(Debug)]
pub struct Opened {
    pub plain: Vec<u8>,
    /// True if [`Sealing::seal`] would now seal it in another way.
    pub is_stale: bool,
}

/// The reason why a value cannot be sealed or opened. It never contains the value.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SealingError(Arc<str>);

impl SealingError {
    pub fn new(reason: &dyn fmt::Display) -> Self {
        SealingError(reason.to_string().into())
    }
}

/// Stores every value as it is.
#[derive(Debug)]
pub(crate) struct Plain;

impl Sealing for Plain {
    fn seal(&self, _: &str, _: &[u8]) -> Result<Option<Vec<u8>>, SealingError> {
        Ok(None)
    }

    fn open(&self, _: &str, _: &[u8]) -> Result<Option<Opened>, SealingError> {
        Ok(None)
    }
}

pub(crate) fn seal(sealing: &dyn Sealing, key: &Arc<str>, value: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let failed = |source| Error::Seal { key: Arc::clone(key), source };
    sealing.seal(key, value).map_err(failed)
}

/// The entry with its value opened, and whether it should be sealed again.
pub(crate) fn open(sealing: &dyn Sealing, entry: Arc<Entry>) -> Result<(Arc<Entry>, bool), Error> {
    let failed = |source| Error::Open { key: Arc::clone(&entry.key), source };
    match sealing.open(&entry.key, &entry.value).map_err(failed)? {
        None => Ok((entry, false)),
        Some(Opened { plain, is_stale }) => {
            Ok((Arc::new(Entry { value: Bytes::from(plain), ..Entry::clone(&entry) }), is_stale))
        }
    }
}
