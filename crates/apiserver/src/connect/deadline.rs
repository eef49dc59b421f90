//! A time limit for connection attempts of pooled clients, TLS handshakes included.
//!
//! A client gives up a request after its own timeout, but not an attempt that another request began to wait for: without
//! a limit, a server that accepts connections and never says a word would take file descriptors without end.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use tower_service::Service;

use super::backend::Failure;

const LIMIT: Duration = Duration::from_secs(30);

/// A connector whose attempts end.
#[derive(Clone)]
pub(crate) struct Deadline<C>(pub(crate) C);

impl<C> Service<Uri> for Deadline<C>
where
    C: Service<Uri>,
    C::Response: Send + 'static,
    C::Error: Into<Failure>,
    C::Future: Send + 'static,
{
    type Response = C::Response;
    type Error = Failure;
    type Future = Pin<Box<dyn Future<Output = Result<C::Response, Failure>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Failure>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, to: Uri) -> Self::Future {
        let attempt = self.0.call(to);
        Box::pin(async move {
            match tokio::time::timeout(LIMIT, attempt).await {
                Ok(outcome) => outcome.map_err(Into::into),
                Err(_) => {
                    Err(io::Error::new(io::ErrorKind::TimedOut, "net/http: TLS handshake timeout").into())
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    /// A connector that never connects.
    #[derive(Clone)]
    struct Silent;

    impl Service<Uri> for Silent {
        type Response = ();
        type Error = io::Error;
        type Future = std::future::Pending<Result<(), io::Error>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), io::Error>> {
            Poll::Ready(Ok(()))
        }

        fn call(&mut self, _: Uri) -> Self::Future {
            std::future::pending()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn attempts_end() {
        let began = Instant::now();
        let error = Deadline(Silent).call(Uri::from_static("https://a")).await.unwrap_err();
        assert_eq!(error.to_string(), "net/http: TLS handshake timeout");
        assert_eq!(began.elapsed(), LIMIT);
    }
}
