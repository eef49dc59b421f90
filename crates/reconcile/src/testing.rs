//! An API server in memory, for tests: objects with versions, watches, and injected failures. Requests are answered
//! without waiting, so that a test on a manual clock is deterministic.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::{Map, Status, Value, json, meta};
use corten_base::{Clock, ClockControl};
use corten_client::{Client, Error, EventStream, Kind, Transport, WatchEvent, WatchRequest};
use futures_util::StreamExt;
use futures_util::future::BoxFuture;
use http::{Method, Request, Response};
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::mpsc;

/// The number of checks of a condition before a test fails; each lets all other tasks run once.
const CHECKS: usize = 10_000;

#[derive(Clone, Default)]
pub(crate) struct FakeServer(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    objects: BTreeMap<String, Value>,
    revision: u64,
    watchers: Vec<(Kind, mpsc::UnboundedSender<WatchEvent>)>,
    /// Watch events are kept back while this is set.
    stalled: bool,
    kept_back: Vec<(Kind, WatchEvent)>,
    /// The answers to the next writes, instead of carrying them out; `None` carries one out.
    write_failures: VecDeque<Option<Error>>,
    unreachable: bool,
    silent: bool,
    writes: Vec<String>,
}

impl FakeServer {
    pub(crate) fn client(&self) -> Client {
        Client::new(Arc::new(self.clone()), "test")
    }

    /// Creates or replaces an object as another client.
    pub(crate) fn put(&self, kind: &Kind, object: &Value) {
        let mut state = self.0.lock();
        let path = kind.path(meta::namespace(object), meta::name(object), "");
        state.store(kind, path, object.clone());
    }

    pub(crate) fn get(&self, kind: &Kind, namespace: &str, name: &str) -> Option<Value> {
        self.0.lock().objects.get(&kind.path(namespace, name, "")).cloned()
    }

    pub(crate) fn list(&self, kind: &Kind) -> Vec<Value> {
        let suffix = format!("/{}/", kind.plural);
        let state = self.0.lock();
        state.objects.iter().filter(|(path, _)| path.contains(&suffix)).map(|(_, o)| o.clone()).collect()
    }

    /// Fails the next write.
    pub(crate) fn fail_next_write(&self, error: impl Into<Error>) {
        self.0.lock().write_failures.push_back(Some(error.into()));
    }

    /// Carries out the next write that has no injected answer yet.
    pub(crate) fn pass_next_write(&self) {
        self.0.lock().write_failures.push_back(None);
    }

    /// Fails every request while set.
    pub(crate) fn set_unreachable(&self, unreachable: bool) {
        self.0.lock().unreachable = unreachable;
    }

    /// Carries out requests that arrive while set, without a response: they hang.
    pub(crate) fn set_silent(&self, silent: bool) {
        self.0.lock().silent = silent;
    }

    /// Keeps watch events back while set.
    pub(crate) fn set_stalled(&self, stalled: bool) {
        let mut state = self.0.lock();
        state.stalled = stalled;
        if !stalled {
            for (kind, event) in std::mem::take(&mut state.kept_back) {
                state.send(&kind, &event);
            }
        }
    }

    /// The writes so far, such as `POST /api/v1/…`, failed ones included.
    pub(crate) fn writes(&self) -> Vec<String> {
        self.0.lock().writes.clone()
    }
}

impl State {
    fn store(&mut self, kind: &Kind, path: String, mut object: Value) -> Value {
        self.revision += 1;
        object.set(&["metadata", "resourceVersion"], self.revision.to_string());
        self.objects.insert(path, object.clone());
        let text = Bytes::from(json::write_to_string(&object));
        self.notify(kind, WatchEvent::Present(text.into()));
        object
    }

    fn notify(&mut self, kind: &Kind, event: WatchEvent) {
        if self.stalled {
            self.kept_back.push((kind.clone(), event));
        } else {
            self.send(kind, &event);
        }
    }

    fn send(&mut self, kind: &Kind, event: &WatchEvent) {
        self.watchers.retain(|(watched, watcher)| {
            watched.plural != kind.plural || watcher.send(event.clone()).is_ok()
        });
    }

    fn answer(&mut self, method: &Method, path: &str, body: &Bytes) -> Result<Value, Error> {
        if self.unreachable {
            return Err(Error::transport("connection refused"));
        }
        if method != Method::GET {
            self.writes.push(format!("{method} {path}"));
            if let Some(Some(error)) = self.write_failures.pop_front() {
                return Err(error);
            }
        }
        let body = if body.is_empty() { Value::Null } else { json::parse(body).map_err(Error::transport)? };
        let object_path = path.trim_end_matches("/status").to_owned();
        let missing = || Error::from(Status::not_found("", "objects", &object_path));
        let kind = kind_of(&object_path, method);
        let known = self.objects.get(&object_path).cloned();
        match *method {
            Method::GET => known.ok_or_else(missing),
            Method::POST => {
                let path = format!("{path}/{}", meta::name(&body));
                if self.objects.contains_key(&path) {
                    return Err(Status::already_exists("", &kind.plural, meta::name(&body)).into());
                }
                Ok(self.store(&kind, path, body))
            }
            Method::PUT => {
                let known = known.ok_or_else(missing)?;
                let version = meta::resource_version(&body);
                if !version.is_empty() && version != meta::resource_version(&known) {
                    return Err(Status::stale("", &kind.plural, meta::name(&body)).into());
                }
                Ok(self.store(&kind, object_path, body))
            }
            Method::PATCH => {
                let mut object = known.ok_or_else(missing)?;
                merge(&mut object, &body);
                Ok(self.store(&kind, object_path, object))
            }
            _ => {
                let last = self.objects.remove(&object_path).ok_or_else(missing)?;
                self.revision += 1;
                let text = Bytes::from(json::write_to_string(&last));
                self.notify(&kind, WatchEvent::Deleted { last: text.into(), revision: self.revision });
                Ok(last)
            }
        }
    }
}

/// A kind with the plural of a path.
fn kind_of(path: &str, method: &Method) -> Kind {
    let skipped = usize::from(*method != Method::POST);
    let plural = path.rsplit('/').nth(skipped).unwrap_or_default();
    Kind { plural: plural.into(), ..corten_client::kinds::PODS.clone() }
}

fn merge(object: &mut Value, patch: &Value) {
    for (key, value) in patch.as_object().into_iter().flat_map(Map::iter) {
        match object.get(key) {
            Some(Value::Object(_)) if value.as_object().is_some() => {
                let mut child = object.get(key).cloned().unwrap_or_default();
                merge(&mut child, value);
                object.set(&[key.as_str()], child);
            }
            _ => object.set(&[key.as_str()], value.clone()),
        }
    }
}

impl Transport for FakeServer {
    fn call(&self, request: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        let server = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let answer = server.0.lock().answer(&parts.method, parts.uri.path(), &body);
            let is_silent = server.0.lock().silent;
            if is_silent {
                return std::future::pending().await;
            }
            let (code, answer) = match answer {
                Ok(object) => (200, object),
                Err(Error::Status(status)) => (status.code, status.to_value()),
                Err(error) => return Err(error),
            };
            let text = Bytes::from(json::write_to_string(&answer));
            Response::builder().status(code).body(text).map_err(Error::transport)
        })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let (events, received) = mpsc::unbounded_channel();
        let state = &mut *self.0.lock();
        let suffix = format!("/{}/", request.kind.plural);
        for (_, object) in state.objects.iter().filter(|(path, _)| path.contains(&suffix)) {
            let text = Bytes::from(json::write_to_string(object));
            let _ = events.send(WatchEvent::Present(text.into()));
        }
        let version = state.revision.to_string();
        let _ = events.send(WatchEvent::Bookmark { version, ends_initial: true });
        state.watchers.push((request.kind, events));
        let stream = futures_util::stream::unfold(received, async |mut received| {
            received.recv().await.map(|event| (Ok(event), received))
        });
        Box::pin(async move { Ok(stream.boxed()) })
    }
}

pub(crate) fn start() -> Timestamp {
    Timestamp::from_second(1_800_000_000).expect("a time within the range")
}

pub(crate) fn manual_clock() -> (Clock, ClockControl) {
    Clock::manual(start())
}

pub(crate) fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// Lets other tasks run until a condition holds; fails if it never does.
#[track_caller]
pub(crate) fn until(what: &str, condition: impl Fn() -> bool) -> impl Future<Output = ()> {
    let caller = std::panic::Location::caller();
    async move {
        for _ in 0..CHECKS {
            if condition() {
                return;
            }
            tokio::task::yield_now().await;
        }
        panic!("{caller}: not reached: {what}");
    }
}

/// Lets other tasks run until they wait for the clock.
pub(crate) async fn run_other_tasks() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}
