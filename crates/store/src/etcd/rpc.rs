//! Calls to etcd: deadlines, repetition of reads, and the store's errors for etcd's.

use std::{io, sync::Arc, time::Duration};

use corten_etcd_api::{ResponseHeader, errors};
use corten_grpc::{CallOptions, Code, Status, protobuf::Message};
use http::{HeaderMap, HeaderName, HeaderValue};
use tokio::time::Instant;

use super::{Etcd, unsigned};
use crate::{Error, Revision};

/// The limit of a response: a page of values of the largest size that etcd takes by default, and more.
pub(super) const MAX_MESSAGE: usize = 512 << 20;
const SHORTEST_BACKOFF: Duration = Duration::from_millis(25);
const LONGEST_BACKOFF: Duration = Duration::from_secs(1);

/// Growing delays between attempts.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Backoff {
        Backoff(SHORTEST_BACKOFF)
    }
}

impl Backoff {
    pub(super) async fn wait(&mut self) {
        tokio::time::sleep(self.0).await;
        self.0 = (self.0 * 2).min(LONGEST_BACKOFF);
    }
}

/// The options of a call: a member without a leader fails it at once.
pub(super) fn call_options(timeout: Option<Duration>) -> CallOptions {
    let mut metadata = HeaderMap::new();
    metadata.insert(HeaderName::from_static("hasleader"), HeaderValue::from_static("true"));
    CallOptions { timeout, metadata, max_message: MAX_MESSAGE }
}

impl Etcd {
    /// A call that changes nothing: it is repeated at other members while etcd is unavailable.
    pub(super) async fn read<A: Message, B: Message>(
        &self,
        method: &'static str,
        request: &A,
    ) -> Result<B, Status> {
        let deadline = Instant::now() + self.timeout;
        let mut backoff = Backoff::default();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let failure = match self.channel.unary(method, request, call_options(Some(left))).await {
                Err(status) if matches!(status.code, Code::Unavailable | Code::DeadlineExceeded) => status,
                outcome => return outcome,
            };
            self.channel.fail_over().await;
            if left.is_zero() || failure.code == Code::DeadlineExceeded {
                return Err(failure);
            }
            backoff.wait().await;
        }
    }

    /// A call that may change something: it is sent once, after a connection is open.
    pub(super) async fn write<A: Message, B: Message>(
        &self,
        method: &'static str,
        request: &A,
    ) -> Result<B, Status> {
        if self.is_read_only {
            return Err(Status::new(Code::FailedPrecondition, "the store was opened for reading only"));
        }
        let deadline = Instant::now() + self.timeout;
        let mut backoff = Backoff::default();
        while let Err(status) = self.channel.connect().await {
            if Instant::now() >= deadline {
                return Err(status);
            }
            backoff.wait().await;
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let outcome = self.channel.unary(method, request, call_options(Some(left))).await;
        if let Err(status) = &outcome
            && matches!(status.code, Code::Unavailable | Code::DeadlineExceeded)
        {
            self.channel.fail_over().await;
        }
        outcome
    }
}

/// The revision of a response.
pub(super) fn revision(header: Option<&ResponseHeader>) -> Result<Revision, Error> {
    let header = header.ok_or_else(|| failure(Status::internal("a response of etcd has no header")))?;
    Ok(unsigned(header.revision))
}

/// The error of a failed call.
pub(super) fn failure(status: Status) -> Error {
    if errors::NO_SPACE.matches(&status) {
        return Error::NoSpace(Arc::new(io::Error::new(io::ErrorKind::StorageFull, status.message)));
    }
    if errors::LEASE_NOT_FOUND.matches(&status) {
        return Error::UnknownLease;
    }
    Error::Etcd(status)
}
