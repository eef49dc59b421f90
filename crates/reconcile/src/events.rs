//! The event recorder. Recording never waits and never fails; equal events are counted in one Event object, and too many
//! about one object are not written, as upstream does.

mod spam_filter;

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use corten_api::{Map, Str, Value, meta, time, value};
use corten_base::Clock;
use corten_client::{Client, Key, Patch, kinds};
use futures_util::future::join_all;
use jiff::Timestamp;
use spam_filter::SpamFilter;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// The number of events that may wait to be written; further ones are dropped.
const MAX_PENDING: usize = 10_000;
/// The number of events that are written concurrently.
const CONCURRENCY: usize = 8;
/// The time for which an Event is remembered, so that equal events are counted in it.
const REMEMBERED: Duration = Duration::from_secs(600);
const MAX_REMEMBERED: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    Normal,
    Warning,
}

/// An event about an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub kind: EventKind,
    pub reason: Cow<'static, str>,
    pub message: String,
    /// The reporting component, as `kubectl describe` shows it.
    pub component: Str,
    /// The node that reports it; empty for events of no particular node.
    pub host: Str,
    /// The involved object, as an object reference.
    pub about: Value,
    /// The action, for events of the events.k8s.io style: with a time in microseconds, and repeated as a series.
    pub action: Option<&'static str>,
}

impl Event {
    pub fn normal(
        component: impl Into<Str>,
        about: &Value,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Event {
        Event {
            kind: EventKind::Normal,
            reason: reason.into(),
            message: message.into(),
            component: component.into(),
            host: Str::default(),
            about: reference(about),
            action: None,
        }
    }

    pub fn warning(
        component: impl Into<Str>,
        about: &Value,
        reason: impl Into<Cow<'static, str>>,
        message: impl Into<String>,
    ) -> Event {
        Event { kind: EventKind::Warning, ..Event::normal(component, about, reason, message) }
    }
}

impl Event {
    /// Sets the action, and with it the events.k8s.io style.
    #[must_use]
    pub fn with_action(mut self, action: &'static str) -> Event {
        self.action = Some(action);
        self
    }
}

/// A reference to an object.
fn reference(object: &Value) -> Value {
    let mut reference = Map::new();
    let texts = [
        ("apiVersion", meta::api_version(object)),
        ("kind", meta::kind(object)),
        ("name", meta::name(object)),
        ("namespace", meta::namespace(object)),
        ("resourceVersion", meta::resource_version(object)),
        ("uid", meta::uid(object)),
    ];
    for (key, text) in texts.into_iter().filter(|(_, text)| !text.is_empty()) {
        reference.insert(key, text);
    }
    Value::Object(reference)
}

#[derive(Clone)]
pub struct Recorder {
    events: mpsc::Sender<Event>,
    waiting: Arc<AtomicUsize>,
}

impl Recorder {
    /// Starts the task that writes events; events that wait when it is aborted are lost.
    pub fn start(client: &Client, clock: Clock, tasks: &mut JoinSet<()>) -> Recorder {
        let (events, taken) = mpsc::channel(MAX_PENDING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let (known, spam) = (HashMap::new(), SpamFilter::default());
        let writer = Writer { client: client.without_answers(), clock, known, spam, stamp: 0 };
        tasks.spawn(writer.run(taken, waiting.clone()));
        Recorder { events, waiting }
    }

    /// Queues an event to be written.
    pub fn record(&self, event: Event) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if self.events.try_send(event).is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            tracing::debug!("event queue is full; dropping event");
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }
}

/// The fields in which equal events agree.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct EventKey {
    component: Str,
    kind: EventKind,
    reason: Cow<'static, str>,
    message: String,
    about: [Str; 3],
}

impl EventKey {
    fn of(event: &Event) -> EventKey {
        let text = |key: &str| Str::new(event.about.str_at(&[key]).unwrap_or_default());
        EventKey {
            component: event.component.clone(),
            kind: event.kind,
            reason: event.reason.clone(),
            message: event.message.clone(),
            about: [text("uid"), text("name"), text("fieldPath")],
        }
    }
}

/// The write of one event: a patch of the Event that counts it, or else a new one.
struct Writing {
    same: EventKey,
    counted: Option<(Key, Patch)>,
    new: Value,
}

struct Recorded {
    key: Key,
    count: i64,
    last: Timestamp,
}

struct Writer {
    client: Client,
    clock: Clock,
    known: HashMap<EventKey, Recorded>,
    spam: SpamFilter,
    /// The suffix of the last name: two events of one moment get different names.
    stamp: i128,
}

impl Writer {
    /// Writes recorded events until the recorder is dropped.
    async fn run(mut self, mut events: mpsc::Receiver<Event>, waiting: Arc<AtomicUsize>) {
        let mut next = None;
        loop {
            let first = match next.take() {
                None => events.recv().await,
                next => next,
            };
            let Some(first) = first else { return };
            let mut batch: Vec<Writing> = self.plan(&first).into_iter().collect();
            let mut count = 1;
            while count < CONCURRENCY
                && let Ok(event) = events.try_recv()
            {
                // An equal event has to wait until the Event that counts it is created.
                if batch.iter().any(|writing| writing.same == EventKey::of(&event)) {
                    next = Some(event);
                    break;
                }
                batch.extend(self.plan(&event));
                count += 1;
            }
            self.write(batch).await;
            waiting.fetch_sub(count, Ordering::AcqRel);
        }
    }

    /// Counts an event. Returns its write, unless there were too many about its object: those are counted with the next one.
    fn plan(&mut self, event: &Event) -> Option<Writing> {
        let now = self.clock.now();
        let same = EventKey::of(event);
        self.evict_old(now);
        let counted = self.known.get_mut(&same).map(|known| {
            known.count += 1;
            known.last = now;
            let patch = match event.action {
                None => value!({"count": (known.count), "lastTimestamp": (time::format(now))}),
                Some(_) => {
                    value!({"series": {"count": (known.count), "lastObservedTime": (time::format_micro(now))}})
                }
            };
            (known.key.clone(), Patch::Strategic(patch))
        });
        // Events with an action are limited by being a series.
        if event.action.is_none() && !self.spam.accepts(event, now) {
            return None;
        }
        self.stamp = now.as_nanosecond().max(self.stamp + 1);
        Some(Writing { same, counted, new: object(event, now, self.stamp) })
    }

    /// Writes events concurrently; no two of them are equal.
    async fn write(&mut self, batch: Vec<Writing>) {
        let now = self.clock.now();
        let written = batch.into_iter().map(|writing| write_event(&self.client, writing));
        for (same, key) in join_all(written).await.into_iter().flatten() {
            self.known.insert(same, Recorded { key, count: 1, last: now });
        }
    }

    fn evict_old(&mut self, now: Timestamp) {
        if self.known.len() >= MAX_REMEMBERED {
            self.known.retain(|_, known| now.duration_since(known.last).unsigned_abs() < REMEMBERED);
        }
        if self.known.len() >= MAX_REMEMBERED {
            self.known.clear();
        }
    }
}

/// Writes one event. Returns the Event that now counts it, if that is new.
async fn write_event(client: &Client, writing: Writing) -> Option<(EventKey, Key)> {
    if let Some((key, patch)) = &writing.counted
        && client.patch(&kinds::EVENTS, key, patch, "").await.is_ok()
    {
        return None;
    }
    match client.create(&kinds::EVENTS, &writing.new).await {
        Ok(_) => Some((writing.same, Key::of(&writing.new))),
        Err(error) => {
            tracing::debug!(err = %error, reason = %writing.same.reason, "cannot write event; dropping it");
            None
        }
    }
}

/// The Event object of a first occurrence.
fn object(event: &Event, now: Timestamp, stamp: i128) -> Value {
    let about = |key: &str| event.about.str_at(&[key]).unwrap_or_default();
    // Events about cluster-scoped objects live in the default namespace.
    let namespace = if about("namespace").is_empty() { "default" } else { about("namespace") };
    let name = format!("{}.{:x}", about("name"), stamp);
    let kind = match event.kind {
        EventKind::Normal => "Normal",
        EventKind::Warning => "Warning",
    };
    let mut object = value!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": (name), "namespace": (namespace)},
        "involvedObject": (event.about.clone()),
        "reason": (event.reason.as_ref()), "message": (event.message.as_str()), "type": (kind),
        "reportingComponent": (event.component.clone()),
    });
    let how = match event.action {
        Some(action) => value!({
            "action": (action), "eventTime": (time::format_micro(now)), "source": {},
            "reportingInstance": (format!("{}-{}", event.component, host_name())),
            "firstTimestamp": null, "lastTimestamp": null,
        }),
        None => value!({
            "source": {"component": (event.component.clone())}, "reportingInstance": (event.host.clone()), "count": 1,
            "firstTimestamp": (time::format(now)), "lastTimestamp": (time::format(now)), "eventTime": null,
        }),
    };
    for (key, value) in how.as_object().into_iter().flat_map(Map::iter) {
        object.set(&[key.as_str()], value.clone());
    }
    if event.action.is_none() && !event.host.is_empty() {
        object.set(&["source", "host"], event.host.clone());
    }
    object
}

fn host_name() -> &'static str {
    static NAME: LazyLock<String> = LazyLock::new(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        name.trim().to_owned()
    });
    &NAME
}

#[cfg(test)]
mod tests;
