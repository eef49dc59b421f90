//! The errors of the store.
//!
//! Errors are cheap to clone because one failed write to disk is the response to every writer in its batch.

use std::{
    io::{self, ErrorKind},
    path::PathBuf,
    sync::Arc,
};

use corten_grpc::Status;

use crate::{Entry, Revision, SealingError};

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// The transaction did nothing, because the precondition of its operation number `op` failed.
    #[error("precondition of operation {op} failed")]
    Conflict { op: usize, current: Option<Arc<Entry>> },
    #[error("revision {requested} is compacted; history starts at {compacted}")]
    Compacted { requested: Revision, compacted: Revision },
    #[error("revision {requested} is in the future; the store is at {current}")]
    Future { requested: Revision, current: Revision },
    #[error("lease does not exist or has expired")]
    UnknownLease,
    #[error("cannot encrypt value of {key}")]
    Seal {
        key: Arc<str>,
        #[source]
        source: SealingError,
    },
    #[error("cannot decrypt value of {key}")]
    Open {
        key: Arc<str>,
        #[source]
        source: SealingError,
    },
    #[error("lease already exists")]
    LeaseExists,
    /// A put that keeps the value or the lease of a key that does not exist.
    #[error("key does not exist")]
    KeyNotFound,
    #[error("invalid request: {0}")]
    Invalid(&'static str),
    /// Nothing was written; the same write can succeed once there is space.
    #[error("no space left on the store's disk")]
    NoSpace(#[source] Arc<io::Error>),
    #[error("the store is in use by another process, which holds {}; stop it first", path.display())]
    Locked { path: PathBuf },
    #[error("the store is damaged")]
    Corrupt(#[from] Damage),
    #[error("the store is closed")]
    Closed,
    /// A call of etcd failed. A write may have been carried out nevertheless.
    #[error("{}", etcd_message(.0))]
    Etcd(Status),
    /// A write that fails like this is not visible and its revision is not used again. Should the
    /// process die before the next successful write, the outcome is unknown.
    #[error("cannot access {}", path.display())]
    File {
        path: PathBuf,
        #[source]
        source: Arc<io::Error>,
    },
    /// A sync failed. What of it is on disk is unknown, and another sync might succeed without having written anything: the
    /// store accepts no more writes until it is opened again. The outcome of the write is unknown.
    #[error("cannot sync {}; no writes are accepted until the store is opened again", path.display())]
    Sync {
        path: PathBuf,
        #[source]
        source: Arc<io::Error>,
    },
    #[error("{} has a format that this version does not support", path.display())]
    Format { path: PathBuf },
}

/// The text of etcd's own errors is known to clients; others begin with their code.
fn etcd_message(status: &Status) -> String {
    if status.message.starts_with("etcdserver: ") { status.message.clone() } else { status.to_string() }
}

/// The kinds of damage on disk.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Damage {
    #[error("revision {revision} of key {key:?} replaces revision {previous}, which is missing")]
    Missing { key: String, revision: Revision, previous: Revision },
    #[error("the live records differ from those of revision {revision}")]
    Live { revision: Revision },
    #[error("acknowledged revisions {} to {acknowledged} are missing", recovered + 1)]
    LostTail { recovered: Revision, acknowledged: Revision },
    #[error("{file} is damaged at byte {at}, before acknowledged writes")]
    Log { file: String, at: u64 },
    #[error("the record of the last acknowledged revision is unreadable")]
    Witness,
}

impl Error {
    pub(crate) fn file(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::File { path, source: Arc::new(source) }
    }

    pub(crate) fn sync(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| Error::Sync { path, source: Arc::new(source) }
    }

    /// Like [`Error::file`], for operations that need disk space.
    pub(crate) fn disk(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Error {
        let path = path.into();
        move |source| match source.kind() {
            ErrorKind::StorageFull | ErrorKind::QuotaExceeded => Error::NoSpace(Arc::new(source)),
            _ => Error::file(path)(source),
        }
    }
}
