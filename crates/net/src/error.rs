//! Errors of the pod network.

use std::io;

use crate::{Cidr, Protocol};

pub type Result<T> = std::result::Result<T, Error>;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("the node has no pod CIDR yet")]
    NoPodCidr,
    #[error("{0:?} is not a CIDR such as 10.244.1.0/24")]
    NotACidr(String),
    #[error("{0:?} is not a valid pod sandbox ID")]
    NotASandbox(String),
    #[error("no address is left in {0}")]
    Exhausted(Cidr),
    #[error("host port {port}/{protocol} is taken by pod sandbox {owner}")]
    HostPortTaken { port: u16, protocol: Protocol, owner: String },
    #[error("{operation}")]
    System { operation: String, source: io::Error },
}

/// Adds the operation to an I/O error.
pub(crate) trait During<T> {
    fn during(self, operation: impl Into<String>) -> Result<T>;
}

impl<T> During<T> for io::Result<T> {
    fn during(self, operation: impl Into<String>) -> Result<T> {
        self.map_err(|source| Error::System { operation: operation.into(), source })
    }
}
