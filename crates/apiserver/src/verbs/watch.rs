//! `watch`: a stream of changes from a revision on.
//!
//! The events come from a [`Watcher`]. All watches of the stored form in JSON send the same bytes.

use std::collections::VecDeque;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::status::ErrorList;
use corten_api::{Map, Status, Value, json, protobuf};
use tokio::sync::watch;
use tokio::time::Instant;

use super::write::store_failure;
use super::{list, node_view};
use crate::body::{FRAME, ResponseBody};
use crate::cache::{Cache, Change, Event, frame};
use crate::call::{Backend, Call};
use crate::catalog::{Served, Type};
use crate::crd;
use crate::filter::Filter;
use crate::negotiate::{self, Format, View, Wanted};
use crate::object::Object;
use crate::respond::{self, Answer, IncludeObject, TableQuery};
use crate::watcher::Watcher;

/// The most objects that are converted for one frame.
const CONVERTED_AT_ONCE: usize = 100;
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Longer than any server runs; a later deadline would overflow the clock.
const MAX_TIMEOUT: Duration = Duration::from_secs(100 * 365 * 24 * 3600);

/// The watch options of a request.
struct Options {
    start: Start,
    bookmarks: bool,
    timeout: Duration,
}

enum Start {
    /// The current state as synthetic ADDED events, then changes; `marked` adds the bookmark that ends them.
    State { marked: bool },
    /// Changes after a revision.
    After(u64),
    /// An error event and the end.
    Refused(Status),
}

pub(crate) async fn watch(call: &Call, shutdown: watch::Receiver<bool>) -> Result<Answer, Status> {
    let wanted = negotiate::wanted_watch(&call.headers, call.forms())?;
    let cache = list::cache(call)?.clone();
    if list::wants_newest(call.query.text("resourceVersion"), &cache) {
        call.backend.store.catch_up().await.map_err(store_failure)?;
    }
    cache.catch_up().await;
    cache.check_complete()?;
    let filter = list::filter(call)?;
    let options = options(call, &cache)?;
    let encoder = Encoder {
        seen_through: node_view::of(call, &filter),
        served: call.served.clone(),
        wanted,
        table: call.table_query()?,
    };
    let stored_filter = list::before_conversion(&call.served, &filter);
    let mut stream = WatchStream {
        backend: call.backend.clone(),
        selected: stored_filter.is_some().then(|| Arc::new(filter.clone())),
        watcher: Watcher::new(cache, stored_filter.unwrap_or(filter), shutdown),
        encoder,
        initial: VecDeque::new(),
        bookmark: None,
        bookmarks: options.bookmarks,
        next_bookmark: Instant::now() + BOOKMARK_EVERY,
        deadline: Instant::now() + options.timeout,
        refused: None,
        done: false,
    };
    match options.start {
        Start::After(revision) => stream.watcher.start_after(revision),
        Start::State { marked } => stream.begin_with_state(marked)?,
        Start::Refused(status) => stream.refused = Some(Box::new(status)),
    }
    // The future of each step holds its argument twice: a pointer.
    let stream = futures_util::stream::unfold(Box::new(stream), async |mut stream| {
        let bytes = stream.next().await?;
        Some((bytes, stream))
    });
    let body = ResponseBody::Stream(Box::pin(stream));
    Ok(respond::bytes(200, wanted.format.watch_content_type(), body))
}

fn options(call: &Call, cache: &Cache) -> Result<Options, Status> {
    let query = &call.query;
    let matching = query.text("resourceVersionMatch");
    let initial = query.get("sendInitialEvents");
    let mut errors = ErrorList::new();
    if initial.is_some() && matching != "NotOlderThan" {
        errors.forbidden(
            "resourceVersionMatch",
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        );
    }
    let version = query.text("resourceVersion");
    // As upstream, a watch without a resource version requests the initial state.
    let implied = initial.is_none() && matching.is_empty() && matches!(version, "" | "0");
    if !matching.is_empty() {
        if initial.is_none() {
            errors.forbidden(
                "resourceVersionMatch",
                "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
            );
        }
        if matching != "NotOlderThan" {
            errors.not_supported("resourceVersionMatch", &Value::from(matching), &["NotOlderThan"]);
        }
    }
    if (implied || !matching.is_empty()) && !query.text("continue").is_empty() {
        errors
            .forbidden("resourceVersionMatch", "resourceVersionMatch is forbidden when continue is provided");
    }
    if !errors.is_empty() {
        return Err(Status::invalid("meta.k8s.io", "ListOptions", "", &errors));
    }
    let revision = list::resource_version(version).map_err(Status::unexplained)?;
    let bookmarks = query.flag("allowWatchBookmarks");
    let start = match initial {
        Some("true" | "1") if revision > cache.revision() => {
            Start::Refused(Status::too_large_resource_version(revision, cache.revision()))
        }
        Some("true" | "1") => Start::State { marked: bookmarks },
        Some(_) if revision == 0 => Start::After(cache.revision()),
        None if revision == 0 => Start::State { marked: bookmarks },
        _ => Start::After(revision),
    };
    let least = call.backend.limits.min_request_timeout;
    let timeout = match query.int("timeoutSeconds")? {
        Some(seconds) if seconds > 0 => timeout_of(seconds),
        // Between once and twice the minimum, so that watches that began together do not end together.
        _ => least + least.mul_f64(crate::random::fraction()),
    };
    Ok(Options { start, bookmarks, timeout })
}

/// The timeout that a client requests; it may be any number.
fn timeout_of(seconds: i64) -> Duration {
    Duration::from_secs(seconds.unsigned_abs()).min(MAX_TIMEOUT)
}

/// The stream of one network client's watch.
struct WatchStream {
    backend: Arc<Backend>,
    watcher: Watcher,
    /// The filter of converted objects, if that is not the watcher's.
    selected: Option<Arc<Filter>>,
    encoder: Encoder,
    /// The initial state that is still to be sent as ADDED events.
    initial: VecDeque<Arc<Object>>,
    /// The revision of the bookmark that ends the initial state.
    bookmark: Option<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// The error to send instead of events.
    refused: Option<Box<Status>>,
    done: bool,
}

// There may be thousands of idle watches: the futures of what few of them do, and only now and then, are on the heap of their
// own, so that an idle watch does not hold their memory.
impl WatchStream {
    fn begin_with_state(&mut self, marked: bool) -> Result<(), Status> {
        let snapshot = self.watcher.snapshot()?;
        self.initial = snapshot.objects.into();
        self.bookmark = marked.then_some(snapshot.revision);
        Ok(())
    }

    /// The next bytes to send; `None` ends the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done {
                return None;
            }
            if let Some(status) = self.refused.take() {
                self.done = true;
                return Some(self.encoder.error(&status));
            }
            if !self.initial.is_empty() || self.bookmark.is_some() {
                return Some(match Box::pin(self.initial_frames()).await {
                    Ok(bytes) => bytes,
                    Err(status) => self.end_with(&status),
                });
            }
            match self.changes().await {
                Ok(Some(bytes)) => return Some(bytes),
                Ok(None) => {}
                Err(status) => return Some(self.end_with(&status)),
            }
            if self.idle().await.is_break() {
                self.done = true;
                return self.bookmarks.then(|| self.encoder.bookmark_frame(self.watcher.cursor(), false));
            }
            if self.bookmarks && Instant::now() >= self.next_bookmark {
                self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                return Some(self.encoder.bookmark_frame(self.watcher.advance(), false));
            }
        }
    }

    /// The error event that ends the watch.
    fn end_with(&mut self, status: &Status) -> Bytes {
        self.done = true;
        self.encoder.error(status)
    }

    /// Waits for events, the next bookmark or the end of the watch.
    async fn idle(&mut self) -> ControlFlow<()> {
        let wake = if self.bookmarks { self.deadline.min(self.next_bookmark) } else { self.deadline };
        let goes_on = tokio::select! {
            changed = self.watcher.changed() => changed,
            () = tokio::time::sleep_until(wake) => Instant::now() < self.deadline,
        };
        if goes_on { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    async fn initial_frames(&mut self) -> Result<Bytes, Status> {
        let mut out = Vec::new();
        if self.encoder.converts() {
            let next = self.initial.drain(..self.initial.len().min(CONVERTED_AT_ONCE)).collect();
            for object in crd::convert_all(&self.backend, &self.encoder.served, next).await? {
                if self.selected.as_ref().is_none_or(|filter| filter.matches(&object)) {
                    self.encoder.write(&mut out, Change::Added, &object.json);
                }
            }
        }
        while out.len() < FRAME && !self.encoder.converts() {
            let Some(object) = self.initial.pop_front() else { break };
            self.encoder.write(&mut out, Change::Added, &object.json);
        }
        if self.initial.is_empty() {
            // Frees the buffer, which may be large, for the rest of a long watch.
            self.initial = VecDeque::new();
            if let Some(revision) = self.bookmark.take() {
                out.extend_from_slice(&self.encoder.bookmark_frame(revision, true));
            }
        }
        Ok(out.into())
    }

    /// The changes after the cursor as converted objects show them: both states of an object are converted, because the
    /// filter decides by both.
    async fn selected_changes(&mut self, filter: &Filter) -> Result<Option<Bytes>, Status> {
        let mut events: Vec<Arc<Event>> = Vec::new();
        let take = |event: &Arc<Event>, _| {
            events.push(event.clone());
            if events.len() < CONVERTED_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        self.watcher.read_events(take).await?;
        let states = events.iter().flat_map(|event| [&event.previous, &event.current]).flatten();
        let states = states.cloned().collect();
        let mut converted = crd::convert_all(&self.backend, &self.encoder.served, states).await?.into_iter();
        let mut out = Vec::new();
        for event in events {
            let previous = event.previous.as_ref().and_then(|_| converted.next());
            let current = event.current.as_ref().and_then(|_| converted.next());
            let event = Event::new(event.revision, current, previous);
            if let Some(change) = event.seen_through(|object| filter.matches(object)) {
                self.encoder.write(&mut out, change, &event.shown(change).1);
            }
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }

    /// The changes after the cursor, converted to the version of the watch.
    async fn converted_changes(&mut self) -> Result<Option<Bytes>, Status> {
        let mut found: Vec<(Change, Arc<Object>)> = Vec::new();
        let take = |event: &Arc<Event>, change| {
            let object = event.object(change);
            let text = event.shown(change).1;
            let (head, revision_at) = (object.head, object.revision_at);
            found.push((change, Arc::new(object.with_text(text, head, revision_at).at(event.revision))));
            if found.len() < CONVERTED_AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        self.watcher.read_events(take).await?;
        let (changes, objects): (Vec<Change>, Vec<Arc<Object>>) = found.into_iter().unzip();
        let converted = crd::convert_all(&self.backend, &self.encoder.served, objects).await?;
        let mut out = Vec::new();
        for (change, object) in changes.into_iter().zip(converted) {
            self.encoder.write(&mut out, change, &object.json);
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }

    /// Frames of the changes after the cursor; `None` if no event matches.
    async fn changes(&mut self) -> Result<Option<Bytes>, Status> {
        if let Some(filter) = self.selected.clone() {
            return Box::pin(self.selected_changes(&filter)).await;
        }
        if self.encoder.converts() {
            return Box::pin(self.converted_changes()).await;
        }
        let encoder = &mut self.encoder;
        let mut out = Vec::new();
        // The common case is a single event, whose frame all watchers share: it is copied only if another one follows.
        let mut single: Option<(Arc<Event>, Change)> = None;
        let write = |event: &Arc<Event>, change| {
            if let Some((first, change)) = single.take() {
                encoder.write_event(&mut out, &first, change);
            } else if out.is_empty() {
                single = Some((event.clone(), change));
                return ControlFlow::Continue(());
            }
            encoder.write_event(&mut out, event, change);
            if out.len() >= FRAME { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        self.watcher.read_events(write).await?;
        if let Some((event, change)) = single {
            if self.encoder.shares_frames() {
                return Ok(Some(event.frame(change).clone()));
            }
            self.encoder.write_event(&mut out, &event, change);
        }
        Ok((!out.is_empty()).then(|| out.into()))
    }
}

/// The format and view in which a client receives events.
struct Encoder {
    served: Arc<Served>,
    wanted: Wanted,
    /// The view of each object; `None` for whole objects.
    seen_through: Option<node_view::View>,
    table: TableQuery,
}

impl Encoder {
    /// True if objects are converted before they are written, which may take a call to a webhook.
    fn converts(&self) -> bool {
        self.served.converter.is_some() && !self.served.sends_stored_text()
    }

    fn shares_frames(&self) -> bool {
        self.served.sends_stored_text()
            && self.wanted.format == Format::Json
            && self.wanted.view == View::Object
            && self.seen_through.is_none()
    }

    fn write_event(&mut self, out: &mut Vec<u8>, event: &Event, change: Change) {
        if self.shares_frames() {
            out.extend_from_slice(event.frame(change));
        } else {
            let (_, text) = event.shown(change);
            self.write(out, change, &text);
        }
    }

    /// Appends one event.
    fn write(&mut self, out: &mut Vec<u8>, change: Change, stored: &[u8]) {
        if self.shares_frames() {
            out.extend_from_slice(&frame(change.name(), stored));
            return;
        }
        match respond::shown_tree(&self.served, stored) {
            Ok(tree) => {
                let tree = match self.seen_through {
                    Some(view) => view(&tree),
                    None => tree,
                };
                let shown = match self.wanted.view {
                    View::Metadata { version, .. } => respond::partial(self.served.rules, &tree, version),
                    View::Table(version) => {
                        let table =
                            respond::table(&self.served, vec![tree], Map::new(), &self.table, version);
                        self.table.no_headers = true;
                        table
                    }
                    View::Object | View::Discovery => tree,
                };
                self.write_tree(out, change.name(), &shown);
            }
            Err(status) => self.write_tree(out, "ERROR", &status.to_value()),
        }
    }

    fn write_tree(&self, out: &mut Vec<u8>, change: &str, shown: &Value) {
        match self.wanted.format {
            Format::Protobuf => {
                if let Some(object) = respond::protobuf_text(shown) {
                    protobuf::encode_watch_event(change, &object, out);
                }
            }
            Format::Json | Format::Yaml => {
                out.extend_from_slice(&frame(change, json::write_to_string(shown).as_bytes()))
            }
        }
    }

    fn error(&self, status: &Status) -> Bytes {
        let mut out = Vec::new();
        self.write_tree(&mut out, "ERROR", &status.to_value());
        out.into()
    }

    /// A bookmark: an object of the watched kind with nothing but a revision.
    fn bookmark_frame(&self, revision: u64, ends_initial: bool) -> Bytes {
        let mut metadata = Map::new();
        metadata.insert("resourceVersion", revision.to_string());
        if ends_initial {
            let mut annotations = Map::new();
            annotations.insert("k8s.io/initial-events-end", "true");
            metadata.insert("annotations", annotations);
        }
        let mut object = Value::object();
        object.set(&["metadata"], metadata);
        object.set(&["kind"], self.served.kind());
        object.set(&["apiVersion"], self.served.api_version.as_str());
        if let Type::BuiltIn(schema) = &self.served.objects {
            // Upstream's encoder writes the fields that the type always has.
            let mut ignored = Vec::new();
            let whole = corten_api::conform::Extent::Whole;
            if corten_api::conform::conform(&mut object, schema, whole, &mut ignored).is_err() {
                tracing::debug!("cannot add default fields to bookmark; sending it without them");
            }
        }
        let shown = match self.wanted.view {
            View::Metadata { version, .. } => respond::partial(self.served.rules, &object, version),
            View::Table(version) => {
                // The annotation that ends the initial events is in the row's object.
                let include_object = match self.table.include_object {
                    IncludeObject::None if ends_initial => IncludeObject::Metadata,
                    asked => asked,
                };
                let mut table = respond::table(
                    &self.served,
                    vec![object],
                    Map::new(),
                    &TableQuery { no_headers: true, include_object, ..self.table.clone() },
                    version,
                );
                table.set(&["metadata", "resourceVersion"], revision.to_string());
                table
            }
            View::Object | View::Discovery => object,
        };
        let mut out = Vec::new();
        self.write_tree(&mut out, "BOOKMARK", &shown);
        out.into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_timeout_has_a_deadline() {
        for seconds in [1, 3600, i64::MAX] {
            assert!(Instant::now().checked_add(timeout_of(seconds)).is_some(), "{seconds} s");
        }
        assert_eq!(timeout_of(7), Duration::from_secs(7));
    }
}
