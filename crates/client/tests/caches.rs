//! The contract of caches, against a server that the test plays: sync, order of events, resumption, relisting and backoff.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use corten_api::{Status, Value, json, value};
use corten_base::Clock;
use corten_client::{
    Cache, Caches, Change, Client, Error, EventStream, Index, Key, Seen, Transport, WatchEvent, WatchRequest,
    kinds,
};
use futures_util::future::BoxFuture;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use jiff::Timestamp;
use tokio::sync::{mpsc, oneshot};

/// A transport whose watches the test answers.
struct Scripted(mpsc::UnboundedSender<Watch>);

/// A watch that waits for its answer.
struct Watch {
    request: WatchRequest,
    answer: oneshot::Sender<Result<EventStream, Error>>,
}

/// The open stream of a watch; dropping it closes the watch as servers do.
struct Events(mpsc::UnboundedSender<Result<WatchEvent, Error>>);

impl Transport for Scripted {
    fn call(&self, _: Request<Bytes>) -> BoxFuture<'static, Result<Response<Bytes>, Error>> {
        Box::pin(async { Err(Error::transport("caches only watch")) })
    }

    fn watch(&self, request: WatchRequest) -> BoxFuture<'static, Result<EventStream, Error>> {
        let (answer, answered) = oneshot::channel();
        let sent = self.0.send(Watch { request, answer });
        Box::pin(async move {
            sent.map_err(Error::transport)?;
            answered.await.map_err(Error::transport)?
        })
    }
}

impl Watch {
    fn accept(self) -> Events {
        let (sender, receiver) = mpsc::unbounded_channel();
        let events = stream::unfold(receiver, async |mut receiver| Some((receiver.recv().await?, receiver)));
        assert!(self.answer.send(Ok(events.boxed())).is_ok(), "the reflector waits for the watch");
        Events(sender)
    }

    fn refuse(self, error: Error) {
        assert!(self.answer.send(Err(error)).is_ok(), "the reflector waits for the watch");
    }
}

impl Events {
    fn send(&self, event: Result<WatchEvent, Error>) {
        self.0.send(event).expect("the reflector reads");
    }

    fn present(&self, name: &str, revision: u64) {
        self.send(Ok(WatchEvent::Present(seen(name, revision))));
    }

    fn deleted(&self, name: &str, revision: u64) {
        self.send(Ok(WatchEvent::Deleted { last: seen(name, revision), revision }));
    }

    fn bookmark(&self, revision: u64) {
        self.send(Ok(WatchEvent::Bookmark { version: revision.to_string(), ends_initial: false }));
    }

    fn end_initial(&self, revision: u64) {
        self.send(Ok(WatchEvent::Bookmark { version: revision.to_string(), ends_initial: true }));
    }
}

fn pod(name: &str, revision: u64) -> Value {
    value!({"metadata": {
        "namespace": "n", "name": name, "uid": (format!("uid-of-{name}")),
        "resourceVersion": (revision.to_string()),
    }})
}

fn seen(name: &str, revision: u64) -> Seen {
    Seen::from(Bytes::from(json::write_to_string(&pod(name, revision))))
}

fn expired() -> Error {
    let gone = value!({"kind": "Status", "reason": "Expired", "code": 410, "message": "too old"});
    Error::from(Status::from_value(&gone))
}

/// The caches under test, their server, and the clock.
struct World {
    caches: Caches,
    watches: mpsc::UnboundedReceiver<Watch>,
    clock: Clock,
    /// Moves the clock to the end of the current backoff; false if nothing sleeps yet.
    advance: Box<dyn Fn() -> bool>,
}

impl World {
    fn new() -> World {
        let start: Timestamp = "2026-03-02T00:00:00Z".parse().expect("a good time");
        let (clock, hands) = Clock::manual(start);
        let (sender, watches) = mpsc::unbounded_channel();
        let client = Client::new(Arc::new(Scripted(sender)), "test");
        let now = clock.clone();
        let hour = jiff::SignedDuration::from_hours(1);
        let advance = move || {
            let before = now.now();
            // Without a sleeper the clock would jump to the limit: that far no backoff goes.
            hands.advance_to_next(before + hour) && now.now() < before + hour
        };
        World { caches: Caches::new(client, clock.clone()), watches, clock, advance: Box::new(advance) }
    }

    async fn watch(&mut self) -> Watch {
        within(self.watches.recv()).await.expect("the reflector watches")
    }

    /// The watch after a failure, and the backoff before it.
    async fn watch_after_backoff(&mut self) -> (Watch, Duration) {
        let before = self.clock.now();
        assert!(self.watches.try_recv().is_err(), "the reflector backs off first");
        // The reflector may not have reached its sleep yet.
        settle().await;
        assert!((self.advance)(), "the reflector sleeps");
        let watch = self.watch().await;
        (watch, self.clock.now().duration_since(before).unsigned_abs())
    }

    /// A synced cache of pods with these objects, its open watch, and the changes that its first subscriber sees.
    async fn synced(&mut self, objects: &[(&str, u64)], revision: u64) -> (Arc<Cache>, Events, Changes) {
        let cache = self.caches.of(&kinds::PODS);
        let events = self.watch().await.accept();
        for (name, revision) in objects {
            events.present(name, *revision);
        }
        events.end_initial(revision);
        within(cache.synced()).await;
        let changes = subscribe(&cache);
        (cache, events, changes)
    }
}

/// Waits for something that must happen, with a deadline.
async fn within<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(10), future).await.expect("it happens in time")
}

/// Lets all other tasks of this thread run until they wait.
async fn settle() {
    for _ in 0..50 {
        tokio::task::yield_now().await;
    }
}

type Changes = mpsc::UnboundedReceiver<(String, Option<u64>, Option<u64>)>;

/// Records changes as name, old and new revision. Every change must be visible to readers when it is reported.
fn subscribe(cache: &Arc<Cache>) -> Changes {
    let (sender, receiver) = mpsc::unbounded_channel();
    let readable = Arc::downgrade(cache);
    cache.subscribe(move |change: &Change| {
        let revision = |object: &Option<Arc<corten_client::Object>>| object.as_ref().map(|o| o.revision);
        let key = &change.object().key;
        let cache = readable.upgrade().expect("the cache lives");
        assert_eq!(cache.get(key).map(|object| object.revision), revision(&change.new));
        let recorded = (key.name.to_string(), revision(&change.old), revision(&change.new));
        sender.send(recorded).expect("the test reads");
    });
    receiver
}

fn recorded(changes: &mut Changes) -> Vec<(String, Option<u64>, Option<u64>)> {
    std::iter::from_fn(|| changes.try_recv().ok()).collect()
}

fn change(name: &str, old: Option<u64>, new: Option<u64>) -> (String, Option<u64>, Option<u64>) {
    (name.to_owned(), old, new)
}

#[tokio::test]
async fn a_cache_is_synced_once_the_initial_state_is_complete() {
    let mut world = World::new();
    let cache = world.caches.of(&kinds::PODS);
    let watch = world.watch().await;
    assert_eq!((watch.request.after.as_str(), &*watch.request.kind.plural), ("", "pods"));
    let events = watch.accept();
    events.present("a", 5);
    within(cache.until(|cache| cache.len() == 1)).await;
    assert!(!cache.is_synced(), "more may come");
    assert_eq!(cache.revision(), 0, "an initial object does not say how far the list goes");
    events.present("b", 3);
    events.end_initial(7);
    within(cache.synced()).await;
    assert_eq!((cache.len(), cache.revision()), (2, 7));
}

#[tokio::test]
async fn an_empty_collection_is_synced_too() {
    let mut world = World::new();
    let (cache, _events, _) = world.synced(&[], 4).await;
    assert!(cache.is_empty() && cache.is_synced());
    assert_eq!(cache.revision(), 4);
}

#[tokio::test]
async fn subscribers_see_every_change_once_and_in_order() {
    let mut world = World::new();
    let (cache, events, mut changes) = world.synced(&[("a", 1), ("b", 2)], 2).await;
    assert_eq!(
        recorded(&mut changes),
        [change("a", None, Some(1)), change("b", None, Some(2))],
        "a subscriber first sees what is there"
    );
    events.present("a", 3);
    events.present("c", 4);
    events.deleted("b", 5);
    events.present("a", 3);
    events.present("b", 6);
    within(cache.until(|cache| cache.revision() == 6)).await;
    assert_eq!(
        recorded(&mut changes),
        [
            change("a", Some(1), Some(3)),
            change("c", None, Some(4)),
            change("b", Some(2), None),
            change("b", None, Some(6)),
        ],
        "a repeated event is no change"
    );
}

#[tokio::test]
async fn a_watch_that_the_server_closes_is_resumed_at_once() {
    let mut world = World::new();
    let (cache, events, mut changes) = world.synced(&[("a", 1)], 2).await;
    events.present("a", 3);
    drop(events);
    let watch = world.watch().await;
    assert_eq!(watch.request.after, "3");
    let events = watch.accept();
    events.bookmark(9);
    drop(events);
    let watch = world.watch().await;
    assert_eq!(watch.request.after, "9", "a bookmark moves the place to resume from");
    let events = watch.accept();
    events.deleted("a", 10);
    within(cache.until(Cache::is_empty)).await;
    assert_eq!(
        recorded(&mut changes),
        [change("a", None, Some(1)), change("a", Some(1), Some(3)), change("a", Some(3), None)]
    );
}

#[tokio::test]
async fn a_lost_connection_is_resumed_after_a_backoff() {
    let mut world = World::new();
    let (cache, events, mut changes) = world.synced(&[("a", 1)], 2).await;
    events.send(Err(Error::transport("connection reset")));
    let (watch, backoff) = world.watch_after_backoff().await;
    assert_eq!(backoff, Duration::from_millis(800));
    assert_eq!(watch.request.after, "2");
    assert_eq!((cache.len(), cache.is_synced()), (1, true), "the last state stays readable");
    watch.accept().present("b", 3);
    within(cache.until(|cache| cache.len() == 2)).await;
    assert_eq!(recorded(&mut changes), [change("a", None, Some(1)), change("b", None, Some(3))]);
}

#[tokio::test]
async fn an_expired_version_is_listed_again() {
    for at_the_start in [true, false] {
        let mut world = World::new();
        let (cache, events, mut changes) = world.synced(&[("a", 1), ("b", 2)], 2).await;
        recorded(&mut changes);
        if at_the_start {
            drop(events);
            world.watch().await.refuse(expired());
        } else {
            events.send(Err(expired()));
        }
        let (watch, _) = world.watch_after_backoff().await;
        assert_eq!(watch.request.after, "", "the whole state comes again");
        let events = watch.accept();
        events.present("a", 1);
        events.present("c", 8);
        settle().await;
        assert!(cache.get(&Key::new("n", "b")).is_some(), "nothing is deleted before the list is complete");
        events.end_initial(9);
        within(cache.until(|cache| cache.revision() == 9)).await;
        let seen = recorded(&mut changes);
        assert_eq!(seen, [change("c", None, Some(8)), change("b", Some(2), None)], "{at_the_start}");
    }
}

#[tokio::test]
async fn an_object_that_was_replaced_meanwhile_is_a_change() {
    let mut world = World::new();
    let (cache, events, mut changes) = world.synced(&[("a", 8)], 8).await;
    recorded(&mut changes);
    events.send(Err(expired()));
    let events = world.watch_after_backoff().await.0.accept();
    let mut other = pod("a", 9);
    other.set(&["metadata", "uid"], "another");
    let other = Seen::from(Bytes::from(json::write_to_string(&other)));
    events.send(Ok(WatchEvent::Present(other)));
    events.end_initial(9);
    within(cache.until(|cache| cache.revision() == 9)).await;
    assert_eq!(recorded(&mut changes), [change("a", Some(8), Some(9))]);
    assert_eq!(cache.get(&Key::new("n", "a")).expect("it is there").uid, "another");
}

#[tokio::test]
async fn failures_back_off_up_to_a_limit_until_a_watch_ends_well() {
    let mut world = World::new();
    let _cache = world.caches.of(&kinds::PODS);
    let mut watch = world.watch().await;
    let mut backoffs = Vec::new();
    for _ in 0..8 {
        watch.refuse(Error::transport("connection refused"));
        let (next, backoff) = world.watch_after_backoff().await;
        backoffs.push(backoff.as_millis());
        watch = next;
    }
    assert_eq!(backoffs, [800, 1600, 3200, 6400, 12_800, 25_600, 30_000, 30_000]);
    let events = watch.accept();
    events.end_initial(1);
    drop(events);
    world.watch().await.refuse(Error::transport("connection refused"));
    let (_, backoff) = world.watch_after_backoff().await;
    assert_eq!(backoff, Duration::from_millis(800), "a watch that ended well resets the backoff");
}

#[tokio::test]
async fn a_kind_has_one_cache_and_selections_have_their_own() {
    let mut world = World::new();
    let pods = world.caches.of(&kinds::PODS);
    assert!(Arc::ptr_eq(&pods, &world.caches.of(&kinds::PODS)));
    let of_node = kinds::PODS.with_fields("spec.nodeName=n1");
    assert!(!Arc::ptr_eq(&pods, &world.caches.of(&of_node)));
    let requested = [world.watch().await.request, world.watch().await.request];
    assert_eq!(requested.map(|request| request.kind.fields.to_string()), ["", "spec.nodeName=n1"]);
    assert!(world.watches.try_recv().is_err(), "one watch per cache");
    world.caches.forget(&kinds::PODS);
    assert!(!Arc::ptr_eq(&pods, &world.caches.of(&kinds::PODS)), "a forgotten cache starts anew");
}

#[tokio::test]
async fn an_index_is_up_to_date_when_later_subscribers_are_called() {
    static BY_FIRST_LETTER: Index = Index {
        kind: &kinds::PODS,
        name: "by-first-letter",
        names: |pod| vec![Key::new("", &pod.key.name[..1])],
    };
    let mut world = World::new();
    world.caches.index(&BY_FIRST_LETTER);
    let (caches, (sender, mut found)) = (world.caches.clone(), mpsc::unbounded_channel());
    world.caches.of(&kinds::PODS).subscribe(move |_| {
        let keys = caches.keys_by(&BY_FIRST_LETTER, &Key::new("", "a"));
        sender.send(keys.len()).expect("the test reads");
    });
    let events = world.watch().await.accept();
    events.present("aa", 1);
    events.present("ab", 2);
    events.end_initial(2);
    events.deleted("aa", 3);
    let cache = world.caches.of(&kinds::PODS);
    within(cache.until(|cache| cache.revision() == 3)).await;
    let counts: Vec<usize> = std::iter::from_fn(|| found.try_recv().ok()).collect();
    assert_eq!(counts, [1, 2, 1]);
    assert_eq!(world.caches.by(&BY_FIRST_LETTER, &Key::new("", "a")).len(), 1);
}
