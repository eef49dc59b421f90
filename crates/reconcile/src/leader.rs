//! Leader election: one of several processes holds a lock and works; the others wait until it is released or expires.
//!
//! Times in the lock are for readers. A candidate takes a lock over once the record has not changed for the duration that
//! the record itself names, by the candidate's own clock; a leader gives up when it could not renew for the renew deadline.
//! Both are measured with a clock that never jumps, and no request may take longer than half the renew deadline, so that
//! neither a changed system time nor a server that hangs makes two leaders.

mod lock;

use std::time::Duration;

use corten_api::Value;
use corten_base::Clock;
use corten_client::{Client, Error, Key};
use tokio::task::JoinSet;

use crate::events::{Event, Recorder};
use lock::Record;

pub use lock::LockKind;

/// The factor by which the renew deadline must exceed the retry period, as upstream.
const JITTER_FACTOR: f64 = 1.2;
/// The time for the last event of a leader to be written.
const LAST_EVENT: Duration = Duration::from_secs(1);

/// The parameters of an election.
#[derive(Debug, Clone)]
pub struct Election {
    /// The kind of the lock object.
    pub lock: LockKind,
    /// The key of the lock object.
    pub key: Key,
    /// The identity of this candidate.
    pub identity: String,
    /// The component that the events of the election name.
    pub component: &'static str,
    pub lease: Duration,
    pub renew: Duration,
    pub retry: Duration,
}

/// Durations with which an election would be unsafe.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ElectionError {
    #[error("leaseDuration must be greater than renewDeadline")]
    Lease,
    #[error("renewDeadline must be greater than retryPeriod*JitterFactor")]
    Renew,
    #[error("retryPeriod must be greater than zero")]
    Retry,
}

impl Election {
    /// An election on a Lease, with upstream's durations.
    pub fn new(key: Key, identity: String, component: &'static str) -> Election {
        let seconds = Duration::from_secs;
        let (lease, renew, retry) = (seconds(15), seconds(10), seconds(2));
        Election { lock: LockKind::Leases, key, identity, component, lease, renew, retry }
    }

    /// Checks the durations, in upstream's order.
    pub fn validate(&self) -> Result<(), ElectionError> {
        if self.lease <= self.renew {
            return Err(ElectionError::Lease);
        }
        if self.renew <= self.retry.mul_f64(JITTER_FACTOR) {
            return Err(ElectionError::Renew);
        }
        if self.retry.is_zero() {
            return Err(ElectionError::Retry);
        }
        Ok(())
    }

    /// The longest time of one request.
    fn request_timeout(&self) -> Duration {
        (self.renew / 2).max(Duration::from_secs(1))
    }
}

/// The record that was last seen in the lock, and since when, by this process's clock.
struct Observed {
    record: Record,
    since: Duration,
}

/// One process in an election.
struct Candidate {
    client: Client,
    clock: Clock,
    election: Election,
    /// The lock object as it was last read or written.
    object: Value,
    observed: Option<Observed>,
}

/// The leadership of this process.
pub struct Leadership {
    candidate: Candidate,
    recorder: Recorder,
    /// The time of the last renewal.
    renewed: Duration,
    /// The recorder's task.
    _tasks: JoinSet<()>,
}

impl Leadership {
    /// Waits until this process is the leader.
    pub async fn acquire(client: Client, clock: Clock, election: Election) -> Leadership {
        let mut tasks = JoinSet::new();
        let recorder = Recorder::start(&client, clock.clone(), &mut tasks);
        let object = Value::Null;
        let mut candidate = Candidate { client, clock, election, object, observed: None };
        let renewed = loop {
            let started = candidate.clock.monotonic();
            match candidate.acquire_or_renew().await {
                Ok(true) => break started,
                Ok(false) => {}
                Err(error) => {
                    let (lock, err) = (&candidate.election.key, &error);
                    tracing::warn!(%lock, %err, "cannot acquire leader election lock; retrying");
                }
            }
            candidate.clock.sleep(candidate.election.retry).await;
        };
        let leadership = Leadership { candidate, recorder, renewed, _tasks: tasks };
        leadership.record("became leader");
        leadership
    }

    /// Renews the lock; returns when it is lost.
    pub async fn hold(&mut self) {
        let clock = self.candidate.clock.clone();
        loop {
            let deadline = self.renewed + self.candidate.election.renew;
            let left = deadline.saturating_sub(clock.monotonic());
            if left.is_zero() {
                return;
            }
            clock.sleep(self.candidate.election.retry.min(left)).await;
            let started = clock.monotonic();
            let left = deadline.saturating_sub(started);
            match clock.timeout(left, self.candidate.acquire_or_renew()).await {
                Some(Ok(true)) => self.renewed = started,
                Some(Ok(false)) => return,
                Some(Err(error)) => {
                    let (lock, err) = (&self.candidate.election.key, &error);
                    tracing::warn!(%lock, %err, "cannot renew leader election lock; retrying");
                }
                None => {}
            }
        }
    }

    /// Releases the lock, if this process still holds it, so that another one takes it over at once. The work must have
    /// stopped before.
    pub async fn release(mut self) {
        let (clock, limit) = (self.candidate.clock.clone(), self.candidate.election.renew);
        match clock.timeout(limit, self.candidate.release()).await {
            Some(Ok(())) => {}
            Some(Err(error)) => {
                let lock = &self.candidate.election.key;
                tracing::warn!(%lock, err = %error, "cannot release leader election lock; it expires");
            }
            None => {
                let lock = &self.candidate.election.key;
                tracing::warn!(%lock, "cannot release leader election lock in time; it expires");
            }
        }
        self.record("stopped leading");
        let recorder = self.recorder.clone();
        let written = async {
            while !recorder.is_idle() {
                clock.sleep(LAST_EVENT / 50).await;
            }
        };
        clock.timeout(LAST_EVENT, written).await;
    }

    fn record(&self, what: &str) {
        let Election { identity, component, .. } = &self.candidate.election;
        let message = format!("{identity} {what}");
        self.recorder.record(Event::normal(*component, &self.candidate.object, "LeaderElection", message));
    }
}

impl Candidate {
    /// True if this process holds the lock afterwards; false if another does.
    async fn acquire_or_renew(&mut self) -> Result<bool, Error> {
        if let Some(held) = self.held() {
            let record = self.election_record(Some(&held));
            match self.update(record).await {
                // Another client changed the object, or the outcome of the last write is unknown.
                Err(error) => tracing::debug!(err = %error, "cannot renew the lock as it was; reading it"),
                Ok(()) => return Ok(true),
            }
        }
        let (lock, key) = (self.election.lock, self.election.key.clone());
        let found = self.limited(self.client.get(lock.kind(), &key)).await;
        let object = match found {
            Err(error) if error.is_not_found() => {
                let record = self.election_record(None);
                let object = lock.write(lock.kind().new_object(&key.namespace, &key.name), &record);
                return match self.limited(self.client.create(lock.kind(), &object)).await {
                    Err(error) if error.already_exists() => Ok(false),
                    created => self.observe(created?).map(|_| true),
                };
            }
            found => found?,
        };
        let record = self.observe(object)?;
        let is_own = record.holder == self.election.identity;
        if !record.holder.is_empty() && !is_own && !self.has_expired() {
            return Ok(false);
        }
        let next = self.election_record(Some(&record));
        match self.update(next).await {
            // Another candidate was faster.
            Err(error) if error.is_conflict() && !is_own => Ok(false),
            updated => updated.map(|()| true),
        }
    }

    /// The record of this process, while it is valid.
    fn held(&self) -> Option<Record> {
        let record = &self.observed.as_ref()?.record;
        (record.holder == self.election.identity && !self.has_expired()).then(|| record.clone())
    }

    /// The record to write in place of `previous`.
    fn election_record(&self, previous: Option<&Record>) -> Record {
        let now = self.clock.now();
        let fresh = Record {
            holder: self.election.identity.clone(),
            lease_seconds: self.election.lease.as_secs() as i64,
            acquired: Some(now),
            renewed: Some(now),
            transitions: 0,
        };
        match previous {
            None => fresh,
            Some(own) if own.holder == fresh.holder => {
                Record { acquired: own.acquired, transitions: own.transitions, ..fresh }
            }
            Some(other) => Record { transitions: other.transitions.saturating_add(1), ..fresh },
        }
    }

    /// Writes the lock over the object that was last seen.
    async fn update(&mut self, record: Record) -> Result<(), Error> {
        let lock = self.election.lock;
        let object = lock.write(self.object.clone(), &record);
        let updated = self.limited(self.client.update(lock.kind(), &object, "")).await?;
        self.observe(updated).map(drop)
    }

    async fn release(&mut self) -> Result<(), Error> {
        let (lock, key) = (self.election.lock, self.election.key.clone());
        loop {
            let object = self.limited(self.client.get(lock.kind(), &key)).await?;
            let record = self.observe(object)?;
            if record.holder != self.election.identity {
                return Ok(());
            }
            let now = Some(self.clock.now());
            let holder = String::new();
            let free = Record { holder, lease_seconds: 1, acquired: now, renewed: now, ..record };
            match self.update(free).await {
                Err(error) if error.is_conflict() => {}
                updated => return updated,
            }
        }
    }

    /// Remembers the lock. The time of its record stays if it is unchanged.
    fn observe(&mut self, object: Value) -> Result<Record, Error> {
        let record = self.election.lock.read(&object).map_err(Error::transport)?;
        self.object = object;
        if self.observed.as_ref().is_none_or(|observed| observed.record != record) {
            self.observed = Some(Observed { record: record.clone(), since: self.clock.monotonic() });
        }
        Ok(record)
    }

    /// True if the record has not changed for as long as it is valid.
    fn has_expired(&self) -> bool {
        let Some(observed) = &self.observed else { return false };
        observed.since.saturating_add(observed.record.lease()) <= self.clock.monotonic()
    }

    async fn limited<T>(&self, request: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        let answer = self.clock.timeout(self.election.request_timeout(), request).await;
        answer.unwrap_or_else(|| Err(Error::transport("the server did not answer in time")))
    }
}

#[cfg(test)]
mod tests;
