//! `watch`: a stream of changes from a revision on.
//!
//! A watcher is a cursor into its cache's ring; it costs no queue and holds nobody up. One the ring has
//! overtaken goes on from the store's history, and is refused once that is compacted too.
//! Watchers who want the stored form in JSON all send the same bytes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::status::ErrorList;
use corten_api::{Map, Status, Value, json, protobuf};
use tokio::sync::watch;
use tokio::time::Instant;

use super::{list, node_view};
use crate::body::{FRAME, ResponseBody};
use crate::cache::{Cache, Change, Event, frame};
use crate::call::Call;
use crate::catalog::Served;
use crate::filter::Filter;
use crate::negotiate::{self, Format, View, Wanted};
use crate::object::Object;
use crate::respond::{self, Answer, TableQuery};

const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// Events looked at in one go, before the connection gets its turn.
const BATCH: usize = 256;

/// How a watch is asked for.
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
    /// Nothing but this.
    Refused(Status),
}

pub(crate) async fn watch(call: &Call, shutdown: watch::Receiver<bool>) -> Result<Answer, Status> {
    let wanted = negotiate::wanted_watch(&call.headers)?;
    let cache = list::cache(call)?.clone();
    cache.catch_up().await;
    let filter = list::filter(call)?;
    let options = options(call, &cache)?;
    let mut watcher = Watcher {
        seen_through: node_view::of(call, &filter),
        served: call.served.clone(),
        progress: cache.progress(),
        filter,
        wanted,
        table: call.table_query()?,
        cursor: 0,
        initial: VecDeque::new(),
        bookmark: None,
        bookmarks: options.bookmarks,
        next_bookmark: Instant::now() + BOOKMARK_EVERY,
        deadline: Instant::now() + options.timeout,
        shutdown,
        refused: None,
        done: false,
        cache,
    };
    match options.start {
        Start::After(revision) => watcher.cursor = revision,
        Start::State { marked } => watcher.begin_with_state(marked),
        Start::Refused(status) => watcher.refused = Some(status),
    }
    watcher.progress.mark_changed();
    let stream = futures_util::stream::unfold(watcher, async |mut watcher| {
        let bytes = watcher.next().await?;
        Some((bytes, watcher))
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
    // A watch that names no version is, to upstream, one that asks for the initial state.
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
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        // Between once and twice the least, so that those who came together do not come back together.
        _ => least + least.mul_f64(crate::random::fraction()),
    };
    Ok(Options { start, bookmarks, timeout })
}

struct Watcher {
    served: Arc<Served>,
    cache: Arc<Cache>,
    progress: watch::Receiver<u64>,
    filter: Filter,
    wanted: Wanted,
    /// What is shown of each object; none for all of it.
    seen_through: Option<node_view::View>,
    table: TableQuery,
    /// Everything up to here has been seen.
    cursor: u64,
    /// State still to be sent as ADDED.
    initial: VecDeque<Arc<Object>>,
    /// The revision of the bookmark that ends the initial state.
    bookmark: Option<u64>,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    shutdown: watch::Receiver<bool>,
    /// Why there is nothing to watch.
    refused: Option<Status>,
    done: bool,
}

impl Watcher {
    fn begin_with_state(&mut self, marked: bool) {
        let snapshot = self.cache.snapshot(&self.filter.namespace, None);
        self.initial = snapshot.objects.into_iter().filter(|o| self.filter.matches(o)).collect();
        self.cursor = snapshot.revision;
        self.bookmark = marked.then_some(snapshot.revision);
    }

    /// The next bytes to send; `None` ends the watch.
    async fn next(&mut self) -> Option<Bytes> {
        loop {
            if self.done {
                return None;
            }
            if let Some(status) = self.refused.take() {
                self.done = true;
                return Some(self.error(&status));
            }
            if !self.initial.is_empty() || self.bookmark.is_some() {
                return Some(self.initial_frames());
            }
            match self.changes().await {
                Ok(Some(bytes)) => return Some(bytes),
                Ok(None) => {}
                Err(status) => {
                    self.done = true;
                    return Some(self.error(&status));
                }
            }
            if self.idle().await.is_break() {
                self.done = true;
                return self.bookmarks.then(|| self.bookmark_frame(self.cursor, false));
            }
            if self.bookmarks && Instant::now() >= self.next_bookmark {
                self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                self.cursor = self.cursor.max(self.caught_up());
                return Some(self.bookmark_frame(self.cursor, false));
            }
        }
    }

    /// The store's revision, if there are no events left to send before it.
    fn caught_up(&self) -> u64 {
        let revision = self.cache.revision();
        match self.cache.events_after(self.cursor, 1) {
            Ok((events, _)) if events.is_empty() => revision,
            _ => self.cursor,
        }
    }

    /// Waits for something to do.
    async fn idle(&mut self) -> std::ops::ControlFlow<()> {
        let wake = if self.bookmarks { self.deadline.min(self.next_bookmark) } else { self.deadline };
        tokio::select! {
            changed = self.progress.changed() => match changed {
                Ok(()) => std::ops::ControlFlow::Continue(()),
                Err(_) => std::ops::ControlFlow::Break(()),
            },
            () = tokio::time::sleep_until(wake) => {
                if Instant::now() >= self.deadline { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
            }
            () = crate::listen::stopped(&mut self.shutdown) => std::ops::ControlFlow::Break(()),
        }
    }

    fn initial_frames(&mut self) -> Bytes {
        let mut out = Vec::new();
        while out.len() < FRAME {
            let Some(object) = self.initial.pop_front() else { break };
            self.write(&mut out, Change::Added, &object.json);
        }
        if self.initial.is_empty()
            && let Some(revision) = self.bookmark.take()
        {
            out.extend_from_slice(&self.bookmark_frame(revision, true));
        }
        out.into()
    }

    /// Frames of the changes after the cursor; `None` if there are none to show.
    async fn changes(&mut self) -> Result<Option<Bytes>, Status> {
        self.progress.mark_unchanged();
        let (events, reached) = self.cache.follow(self.cursor, BATCH).await?;
        let full = events.len();
        let mut out = Vec::new();
        let mut single = None;
        let mut shown = 0;
        for event in &events {
            self.cursor = event.revision;
            let Some(change) = event.seen_through(|o| self.filter.matches(o)) else { continue };
            shown += 1;
            single = Some((event.clone(), change));
            if full > 1 {
                self.write_event(&mut out, event, change);
            }
            if out.len() >= FRAME {
                self.progress.mark_changed();
                return Ok(Some(out.into()));
            }
        }
        self.cursor = self.cursor.max(reached);
        if full >= BATCH {
            self.progress.mark_changed();
        }
        match single {
            // The common case shares one buffer among all watchers.
            Some((event, change)) if shown == 1 && out.is_empty() => {
                if self.shares_frames() {
                    return Ok(Some(event.frame(change).clone()));
                }
                self.write_event(&mut out, &event, change);
                Ok(Some(out.into()))
            }
            Some(_) => Ok(Some(out.into())),
            None => Ok(None),
        }
    }

    fn shares_frames(&self) -> bool {
        self.served.is_stored_form
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

    /// Appends one change in the format and view of this watcher.
    fn write(&mut self, out: &mut Vec<u8>, change: Change, stored: &[u8]) {
        if self.shares_frames() {
            out.extend_from_slice(&frame(change.name(), stored));
            return;
        }
        match respond::served_tree(&self.served, stored) {
            Ok(tree) => {
                let tree = match self.seen_through {
                    Some(view) => view(&tree),
                    None => tree,
                };
                let shown = match self.wanted.view {
                    View::Metadata { version, .. } => respond::partial(&tree, version),
                    View::Table(version) => {
                        let table =
                            respond::table(&self.served, vec![tree], Map::new(), &self.table, version);
                        self.table.no_headers = true;
                        table
                    }
                    View::Object | View::Discovery(_) => tree,
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
        // The encoder upstream gives every field its type always has.
        let mut ignored = Vec::new();
        let whole = corten_api::conform::Extent::Whole;
        if corten_api::conform::conform(&mut object, &self.served.schema, whole, &mut ignored).is_err() {
            tracing::debug!("bookmark left as it is");
        }
        let shown = match self.wanted.view {
            View::Metadata { version, .. } => respond::partial(&object, version),
            View::Table(version) => {
                let mut table = respond::table(
                    &self.served,
                    Vec::new(),
                    Map::new(),
                    &TableQuery { no_headers: true, ..self.table.clone() },
                    version,
                );
                table.set(&["metadata", "resourceVersion"], revision.to_string());
                table
            }
            View::Object | View::Discovery(_) => object,
        };
        let mut out = Vec::new();
        self.write_tree(&mut out, "BOOKMARK", &shown);
        out.into()
    }
}
