//! Waiting for the state: until it has a revision of etcd's responses, and until it is as new as etcd.
//!
//! The watch delivers events in order, but no event for revisions of other keys. So etcd is asked to report how far the watch
//! is. Servers before 3.4.31 and 3.5.13 may report that before the events; there, a write of a key at the end of the watched
//! range (`Keys::barrier`) has the same effect.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use corten_etcd_api::{
    DeleteRangeRequest, DeleteRangeResponse, PutRequest, PutResponse, RangeRequest, RangeResponse, methods,
};
use corten_grpc::Status;
use parking_lot::Mutex;
use tokio::{sync::oneshot, task::JoinSet};

use super::{
    Etcd,
    rpc::{failure, revision as revision_of},
};
use crate::{Error, Revision};

/// The time in which an event that is on its way arrives; then a report of progress is requested.
const EVENT_ARRIVES: Duration = Duration::from_millis(5);
/// The time after which a report of progress is requested again: etcd sends none while a watch is behind.
pub(super) const REQUEST_AGAIN: Duration = Duration::from_millis(100);

/// The writes that raise the revision at the same time.
const RAISERS: usize = 64;
/// The revisions after which those before are compacted: each takes some hundred bytes of etcd's quota.
const RAISE_STEP: Revision = 100_000;

/// The time in which a healthy etcd answers, as upstream's health checks have it.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(2);

/// The readers that wait for etcd's revision: all that wait share the next request.
#[derive(Default)]
pub(super) struct Readers(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    answers: Vec<oneshot::Sender<Result<Revision, Error>>>,
    /// True while a task serves them.
    is_served: bool,
}

impl Etcd {
    /// Waits until the state is as new as etcd was at the time of the call.
    pub(crate) async fn catch_up(self: &Arc<Self>) -> Result<(), Error> {
        self.check_open()?;
        let (answer, newest) = oneshot::channel();
        let begins = {
            let mut waiting = self.readers.0.lock();
            waiting.answers.push(answer);
            !std::mem::replace(&mut waiting.is_served, true)
        };
        if begins {
            tokio::spawn(Arc::clone(self).serve_readers());
        }
        self.reach(newest.await.unwrap_or(Err(Error::Closed))?).await
    }

    async fn serve_readers(self: Arc<Self>) {
        loop {
            let answers = {
                let mut waiting = self.readers.0.lock();
                if waiting.answers.is_empty() {
                    waiting.is_served = false;
                    return;
                }
                std::mem::take(&mut waiting.answers)
            };
            let newest = self.newest_revision().await;
            for answer in answers {
                // Fails if the reader was cancelled.
                let _ = answer.send(newest.clone());
            }
        }
    }

    pub(crate) async fn is_healthy(&self) -> bool {
        let checked = tokio::time::timeout(HEALTH_TIMEOUT, self.newest_revision());
        !self.is_closed() && matches!(checked.await, Ok(Ok(_)))
    }

    /// The revision of etcd, after a quorum has confirmed it.
    pub(super) async fn newest_revision(&self) -> Result<Revision, Error> {
        let request =
            RangeRequest { key: self.keys.barrier(), keys_only: true, limit: 1, ..RangeRequest::default() };
        let known = self.live.revision();
        let response: RangeResponse = self.read(methods::RANGE, &request).await.map_err(failure)?;
        let newest = revision_of(response.header.as_ref())?;
        self.check_not_earlier(newest, known)?;
        Ok(newest)
    }

    /// Closes the store if etcd responds with an earlier revision than the one that was known before the request.
    pub(super) fn check_not_earlier(&self, newest: Revision, known: Revision) -> Result<(), Error> {
        if newest < known {
            tracing::error!(
                newest,
                known,
                "etcd went back to an earlier revision, as after a restore; closing the store"
            );
            self.shut_down();
            return Err(Error::Closed);
        }
        Ok(())
    }

    /// Waits until the state and all observers have a revision.
    pub(super) async fn reach(&self, revision: Revision) -> Result<(), Error> {
        let mut progress = self.live.progress.subscribe();
        let reached = async {
            let mut patience = EVENT_ARRIVES;
            loop {
                if *progress.borrow_and_update() >= revision {
                    return Ok(());
                }
                self.check_open()?;
                tokio::select! {
                    _ = progress.changed() => {}
                    () = tokio::time::sleep(patience) => {
                        self.request_progress().await?;
                        patience = REQUEST_AGAIN;
                    }
                }
            }
        };
        match tokio::time::timeout(self.timeout, reached).await {
            Ok(outcome) => outcome,
            Err(_) => Err(failure(Status::deadline_exceeded())),
        }
    }

    /// Lets the watch report how far it is.
    async fn request_progress(&self) -> Result<(), Error> {
        if self.has_ordered_progress.load(Ordering::Acquire) {
            self.wants_progress.notify_one();
            return Ok(());
        }
        self.write_barrier().await.map(|_| ())
    }

    /// Writes a key until etcd is beyond a revision, which only writes increase. A long way is compacted behind it.
    pub(crate) async fn raise(self: &Arc<Self>, revision: Revision) -> Result<(), Error> {
        self.check_open()?;
        let mut reached = self.live.revision();
        while reached <= revision {
            let next = revision.min(reached + RAISE_STEP);
            self.write_beyond(next).await?;
            reached = self.write_barrier().await?;
            self.reach(reached).await?;
            if next < revision {
                self.compact(reached).await?;
            }
        }
        let request = DeleteRangeRequest { key: self.keys.barrier(), ..DeleteRangeRequest::default() };
        let response: DeleteRangeResponse =
            self.write(methods::DELETE_RANGE, &request).await.map_err(failure)?;
        self.reach(revision_of(response.header.as_ref())?).await
    }

    async fn write_beyond(self: &Arc<Self>, revision: Revision) -> Result<(), Error> {
        let mut writers = JoinSet::new();
        for _ in 0..RAISERS {
            let etcd = Arc::clone(self);
            writers.spawn(async move {
                while etcd.write_barrier().await? <= revision {}
                Ok::<_, Error>(())
            });
        }
        while let Some(written) = writers.join_next().await {
            written.unwrap_or(Err(Error::Closed))?;
        }
        Ok(())
    }

    /// Writes the key at the end of the watched range.
    pub(super) async fn write_barrier(&self) -> Result<Revision, Error> {
        let request = PutRequest { key: self.keys.barrier(), ..PutRequest::default() };
        let response: PutResponse = self.write(methods::PUT, &request).await.map_err(failure)?;
        revision_of(response.header.as_ref())
    }
}

/// True if a server of this version reports the progress of a watch in order with its events.
pub(super) fn has_ordered_progress(version: &str) -> bool {
    let mut parts = version.split(['.', '-', '+']).map(|part| part.parse::<u32>().unwrap_or_default());
    let mut part = || parts.next().unwrap_or_default();
    match (part(), part(), part()) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) > (3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_ordered_progress() {
        for version in ["3.4.31", "3.5.13", "3.5.13-rc.0", "3.6.0", "3.7.0-alpha.0", "4.0.0"] {
            assert!(has_ordered_progress(version), "{version}");
        }
        for version in ["3.3.99", "3.4.23", "3.4.30", "3.5.0", "3.5.12", "", "kine"] {
            assert!(!has_ordered_progress(version), "{version}");
        }
    }
}
