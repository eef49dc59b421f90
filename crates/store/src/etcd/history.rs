//! Reads of the past, which etcd answers until it compacts them.

use std::sync::{Arc, atomic::Ordering};

use corten_etcd_api::{EventType, RangeRequest, RangeResponse, WatchCreateRequest, errors, methods};
use corten_grpc::Status;

use super::{
    Etcd,
    feed::{End, KeyWatch, PREPARE},
    number,
    progress::REQUEST_AGAIN,
    rpc::failure,
    unsigned,
};
use crate::{Entry, Error, Event, Range, Revision};

impl Etcd {
    pub(crate) async fn range_at(
        &self,
        prefix: &str,
        from: &str,
        limit: usize,
        at: Revision,
    ) -> Result<Range, Error> {
        self.check_open()?;
        self.live.check_not_compacted(at)?;
        self.live.check_not_future(at)?;
        {
            let state = self.live.state.read();
            if state.revision == at {
                return Ok(state.range(prefix, from, limit));
            }
        }
        // etcd takes 0 for the current revision; nothing was written before 1.
        if at == 0 {
            return Ok(Range { entries: Vec::new(), revision: at, remaining: 0 });
        }
        let (key, range_end) = self.keys.range(prefix, from);
        if key >= range_end {
            return Ok(Range { entries: Vec::new(), revision: at, remaining: 0 });
        }
        let limit = i64::try_from(limit).unwrap_or_default();
        let request = RangeRequest { key, range_end, limit, revision: number(at), ..RangeRequest::default() };
        let response: Result<RangeResponse, Status> = self.read(methods::RANGE, &request).await;
        let response = match response {
            Err(status) if errors::COMPACTED.matches(&status) => return Err(self.compacted_at(at).await),
            response => response.map_err(failure)?,
        };
        self.make_readable(&mut response.kvs.iter(), PREPARE).await;
        let remaining = unsigned(response.count).saturating_sub(response.kvs.len() as u64);
        let entries = response.kvs.iter().filter_map(|kv| self.known_entry(kv)).collect();
        Ok(Range { entries, revision: at, remaining })
    }

    /// The error of a read at a compacted revision.
    async fn compacted_at(&self, requested: Revision) -> Error {
        if let Some(compacted) = self.find_compacted().await {
            self.live.compacted.fetch_max(compacted, Ordering::AcqRel);
        }
        // Without its number, it is at least known to be later.
        let compacted = self.live.compacted().max(requested + 1);
        Error::Compacted { requested, compacted }
    }

    pub(crate) async fn events_since(
        &self,
        prefix: &str,
        after: Revision,
        up_to: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, Error> {
        self.check_open()?;
        self.live.check_not_compacted(after)?;
        let up_to = up_to.min(self.live.revision());
        if up_to <= after {
            return Ok(Vec::new());
        }
        let limit = if limit == 0 { usize::MAX } else { limit };
        let read = self.read_events(prefix, after, up_to, limit);
        match tokio::time::timeout(self.timeout, read).await {
            Ok(Ok(events)) => Ok(events),
            Ok(Err(End::Compacted(compacted))) => {
                self.live.compacted.fetch_max(compacted, Ordering::AcqRel);
                Err(Error::Compacted { requested: after, compacted })
            }
            Ok(Err(End::Lost(status))) => Err(failure(status)),
            Err(_) => Err(failure(Status::deadline_exceeded())),
        }
    }

    /// A watch from the past, up to a revision that it certainly passes: of a later event, or of a report of progress.
    async fn read_events(
        &self,
        prefix: &str,
        after: Revision,
        up_to: Revision,
        limit: usize,
    ) -> Result<Vec<Arc<Event>>, End> {
        let reports_progress = self.has_ordered_progress.load(Ordering::Acquire);
        // The barrier ends a watch of all keys only.
        let (key, range_end) =
            if reports_progress { self.keys.range(prefix, "") } else { self.keys.watched() };
        let create = WatchCreateRequest {
            key,
            range_end,
            start_revision: number(after) + 1,
            prev_kv: true,
            fragment: true,
            ..WatchCreateRequest::default()
        };
        let mut watch = KeyWatch::start(self, create).await?;
        if reports_progress {
            watch.request_progress().await?;
        } else {
            let written = self.write_barrier().await;
            written.map_err(|error| Status::unavailable(error.to_string()))?;
        }
        let mut events: Vec<Arc<Event>> = Vec::new();
        loop {
            let batch = tokio::select! {
                batch = watch.next() => batch?,
                () = tokio::time::sleep(REQUEST_AGAIN), if reports_progress => {
                    // etcd sends no report while the watch is behind.
                    watch.request_progress().await?;
                    continue;
                }
            };
            let readable = {
                let values = batch.events.iter();
                let mut values = values.flat_map(|event| event.kv.iter().chain(&event.prev_kv));
                self.make_readable(&mut values, PREPARE)
            };
            readable.await;
            for event in &batch.events {
                let Some(kv) = &event.kv else { continue };
                let revision = unsigned(kv.mod_revision);
                let last = events.last().map_or(0, |last| last.revision);
                if revision > up_to || (events.len() >= limit && revision != last) {
                    return Ok(events);
                }
                let Some(key) = self.keys.of_etcd(&kv.key).filter(|key| key.starts_with(prefix)) else {
                    continue;
                };
                let previous = event.prev_kv.as_ref().and_then(|kv| self.known_entry(kv));
                let current = if event.kind == EventType::Put { self.known_entry(kv) } else { None };
                let entry: Option<&Arc<Entry>> = current.as_ref().or(previous.as_ref());
                let key = entry.map_or_else(|| key.into(), |entry| Arc::clone(&entry.key));
                events.push(Arc::new(Event { revision, key, current, previous }));
            }
            if batch.reached.is_some_and(|reached| reached >= up_to) {
                return Ok(events);
            }
        }
    }
}
