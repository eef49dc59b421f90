//! The service Watch: streams of watches.
//!
//! A stream has one cursor: it reads the events after it, a page at a time, and hands each to the watches that want it. A
//! watch that begins earlier moves the cursor back; each watch knows the next revision it wants, so no event is sent twice.
//! While the client does not read, the cursor stands still, and the stream holds one page.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use corten_etcd_api::*;
use corten_grpc::protobuf::Message;
use corten_grpc::{Receiver, Sender, Status};
use corten_store::{End, Error, Event as StoreEvent, Keys, Revision};

use crate::convert;
use crate::keys::keys;
use crate::recent::Page;
use crate::service::Etcd;

/// The id in responses that are about no watch, or all of them.
const NO_WATCH: i64 = -1;
/// The events that are read from history at a time. Each holds two values from disk, which may be large.
const HISTORY_EVENTS: usize = 32;
/// The limit of watches on one stream.
const MAX_WATCHES: usize = 1 << 20;
const DUPLICATE_ID: &str = "mvcc: duplicate watch ID provided on the WatchStream";
const EMPTY_RANGE: &str = "mvcc: watcher range is empty";

struct Stream {
    etcd: Arc<Etcd>,
    sender: Sender<WatchResponse>,
    watches: HashMap<i64, Watch>,
    /// Watches of one key, by key.
    by_key: HashMap<Arc<str>, Vec<i64>>,
    /// The other watches.
    ranges: Vec<i64>,
    /// All watches have their events up to this revision.
    cursor: Revision,
    next_id: i64,
    /// True if the client asked for the stream's progress.
    progress_requested: bool,
}

struct Watch {
    keys: Keys,
    /// The next revision that it wants.
    next: Revision,
    puts: bool,
    deletions: bool,
    prev_kv: bool,
    fragment: bool,
    progress_notify: bool,
    /// True if it got no event since the last progress notification.
    silent: bool,
}

impl Etcd {
    pub(crate) async fn watch(
        self: Arc<Etcd>,
        mut requests: Receiver<WatchRequest>,
        sender: Sender<WatchResponse>,
    ) -> Result<(), Status> {
        let mut published = self.store.progress();
        let mut notify =
            tokio::time::interval(self.options.progress_notify_interval.max(Duration::from_millis(100)));
        notify.reset();
        let mut stream = Stream {
            cursor: self.recent.revision(),
            etcd: self,
            sender,
            watches: HashMap::new(),
            by_key: HashMap::new(),
            ranges: Vec::new(),
            next_id: 0,
            progress_requested: false,
        };
        loop {
            let behind = stream.is_behind();
            tokio::select! {
                biased;
                request = requests.next() => match request? {
                    Some(request) => stream.request(request).await?,
                    None => return Ok(()),
                },
                _ = notify.tick() => stream.notify_progress().await?,
                () = std::future::ready(()), if behind => stream.deliver().await?,
                changed = published.changed(), if !behind => {
                    if changed.is_err() {
                        return Err(errors::STOPPED.into());
                    }
                }
            }
        }
    }
}

impl Stream {
    /// True if there are events, or an answer about progress, to send.
    fn is_behind(&self) -> bool {
        self.cursor < self.etcd.recent.revision() || self.progress_requested
    }

    async fn request(&mut self, request: WatchRequest) -> Result<(), Status> {
        match request {
            WatchRequest::Create(request) => self.create(*request).await,
            WatchRequest::Cancel(WatchCancelRequest { watch_id }) => self.cancel(watch_id).await,
            WatchRequest::Progress(_) => {
                self.progress_requested = true;
                Ok(())
            }
            // Requests of newer versions are ignored, as etcd does.
            WatchRequest::None => Ok(()),
        }
    }

    fn response(&self, watch_id: i64) -> WatchResponse {
        WatchResponse { header: Some(self.etcd.header()), watch_id, ..WatchResponse::default() }
    }

    async fn create(&mut self, request: WatchCreateRequest) -> Result<(), Status> {
        let key: &[u8] = if request.key.is_empty() { &[0] } else { &request.key };
        let keys = keys(key, &request.range_end);
        let refusal = if request.start_revision < 0 {
            Some(errors::COMPACTED.message)
        } else if matches!(&keys.end, End::Before(end) if *end <= keys.start) {
            Some(EMPTY_RANGE)
        } else if request.watch_id != 0 && self.watches.contains_key(&request.watch_id) {
            Some(DUPLICATE_ID)
        } else if self.watches.len() >= MAX_WATCHES {
            Some(errors::TOO_MANY_REQUESTS.message)
        } else {
            None
        };
        if let Some(reason) = refusal {
            let refused = WatchResponse {
                created: true,
                canceled: true,
                cancel_reason: reason.to_owned(),
                ..self.response(NO_WATCH)
            };
            return self.sender.send(&refused).await;
        }
        let id = self.choose_id(request.watch_id);
        let created = WatchResponse { created: true, ..self.response(id) };
        let current = created.header.as_ref().map_or(0, |header| header.revision as Revision);
        let start = request.start_revision as Revision;
        let next = if start == 0 { current + 1 } else { start };
        let compacted = self.etcd.store.compacted();
        if next < compacted {
            self.sender.send(&created).await?;
            let canceled = self.compacted(id, compacted);
            return self.sender.send(&canceled).await;
        }
        if self.watches.is_empty() {
            // Nothing before concerns a watch.
            self.cursor = self.etcd.recent.revision();
        }
        self.cursor = self.cursor.min(next - 1);
        match keys.end {
            End::Same => self.by_key.entry(Arc::clone(&keys.start)).or_default().push(id),
            End::Before(_) | End::Unbounded => self.ranges.push(id),
        }
        let watch = Watch {
            keys,
            next,
            puts: !request.filters.contains(&FILTER_NO_PUT),
            deletions: !request.filters.contains(&FILTER_NO_DELETE),
            prev_kv: request.prev_kv,
            fragment: request.fragment,
            progress_notify: request.progress_notify,
            silent: true,
        };
        self.watches.insert(id, watch);
        self.sender.send(&created).await
    }

    fn choose_id(&mut self, requested: i64) -> i64 {
        if requested != 0 {
            return requested;
        }
        while self.watches.contains_key(&self.next_id) {
            self.next_id += 1;
        }
        self.next_id += 1;
        self.next_id - 1
    }

    async fn cancel(&mut self, id: i64) -> Result<(), Status> {
        if !self.remove(id) {
            return Ok(());
        }
        let canceled = WatchResponse { canceled: true, ..self.response(id) };
        self.sender.send(&canceled).await
    }

    fn remove(&mut self, id: i64) -> bool {
        let Some(watch) = self.watches.remove(&id) else { return false };
        match watch.keys.end {
            End::Same => {
                if let Some(ids) = self.by_key.get_mut(&watch.keys.start) {
                    ids.retain(|other| *other != id);
                    if ids.is_empty() {
                        self.by_key.remove(&watch.keys.start);
                    }
                }
            }
            End::Before(_) | End::Unbounded => self.ranges.retain(|other| *other != id),
        }
        true
    }

    /// Tells watches that got no event for a while how far they are.
    async fn notify_progress(&mut self) -> Result<(), Status> {
        if self.is_behind() {
            return Ok(());
        }
        let mut silent = Vec::new();
        for (id, watch) in self.watches.iter_mut().filter(|(_, watch)| watch.progress_notify) {
            if std::mem::replace(&mut watch.silent, true) && watch.next <= self.cursor + 1 {
                silent.push(*id);
            }
        }
        silent.sort_unstable();
        for id in silent {
            let notice =
                WatchResponse { header: Some(self.header()), watch_id: id, ..WatchResponse::default() };
            self.sender.send(&notice).await?;
        }
        Ok(())
    }

    /// The header of a response about everything up to the cursor.
    fn header(&self) -> ResponseHeader {
        self.etcd.identity.header(self.cursor)
    }

    /// Sends the next page of events.
    async fn deliver(&mut self) -> Result<(), Status> {
        if self.watches.is_empty() {
            self.cursor = self.etcd.recent.revision();
        }
        if self.cursor < self.etcd.recent.revision() {
            match self.next_page().await {
                Ok(page) => self.send_page(page).await?,
                Err(Error::Compacted { compacted, .. }) => self.skip_compacted(compacted).await?,
                Err(error) => return Err(convert::status(error)),
            }
        }
        if self.progress_requested && self.cursor >= self.etcd.recent.revision() {
            self.progress_requested = false;
            let progress =
                WatchResponse { header: Some(self.header()), watch_id: NO_WATCH, ..WatchResponse::default() };
            self.sender.send(&progress).await?;
        }
        Ok(())
    }

    async fn next_page(&self) -> Result<Page, Error> {
        if let Some(page) = self.etcd.recent.after(self.cursor) {
            return Ok(page);
        }
        let up_to = self.etcd.recent.revision();
        let events = self.etcd.store.events_since("", self.cursor, up_to, HISTORY_EVENTS).await?;
        let last = events.last().map(|event| event.revision);
        let up_to = last.filter(|_| events.len() >= HISTORY_EVENTS).unwrap_or(up_to);
        Ok(Page { events, up_to })
    }

    async fn send_page(&mut self, page: Page) -> Result<(), Status> {
        let changed: HashSet<&Arc<str>> = page.events.iter().map(|event| &event.key).collect();
        let of_keys = changed.into_iter().filter_map(|key| self.by_key.get(key)).flatten();
        let concerned: BTreeSet<i64> = of_keys.chain(&self.ranges).copied().collect();
        self.cursor = page.up_to;
        // One watch at a time: many that overlap would hold the page as many times.
        for id in concerned {
            let Some(watch) = self.watches.get_mut(&id) else { continue };
            let wanted = page.events.iter().filter(|event| watch.wants(event));
            let events: Vec<Event> = wanted.map(|event| convert::event(event, watch.prev_kv)).collect();
            watch.next = watch.next.max(page.up_to + 1);
            if !events.is_empty() {
                self.send_events(id, events).await?;
            }
        }
        // The others have seen that there is nothing for them.
        for watch in self.watches.values_mut() {
            watch.next = watch.next.max(page.up_to + 1);
        }
        Ok(())
    }

    /// Sends events of a watch, in parts if it allows that and they are large.
    async fn send_events(&mut self, id: i64, events: Vec<Event>) -> Result<(), Status> {
        let response =
            WatchResponse { header: Some(self.header()), watch_id: id, events, ..WatchResponse::default() };
        let Some(watch) = self.watches.get_mut(&id) else { return Ok(()) };
        watch.silent = false;
        if !watch.fragment {
            return self.sender.send(&response).await;
        }
        for part in fragments(response, self.etcd.options.max_request_bytes) {
            self.sender.send(&part).await?;
        }
        Ok(())
    }

    fn compacted(&self, id: i64, compacted: Revision) -> WatchResponse {
        WatchResponse { canceled: true, compact_revision: compacted as i64, ..self.response(id) }
    }

    /// Cancels watches whose events are compacted, and goes on after the compacted revision.
    async fn skip_compacted(&mut self, compacted: Revision) -> Result<(), Status> {
        let lost = self.watches.iter().filter(|(_, watch)| watch.next < compacted).map(|(id, _)| *id);
        for id in lost.collect::<Vec<_>>() {
            self.remove(id);
            let canceled = self.compacted(id, compacted);
            self.sender.send(&canceled).await?;
        }
        // The compacted revision itself is gone as a change, but its puts are still known.
        let at: Vec<i64> =
            self.watches.iter().filter(|(_, watch)| watch.next == compacted).map(|(id, _)| *id).collect();
        self.cursor = compacted;
        for id in at {
            let Some(watch) = self.watches.get_mut(&id) else { continue };
            watch.next = compacted + 1;
            let (keys, puts) = (watch.keys.clone(), watch.puts);
            let range = match self.etcd.store.scan_at(&keys, 0, compacted).await {
                Ok(range) => range,
                // Compacted further meanwhile: the next page finds out.
                Err(Error::Compacted { .. }) => continue,
                Err(error) => return Err(convert::status(error)),
            };
            let new = range.entries.iter().filter(|entry| puts && entry.mod_revision == compacted);
            let events: Vec<Event> = new
                .map(|entry| Event {
                    kind: EventType::Put,
                    kv: Some(convert::key_value(entry)),
                    prev_kv: None,
                })
                .collect();
            if !events.is_empty() {
                self.send_events(id, events).await?;
            }
        }
        Ok(())
    }
}

impl Watch {
    fn wants(&self, event: &StoreEvent) -> bool {
        let kind = if event.current.is_some() { self.puts } else { self.deletions };
        kind && event.revision >= self.next && self.keys.contains(&event.key)
    }
}

/// Splits a response so that each part is smaller than `max`, or has one event.
fn fragments(response: WatchResponse, max: usize) -> Vec<WatchResponse> {
    let sizes: Vec<usize> = response.events.iter().map(|event| event.encode().len() + 8).collect();
    let mut parts: Vec<WatchResponse> = Vec::new();
    let mut bytes = 0;
    let empty = WatchResponse { events: Vec::new(), ..response.clone() };
    for (event, size) in response.events.into_iter().zip(sizes) {
        if parts.is_empty() || bytes + size >= max {
            parts.push(WatchResponse { fragment: true, ..empty.clone() });
            bytes = 0;
        }
        bytes += size;
        if let Some(part) = parts.last_mut() {
            part.events.push(event);
        }
    }
    if let Some(last) = parts.last_mut() {
        last.fragment = false;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_responses_are_split_by_events() {
        let event = |length: usize| {
            let kv = KeyValue { value: vec![0; length].into(), ..KeyValue::default() };
            Event { kind: EventType::Put, kv: Some(kv), prev_kv: None }
        };
        let lengths = |lengths: &[usize]| -> Vec<(usize, bool)> {
            let events = lengths.iter().map(|length| event(*length)).collect();
            let response = WatchResponse { watch_id: 3, events, ..WatchResponse::default() };
            let parts = fragments(response, 1000);
            assert!(parts.iter().all(|part| part.watch_id == 3));
            parts.iter().map(|part| (part.events.len(), part.fragment)).collect()
        };
        assert_eq!(lengths(&[10, 10]), [(2, false)]);
        assert_eq!(lengths(&[600, 600, 100]), [(1, true), (2, false)]);
        assert_eq!(lengths(&[5000, 5000]), [(1, true), (1, false)]);
    }
}
