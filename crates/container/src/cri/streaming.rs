//! Exec, attach and port-forward: byte streams into containers.
//!
//! A runtime either returns the streams themselves, or the URL of a server that speaks the client's protocol, to which
//! the request is then forwarded unchanged.

use std::fmt;
use std::pin::Pin;

use futures_util::future::BoxFuture;
use tokio::io::{AsyncRead, AsyncWrite};

use super::Result;

pub type Reader = Pin<Box<dyn AsyncRead + Send>>;
pub type Writer = Pin<Box<dyn AsyncWrite + Send>>;

pub enum Streaming<T> {
    Direct(T),
    /// Forward the upgrade request to this URL.
    Redirect(String),
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecRequest {
    pub container_id: String,
    pub command: Vec<String>,
    /// With a terminal, standard error arrives on standard output.
    pub tty: bool,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AttachRequest {
    pub container_id: String,
    /// As the container was configured.
    pub tty: bool,
    pub stdin: bool,
    pub stdout: bool,
    pub stderr: bool,
}

/// A process's streams, as far as they were requested. Dropping one closes it.
pub struct Session {
    /// Shutting it down closes the process's input.
    pub stdin: Option<Writer>,
    pub stdout: Option<Reader>,
    pub stderr: Option<Reader>,
    /// The terminal, to set its size.
    pub terminal: Option<Box<dyn Terminal>>,
    /// The exit code of the process; for an attached container, that of the container.
    pub exit: BoxFuture<'static, Result<i32>>,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

pub trait Terminal: Send + Sync {
    fn resize(&self, columns: u16, rows: u16) -> Result<()>;
}

/// One connection to a port of a pod.
pub trait Connection: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Connection for T {}

/// The output of a command that was waited for. Each stream holds 16 MB at most; the rest is discarded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExecOutput {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit_code: i32,
}
