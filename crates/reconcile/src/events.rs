//! Events: what parts of a cluster tell people. Recording never waits and never fails; equal events are counted
//! in one object, as upstream does.

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
use tokio::sync::mpsc;
use tokio::task::JoinSet;

/// How many events may wait to be written; more are dropped.
const WAITING: usize = 10_000;
/// How many are written at once.
const AT_ONCE: usize = 8;
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
    pub reason: Cow<'static, str>,
    pub message: String,
    /// Who tells it, as `kubectl describe` shows.
    pub component: Str,
    /// The node that it is told on; empty for what is on none in particular.
    pub host: Str,
    /// Whom it is about, as an object reference.
    pub about: Value,
    /// What was being done, for those who tell it in the newer way: with a time to the microsecond, and repeated as a
    /// series.
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
    /// Tells what was being done, in the newer way.
    #[must_use]
    pub fn while_doing(mut self, action: &'static str) -> Event {
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
    pub(crate) fn start(client: &Client, clock: Clock, tasks: &mut JoinSet<()>) -> Recorder {
        let (events, taken) = mpsc::channel(WAITING);
        let waiting = Arc::new(AtomicUsize::new(0));
        let writer = Writer { client: client.without_answers(), clock, known: HashMap::new(), stamp: 0 };
        tasks.spawn(writer.run(taken, waiting.clone()));
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
    reason: Cow<'static, str>,
    message: String,
    about: [Str; 3],
}

impl Sameness {
    fn of(event: &Event) -> Sameness {
        let text = |key: &str| Str::new(event.about.str_at(&[key]).unwrap_or_default());
        Sameness {
            component: event.component.clone(),
            kind: event.kind,
            reason: event.reason.clone(),
            message: event.message.clone(),
            about: [text("uid"), text("name"), text("fieldPath")],
        }
    }
}

/// How an event is told: counted in an object that is there, or else as a new one.
struct Writing {
    same: Sameness,
    counted: Option<(Key, Patch)>,
    new: Value,
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
    /// Writes what is recorded, until nobody records any more.
    async fn run(mut self, mut events: mpsc::Receiver<Event>, waiting: Arc<AtomicUsize>) {
        let mut next = None;
        loop {
            let first = match next.take() {
                None => events.recv().await,
                next => next,
            };
            let Some(first) = first else { return };
            let mut batch = vec![self.plan(&first)];
            while batch.len() < AT_ONCE
                && let Ok(event) = events.try_recv()
            {
                // What is counted in an object has to wait for the object.
                if batch.iter().any(|writing| writing.same == Sameness::of(&event)) {
                    next = Some(event);
                    break;
                }
                batch.push(self.plan(&event));
            }
            let count = batch.len();
            self.write(batch).await;
            waiting.fetch_sub(count, Ordering::AcqRel);
        }
    }

    fn plan(&mut self, event: &Event) -> Writing {
        let now = self.clock.now();
        let same = Sameness::of(event);
        self.forget(now);
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
        self.stamp = now.as_nanosecond().max(self.stamp + 1);
        Writing { same, counted, new: object(event, now, self.stamp) }
    }

    /// Writes events side by side; they are about different things.
    async fn write(&mut self, batch: Vec<Writing>) {
        let now = self.clock.now();
        let written = batch.into_iter().map(|writing| tell(&self.client, writing));
        for (same, key) in join_all(written).await.into_iter().flatten() {
            self.known.insert(same, Known { key, count: 1, last: now });
        }
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

/// Tells of one event; the object it is now counted in, if that is new.
async fn tell(client: &Client, writing: Writing) -> Option<(Sameness, Key)> {
    if let Some((key, patch)) = &writing.counted
        && client.patch(&kinds::EVENTS, key, patch, "").await.is_ok()
    {
        return None;
    }
    match client.create(&kinds::EVENTS, &writing.new).await {
        Ok(_) => Some((writing.same, Key::of(&writing.new))),
        Err(error) => {
            tracing::debug!(%error, reason = %writing.same.reason, "event could not be written");
            None
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
