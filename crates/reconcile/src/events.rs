//! Events: what parts of a cluster tell people. Recording never waits and never fails; equal events are counted
//! in one object, as upstream does.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use corten_api::{Map, Str, Value, meta, time, value};
use corten_base::Clock;
use corten_client::{Client, Key, Patch, kinds};
use jiff::Timestamp;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How many events may wait to be written; more are dropped.
const WAITING: usize = 10_000;
/// How long an event is remembered to be counted instead of repeated.
const REMEMBERED: Duration = Duration::from_secs(600);
const MAX_REMEMBERED: usize = 4096;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EventKind {
    Normal,
    Warning,
}

/// One thing to tell about an object.
#[derive(Debug, Clone, PartialEq)]
pub struct Event {
    pub kind: EventKind,
    pub reason: &'static str,
    pub message: String,
    /// Who tells it, as `kubectl describe` shows.
    pub component: Str,
    /// The node that it is told on; empty for what is on none in particular.
    pub host: Str,
    /// Whom it is about, as an object reference.
    pub about: Value,
}

impl Event {
    pub fn normal(
        component: impl Into<Str>,
        about: &Value,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Event {
        Event {
            kind: EventKind::Normal,
            reason,
            message: message.into(),
            component: component.into(),
            host: Str::default(),
            about: reference(about),
        }
    }

    pub fn warning(
        component: impl Into<Str>,
        about: &Value,
        reason: &'static str,
        message: impl Into<String>,
    ) -> Event {
        Event { kind: EventKind::Warning, ..Event::normal(component, about, reason, message) }
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
    pub(crate) fn start(client: Client, clock: Clock, tasks: &mut JoinSet<()>) -> Recorder {
        let (events, mut taken) = mpsc::channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let mut writer = Writer { client, clock, known: HashMap::new(), stamp: 0 };
        let left = waiting.clone();
        tasks.spawn(async move {
            while let Some(event) = taken.recv().await {
                writer.write(event).await;
                left.fetch_sub(1, Ordering::AcqRel);
            }
        });
        Recorder { events, waiting }
    }

    pub fn record(&self, event: Event) {
        self.waiting.fetch_add(1, Ordering::AcqRel);
        if self.events.try_send(event).is_err() {
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            tracing::debug!("too many events wait; one is dropped");
        }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.waiting.load(Ordering::Acquire) == 0
    }
}

/// What makes two events the same.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Sameness {
    component: Str,
    kind: EventKind,
    reason: &'static str,
    message: String,
    about: [Str; 3],
}

struct Known {
    key: Key,
    count: i64,
    last: Timestamp,
}

struct Writer {
    client: Client,
    clock: Clock,
    known: HashMap<Sameness, Known>,
    /// What the last name ended with: two events of one moment have names of their own.
    stamp: i128,
}

impl Writer {
    async fn write(&mut self, event: Event) {
        let now = self.clock.now();
        let text = |key: &str| Str::new(event.about.str_at(&[key]).unwrap_or_default());
        let same = Sameness {
            component: event.component.clone(),
            kind: event.kind,
            reason: event.reason,
            message: event.message.clone(),
            about: [text("uid"), text("name"), text("fieldPath")],
        };
        self.forget(now);
        if let Some(known) = self.known.get_mut(&same) {
            known.count += 1;
            known.last = now;
            let patch =
                Patch::Strategic(value!({"count": (known.count), "lastTimestamp": (time::format(now))}));
            if self.client.patch(&kinds::EVENTS, &known.key, &patch, "").await.is_ok() {
                return;
            }
        }
        self.stamp = now.as_nanosecond().max(self.stamp + 1);
        let object = object(&event, now, self.stamp);
        if let Err(error) = self.client.create(&kinds::EVENTS, &object).await {
            tracing::debug!(%error, reason = event.reason, "event could not be written");
            return;
        }
        self.known.insert(same, Known { key: Key::of(&object), count: 1, last: now });
    }

    fn forget(&mut self, now: Timestamp) {
        if self.known.len() >= MAX_REMEMBERED {
            self.known.retain(|_, known| now.duration_since(known.last).unsigned_abs() < REMEMBERED);
        }
        if self.known.len() >= MAX_REMEMBERED {
            self.known.clear();
        }
    }
}

/// The object of a first event.
fn object(event: &Event, now: Timestamp, stamp: i128) -> Value {
    let about = |key: &str| event.about.str_at(&[key]).unwrap_or_default();
    // Events about what has no namespace live in the default one.
    let namespace = if about("namespace").is_empty() { "default" } else { about("namespace") };
    let name = format!("{}.{:x}", about("name"), stamp);
    let kind = match event.kind {
        EventKind::Normal => "Normal",
        EventKind::Warning => "Warning",
    };
    let at = time::format(now);
    let mut object = value!({
        "apiVersion": "v1", "kind": "Event",
        "metadata": {"name": (name), "namespace": (namespace)},
        "involvedObject": (event.about.clone()),
        "reason": (event.reason), "message": (event.message.as_str()), "type": (kind),
        "source": {"component": (event.component.clone())}, "reportingComponent": (event.component.clone()),
        "reportingInstance": (event.host.clone()),
        "count": 1, "firstTimestamp": (at.clone()), "lastTimestamp": (at), "eventTime": null,
    });
    if !event.host.is_empty() {
        object.set(&["source", "host"], event.host.clone());
    }
    object
}
