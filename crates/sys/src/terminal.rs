//! Our side of a terminal, for asynchronous reading and writing.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use tokio::io::unix::AsyncFd;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The master of a terminal. Clones are the same one.
#[derive(Debug, Clone)]
pub struct Master(Arc<AsyncFd<OwnedFd>>);

impl Master {
    pub fn new(master: OwnedFd) -> io::Result<Master> {
        rustix::io::ioctl_fionbio(&master, true)?;
        // SAFETY: the descriptor is owned, never replaced, and closed only after it is deregistered.
        let registered = unsafe { AsyncFd::register(master) };
        registered.map(|master| Master(Arc::new(master))).map_err(io::Error::from)
    }

    pub fn resize(&self, columns: u16, rows: u16) -> io::Result<()> {
        let size = rustix::termios::Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        Ok(rustix::termios::tcsetwinsize(self.0.as_fd(), size)?)
    }
}

impl AsyncRead for Master {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.0.poll_read_ready(context))?;
            let read =
                guard.try_io(|master| Ok(rustix::io::read(master.as_fd(), buffer.initialize_unfilled())?));
            match read {
                Ok(Ok(read)) => {
                    buffer.advance(read);
                    return Poll::Ready(Ok(()));
                }
                // All descriptors of the other side are closed: end of file.
                Ok(Err(error)) if error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error()) => {
                    return Poll::Ready(Ok(()));
                }
                Ok(Err(error)) => return Poll::Ready(Err(error)),
                Err(_would_block) => {}
            }
        }
    }
}

impl AsyncWrite for Master {
    fn poll_write(self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.0.poll_write_ready(context))?;
            if let Ok(written) = guard.try_io(|master| Ok(rustix::io::write(master.as_fd(), bytes)?)) {
                return Poll::Ready(written);
            }
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    /// A terminal's input ends with a typed end-of-file, not by closing it.
    fn poll_shutdown(self: Pin<&mut Self>, _context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
