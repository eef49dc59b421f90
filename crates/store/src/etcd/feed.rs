//! Keeps the state current: loads it at one revision, then publishes the events of one watch.
//!
//! A watch that was lost continues from the last published revision. If that is compacted, all keys are listed again and the
//! differences are published as events: a change at the revision that it has, a deletion at the revision of the list, because
//! its own is unknown.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use corten_etcd_api::{
    EventType, KeyValue, RangeRequest, RangeResponse, SortTarget, StatusRequest, StatusResponse,
    WatchCreateRequest, WatchProgressRequest, WatchRequest, WatchResponse, methods,
};
use corten_grpc::{Code, Receiver, Sender, Status};

use super::{
    Etcd, number,
    progress::{REQUEST_AGAIN, has_ordered_progress},
    rpc::{Backoff, call_options, failure},
    translation::Unreadable,
    unsigned,
};
use crate::{Entry, Error, Event, LeaseId, Revision, live::Live, state::State};

/// The keys that are listed in one request.
const PAGE: i64 = 500;
/// The time for which values are prepared: of a list, and of a watch, which all readers and writers wait for. A value that is
/// not prepared by then is unreadable, until it can be read again.
pub(super) const PREPARE: Duration = Duration::from_secs(10);
const PREPARE_EVENTS: Duration = Duration::from_millis(100);

/// The end of a watch.
pub(super) enum End {
    /// The connection or its member is gone.
    Lost(Status),
    /// The next revision is compacted, up to this one.
    Compacted(Revision),
}

impl From<Status> for End {
    fn from(status: Status) -> End {
        End::Lost(status)
    }
}

/// One watch of a range of keys.
pub(super) struct KeyWatch {
    sender: Sender<WatchRequest>,
    receiver: Receiver<WatchResponse>,
    /// The events of a response that is not complete.
    events: Vec<corten_etcd_api::Event>,
}

/// A complete response to a watch.
pub(super) struct Batch {
    pub(super) events: Vec<corten_etcd_api::Event>,
    /// If there are no events: all events up to this revision have been delivered.
    pub(super) reached: Option<Revision>,
}

impl KeyWatch {
    pub(super) async fn start(etcd: &Etcd, create: WatchCreateRequest) -> Result<KeyWatch, End> {
        let (sender, receiver) = etcd.channel.streaming(methods::WATCH, call_options(None));
        sender.send(&WatchRequest::Create(Box::new(create))).await?;
        Ok(KeyWatch { sender, receiver, events: Vec::new() })
    }

    /// The next complete response. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Batch, End> {
        loop {
            let response =
                self.receiver.next().await?.ok_or_else(|| Status::unavailable("etcd ended the watch"))?;
            if response.canceled {
                return Err(match unsigned(response.compact_revision) {
                    0 => End::Lost(Status::unavailable(response.cancel_reason)),
                    compacted => End::Compacted(compacted),
                });
            }
            if response.created {
                continue;
            }
            self.events.extend(response.events);
            if response.fragment {
                continue;
            }
            let events = std::mem::take(&mut self.events);
            let header = response.header.map(|header| unsigned(header.revision));
            return Ok(Batch { reached: header.filter(|_| events.is_empty()), events });
        }
    }

    /// Requests a response without events once all events are delivered.
    pub(super) async fn request_progress(&mut self) -> Result<(), End> {
        Ok(self.sender.send(&WatchRequest::Progress(WatchProgressRequest {})).await?)
    }
}

impl Etcd {
    /// The state of etcd at one revision.
    pub(super) async fn load(&self) -> Result<Live, Error> {
        let mut backoff = Backoff::default();
        loop {
            let listed = async {
                self.learn_version().await?;
                self.list().await
            };
            match listed.await {
                Ok((keys, revision)) => {
                    self.make_readable(&mut keys.iter(), PREPARE).await;
                    let mut state = State::default();
                    for kv in &keys {
                        if let Some(entry) = self.entry(kv, None) {
                            state.restore(entry);
                        }
                    }
                    state.revision = revision;
                    let compacted = self.find_compacted().await.unwrap_or_default();
                    return Ok(Live::new(state, compacted));
                }
                Err(status) if matches!(status.code, Code::Unavailable | Code::DeadlineExceeded) => {
                    tracing::warn!(err = %status, "cannot list keys of etcd; retrying");
                    backoff.wait().await;
                }
                Err(status) => return Err(failure(status)),
            }
        }
    }

    /// Reads the version of the member that is connected.
    async fn learn_version(&self) -> Result<(), Status> {
        let status: StatusResponse = self.read(methods::STATUS, &StatusRequest {}).await?;
        self.has_ordered_progress.store(has_ordered_progress(&status.version), Ordering::Release);
        Ok(())
    }

    /// All keys at one revision.
    async fn list(&self) -> Result<(Vec<KeyValue>, Revision), Status> {
        let (mut key, range_end) = self.keys.range(self.keys.root(), "");
        let mut all: Vec<KeyValue> = Vec::new();
        let mut at = 0;
        loop {
            let request = RangeRequest {
                key,
                range_end: range_end.clone(),
                limit: PAGE,
                revision: at,
                sort_target: SortTarget::Key,
                ..RangeRequest::default()
            };
            let response: RangeResponse = self.read(methods::RANGE, &request).await?;
            if at == 0 {
                at = response.header.as_ref().map_or(0, |header| header.revision);
            }
            let last = response.kvs.last().map(|kv| kv.key.clone());
            all.extend(response.kvs);
            match last.filter(|_| response.more) {
                Some(last) => key = [&last[..], b"\0"].concat().into(),
                None => return Ok((all, unsigned(at))),
            }
        }
    }

    /// The compacted revision, which etcd only tells a watch that wants older events.
    pub(super) async fn find_compacted(&self) -> Option<Revision> {
        if self.is_read_only && !self.has_ordered_progress.load(Ordering::Acquire) {
            return None;
        }
        let create = WatchCreateRequest {
            key: self.keys.barrier(),
            start_revision: 1,
            ..WatchCreateRequest::default()
        };
        let mut watch = KeyWatch::start(self, create).await.ok()?;
        let first = tokio::time::timeout(self.timeout, async {
            if !self.has_ordered_progress.load(Ordering::Acquire) {
                self.write_barrier().await.map_err(|error| Status::internal(error.to_string()))?;
                return watch.next().await;
            }
            loop {
                watch.request_progress().await?;
                // etcd drops a request while the watch is behind, as it is at first.
                if let Ok(response) = tokio::time::timeout(REQUEST_AGAIN, watch.next()).await {
                    return response;
                }
            }
        });
        match first.await {
            Ok(Err(End::Compacted(revision))) => Some(revision),
            _ => None,
        }
    }

    /// Publishes events until the store is closed.
    pub(super) async fn follow(self: Arc<Self>) {
        let _end = Ended(&self);
        let mut backoff = Backoff::default();
        loop {
            let before = self.live.revision();
            match self.follow_watch().await {
                End::Lost(status) => {
                    tracing::warn!(err = %status, "lost watch of etcd; watching again");
                    self.channel.fail_over().await;
                }
                End::Compacted(compacted) => {
                    tracing::warn!(compacted, "etcd compacted events that were not seen; listing all keys");
                    self.live.compacted.fetch_max(compacted, Ordering::AcqRel);
                    if let Err(status) = self.list_again().await {
                        tracing::warn!(err = %status, "cannot list keys of etcd; retrying");
                    }
                }
            }
            if self.live.revision() > before {
                backoff = Backoff::default();
            }
            backoff.wait().await;
        }
    }

    /// Watches from the state's revision on, until the watch ends.
    async fn follow_watch(&self) -> End {
        match self.try_follow_watch().await {
            Ok(never) => match never {},
            Err(end) => end,
        }
    }

    async fn try_follow_watch(&self) -> Result<std::convert::Infallible, End> {
        // A watch of an etcd that was restored would wait silently for revisions that it had before.
        let newest = self.newest_revision().await;
        newest.map_err(|error| Status::unavailable(error.to_string()))?;
        self.learn_version().await?;
        let (key, range_end) = self.keys.watched();
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: number(self.live.revision()) + 1,
            progress_notify: true,
            fragment: true,
            ..WatchCreateRequest::default()
        };
        let mut watch = KeyWatch::start(self, create).await?;
        loop {
            tokio::select! {
                batch = watch.next() => {
                    let batch = batch?;
                    let readable = {
                        let mut values = batch.events.iter().filter_map(|event| event.kv.as_ref());
                        self.make_readable(&mut values, PREPARE_EVENTS)
                    };
                    readable.await;
                    self.publish(&batch);
                }
                () = self.wants_progress.notified() => watch.request_progress().await?,
            }
        }
    }

    fn publish(&self, batch: &Batch) {
        let Some(last) = batch.events.last().and_then(|event| event.kv.as_ref()) else {
            self.live.advance(batch.reached.unwrap_or_default());
            return;
        };
        let mut changed: HashMap<Arc<str>, Option<Arc<Entry>>> = HashMap::new();
        let mut events = Vec::with_capacity(batch.events.len());
        {
            let state = self.live.state.read();
            for (kind, kv) in batch.events.iter().filter_map(|event| Some((event.kind, event.kv.as_ref()?))) {
                let Some(key) = self.keys.of_etcd(&kv.key) else { continue };
                let previous = match changed.get(&*key) {
                    Some(previous) => previous.clone(),
                    None => state.get(&key).cloned(),
                };
                let is_put = kind == EventType::Put;
                let current = if is_put { self.entry(kv, previous.as_ref()) } else { None };
                if let Some(event) = event(unsigned(kv.mod_revision), current, previous) {
                    changed.insert(Arc::clone(&event.key), event.current.clone());
                    events.push(event);
                }
            }
        }
        self.live.publish(events.iter());
        // The barrier has no event of its own.
        self.live.advance(unsigned(last.mod_revision));
    }

    /// Lists all keys and publishes what changed since the state's revision.
    async fn list_again(&self) -> Result<(), Status> {
        let (keys, revision) = self.list().await?;
        self.make_readable(&mut keys.iter(), PREPARE).await;
        let events = {
            let state = self.live.state.read();
            let listed = keys.iter().filter_map(|kv| {
                let key = self.keys.of_etcd(&kv.key)?;
                let known = state.get(&key);
                match known.filter(|known| known.mod_revision == unsigned(kv.mod_revision)) {
                    Some(unchanged) => Some(Arc::clone(unchanged)),
                    None => self.entry(kv, known),
                }
            });
            differences(&state, listed, revision)
        };
        self.live.publish(events.iter());
        self.live.advance(revision);
        Ok(())
    }

    /// Prepares to load values, for a limited time.
    pub(super) fn make_readable<'v>(
        &self,
        values: &mut (dyn Iterator<Item = &'v KeyValue> + 'v),
        limit: Duration,
    ) -> impl Future<Output = ()> + Send + use<> {
        let mut keyed = values.filter_map(|kv| Some((self.keys.of_etcd(&kv.key)?.to_string(), &kv.value)));
        let preparation = self.translation.prepare(&mut keyed);
        async move {
            if let Some(preparation) = preparation {
                // What is not prepared in time is unreadable, which is logged where it is read.
                let _ = tokio::time::timeout(limit, preparation).await;
            }
        }
    }

    /// The entry of a key's version. All versions of a key share its first allocation.
    pub(super) fn entry(&self, kv: &KeyValue, previous: Option<&Arc<Entry>>) -> Option<Arc<Entry>> {
        let key = self.keys.of_etcd(&kv.key)?;
        let key = previous.map_or_else(|| key.into(), |entry| Arc::clone(&entry.key));
        let mod_revision = unsigned(kv.mod_revision);
        let own = self.pending.value(&key, &kv.value);
        let mut note = own.as_ref().and_then(|value| value.note.clone());
        let value = match own {
            Some(value) => value.at(mod_revision),
            None => self.translation.load(&key, &kv.value, mod_revision).unwrap_or_else(|err| {
                tracing::error!(%key, err, "cannot read value of etcd; reads that need it fail");
                note = Some(Arc::new(Unreadable { reason: err, stored: kv.value.clone() }));
                Bytes::new()
            }),
        };
        let entry = Arc::new(Entry {
            key,
            value,
            create_revision: unsigned(kv.create_revision),
            mod_revision,
            version: unsigned(kv.version),
            lease: (kv.lease != 0).then_some(LeaseId(unsigned(kv.lease))),
            note,
        });
        self.pending.show(&entry, &kv.value);
        Some(entry)
    }

    /// Reads the value of an entry again that could not be read: with another key, perhaps.
    pub(crate) fn read_again(&self, entry: &Entry) -> Option<Arc<Entry>> {
        let stored = &entry.unreadable()?.stored;
        let value = self.translation.load(&entry.key, stored, entry.mod_revision).ok()?;
        Some(Arc::new(Entry { value, note: None, ..entry.clone() }))
    }

    /// True if the stored form of a key's value is not the one that a write would give it.
    pub(crate) async fn is_stale(&self, key: &str) -> Result<bool, Error> {
        self.check_open()?;
        let request = RangeRequest { key: self.keys.to_etcd(key), ..RangeRequest::default() };
        let response: RangeResponse = self.read(methods::RANGE, &request).await.map_err(failure)?;
        Ok(response.kvs.first().is_some_and(|kv| self.translation.is_stale(key, &kv.value)))
    }
}

/// Closes the store when the state is not kept current any more, even by an observer's panic, so that no caller waits for
/// ever.
struct Ended<'a>(&'a Etcd);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.shut_down();
    }
}

/// The event of a change; `None` for the deletion of an absent key.
fn event(
    revision: Revision,
    current: Option<Arc<Entry>>,
    previous: Option<Arc<Entry>>,
) -> Option<Arc<Event>> {
    let key = Arc::clone(&current.as_ref().or(previous.as_ref())?.key);
    Some(Arc::new(Event { revision, key, current, previous }))
}

/// The events from a state to listed entries. A key that was deleted and created again has both events.
fn differences(
    state: &State,
    listed: impl Iterator<Item = Arc<Entry>>,
    revision: Revision,
) -> Vec<Arc<Event>> {
    let mut gone: BTreeMap<&str, &Arc<Entry>> = state.all().map(|entry| (&*entry.key, entry)).collect();
    let mut events = Vec::new();
    for entry in listed {
        let previous = gone.remove(&*entry.key).cloned();
        let known = previous.as_ref().map_or(0, |previous| previous.mod_revision);
        if known == entry.mod_revision {
            continue;
        }
        let (mod_revision, create_revision) = (entry.mod_revision, entry.create_revision);
        if known != 0 && create_revision > known {
            events.extend(event(create_revision - 1, None, previous));
            events.extend(event(mod_revision, Some(entry), None));
        } else {
            events.extend(event(mod_revision, Some(entry), previous));
        }
    }
    events.extend(gone.into_values().filter_map(|entry| event(revision, None, Some(Arc::clone(entry)))));
    events.sort_by_key(|event| event.revision);
    events
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(key: &str, create_revision: Revision, mod_revision: Revision) -> Arc<Entry> {
        Arc::new(Entry {
            key: key.into(),
            value: Default::default(),
            create_revision,
            mod_revision,
            version: 1,
            lease: None,
            note: None,
        })
    }

    #[test]
    fn a_new_list_becomes_events() {
        let mut state = State::default();
        for old in
            [entry("changed", 1, 2), entry("gone", 1, 1), entry("new again", 3, 3), entry("same", 4, 4)]
        {
            state.restore(old);
        }
        let listed =
            [entry("changed", 1, 9), entry("created", 7, 8), entry("new again", 7, 10), entry("same", 4, 4)];
        let events = differences(&state, listed.into_iter(), 12);
        let shown: Vec<String> = events
            .iter()
            .map(|event| {
                let side = |entry: &Option<Arc<Entry>>| entry.as_ref().map_or(0, |entry| entry.mod_revision);
                format!(
                    "{} {}: {} -> {}",
                    event.revision,
                    event.key,
                    side(&event.previous),
                    side(&event.current)
                )
            })
            .collect();
        assert_eq!(
            shown,
            [
                "6 new again: 3 -> 0",
                "8 created: 0 -> 8",
                "9 changed: 2 -> 9",
                "10 new again: 0 -> 10",
                "12 gone: 1 -> 0",
            ]
        );
    }
}
