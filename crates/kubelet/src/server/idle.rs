//! Ends sessions without traffic: exec, attach and port-forward connections, after `streamingConnectionIdleTimeout`.
//!
//! Bytes in either direction count as traffic, those of pings too, as upstream. A session that has no timeout lasts until
//! one side ends it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep};

/// A connection whose protocol was switched.
pub(super) type Upgraded = IdleTimeout<TokioIo<hyper::upgrade::Upgraded>>;

/// Waits until the protocol of a request's connection is switched. The connection fails once it is idle for too long.
pub(super) async fn upgraded(
    request: Request<Incoming>,
    timeout: Option<Duration>,
) -> hyper::Result<Upgraded> {
    let upgraded = hyper::upgrade::on(request).await?;
    Ok(IdleTimeout::new(TokioIo::new(upgraded), timeout))
}

/// A connection that fails once no byte was read or written for a time.
pub(super) struct IdleTimeout<T> {
    io: T,
    timer: Option<Timer>,
}

struct Timer {
    timeout: Duration,
    sleep: Pin<Box<Sleep>>,
}

impl<T> IdleTimeout<T> {
    /// `None` and zero stand for no timeout.
    pub(super) fn new(io: T, timeout: Option<Duration>) -> IdleTimeout<T> {
        let timer = |timeout| Timer { timeout, sleep: Box::pin(sleep(timeout)) };
        IdleTimeout { io, timer: timeout.filter(|timeout| !timeout.is_zero()).map(timer) }
    }

    fn extend(&mut self) {
        if let Some(timer) = &mut self.timer {
            let deadline = Instant::now() + timer.timeout;
            timer.sleep.as_mut().reset(deadline);
        }
    }

    /// Ready once the connection was idle for too long.
    fn expired(&mut self, context: &mut Context<'_>) -> Poll<io::Error> {
        let Some(timer) = &mut self.timer else { return Poll::Pending };
        ready!(timer.sleep.as_mut().poll(context));
        Poll::Ready(io::Error::new(io::ErrorKind::TimedOut, "the session was idle for too long"))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for IdleTimeout<T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if let Poll::Ready(read) = Pin::new(&mut self.io).poll_read(context, buffer) {
            self.extend();
            return Poll::Ready(read);
        }
        self.expired(context).map(Err)
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for IdleTimeout<T> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = ready!(Pin::new(&mut self.io).poll_write(context, bytes));
        self.extend();
        Poll::Ready(written)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    const TIMEOUT: Duration = Duration::from_secs(100);

    #[tokio::test(start_paused = true)]
    async fn a_session_without_traffic_ends() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut session = IdleTimeout::new(ours, Some(TIMEOUT));
        let started = Instant::now();
        let mut byte = [0; 1];
        for traffic in 1..=6 {
            tokio::time::advance(TIMEOUT * 3 / 4).await;
            // Both directions count.
            match traffic % 2 {
                0 => session.write_all(b"x").await.unwrap(),
                _ => {
                    theirs.write_all(b"x").await.unwrap();
                    session.read_exact(&mut byte).await.unwrap();
                }
            }
        }
        let error = session.read(&mut byte).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        let idle = started.elapsed().saturating_sub(TIMEOUT * 3 / 4 * 6);
        assert!(idle >= TIMEOUT && idle < TIMEOUT * 2, "{idle:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_without_a_timeout_lasts() {
        for timeout in [None, Some(Duration::ZERO)] {
            let (ours, mut theirs) = tokio::io::duplex(64);
            let mut session = IdleTimeout::new(ours, timeout);
            tokio::time::advance(TIMEOUT * 1000).await;
            theirs.write_all(b"x").await.unwrap();
            assert_eq!(session.read(&mut [0; 1]).await.unwrap(), 1);
        }
    }
}
