//! Contracts of the manager: retries, conflicts, panics, own writes, events and selection of controllers.

use std::sync::atomic::{AtomicUsize, Ordering};

use corten_api::{Status, Value, value};
use corten_base::ClockControl;
use corten_client::{Key, Kind, kinds};
use jiff::Timestamp;

use super::*;
use crate::testing::{FakeServer, manual_clock, run_other_tasks, seconds, until};
use crate::{Action, Event, Report, Watch};

/// Labels config maps with `done`, and counts its reconciles.
#[derive(Default)]
struct Labeller {
    reconciles: Arc<AtomicUsize>,
    /// The number of reconciles that panic.
    panics: usize,
    requeue_after: Option<Duration>,
    settle: Duration,
}

impl Controller for Labeller {
    type World = Option<Value>;

    fn name(&self) -> &'static str {
        "labeller-controller"
    }

    fn watches(&self) -> Vec<Watch> {
        vec![Watch::own(&kinds::CONFIG_MAPS)]
    }

    fn observe(&self, caches: &Caches, key: &Key) -> Option<Value> {
        caches.of(&kinds::CONFIG_MAPS).get(key).map(|map| map.tree())
    }

    fn plan(&self, _: &Key, map: &Option<Value>, _: Timestamp) -> Plan {
        let count = self.reconciles.fetch_add(1, Ordering::SeqCst);
        assert!(count >= self.panics, "injected");
        let mut plan = Plan { requeue_after: self.requeue_after, ..Plan::done() };
        let Some(map) = map.as_ref().filter(|map| map.at(&["metadata", "labels", "done"]).is_none()) else {
            return plan;
        };
        let mut object = map.clone();
        object.set(&["metadata", "labels", "done"], "true");
        plan = plan.event(Event::normal("test", map, "Labelling", "labels a config map"));
        plan.then(Action::Update { kind: &kinds::CONFIG_MAPS, object, subresource: "" })
    }

    fn conclude(&self, _: &Key, map: &Option<Value>, report: &Report, _: Timestamp) -> Plan {
        match map {
            Some(map) if !report.is_success() => Plan::done().event(Event::warning(
                "test",
                map,
                "FailedLabelling",
                "cannot label a config map",
            )),
            _ => Plan::done(),
        }
    }

    fn settle(&self, _: &Kind) -> Duration {
        self.settle
    }

    fn workers(&self) -> usize {
        2
    }
}

struct Scene {
    server: FakeServer,
    clock_control: ClockControl,
    manager: Manager,
    reconciles: Arc<AtomicUsize>,
}

impl Scene {
    /// A manager that runs the controller, with its cache synced.
    async fn new(controller: Labeller) -> Scene {
        let scene = Scene::selecting(controller, Selection::default());
        run_other_tasks().await;
        scene
    }

    fn selecting(controller: Labeller, selection: Selection) -> Scene {
        let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
        let client = server.client();
        let manager = Manager::new(client.clone(), Box::new(move |_| client.clone()), clock).only(selection);
        let reconciles = controller.reconciles.clone();
        manager.run(controller);
        Scene { server, clock_control, manager, reconciles }
    }

    fn put(&self, name: &str) {
        self.server.put(&kinds::CONFIG_MAPS, &value!({
            "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "n", "uid": name},
        }));
    }

    fn is_done(&self, name: &str) -> bool {
        let map = self.server.get(&kinds::CONFIG_MAPS, "n", name);
        map.is_some_and(|map| map.str_at(&["metadata", "labels", "done"]) == Some("true"))
    }

    async fn until_idle(&self) {
        run_other_tasks().await;
        until("the manager is idle", || self.manager.is_idle()).await;
    }

    fn reconciles(&self) -> usize {
        self.reconciles.load(Ordering::SeqCst)
    }

    fn reasons(&self) -> Vec<String> {
        let events = self.server.list(&kinds::EVENTS);
        let mut reasons: Vec<_> =
            events.iter().filter_map(|e| e.str_at(&["reason"]).map(str::to_owned)).collect();
        reasons.sort();
        reasons
    }
}

#[tokio::test]
async fn a_change_is_reconciled_and_events_are_recorded() {
    let scene = Scene::new(Labeller::default()).await;
    scene.put("a");
    scene.until_idle().await;
    assert!(scene.is_done("a"));
    assert_eq!(scene.reasons(), ["Labelling"]);
    assert_eq!(scene.reconciles(), 2, "the second follows the controller's own write");
}

#[tokio::test]
async fn objects_that_existed_before_the_start_are_reconciled() {
    let (server, (clock, _hands)) = (FakeServer::default(), manual_clock());
    server.put(&kinds::CONFIG_MAPS, &value!({"metadata": {"name": "a", "namespace": "n"}}));
    let client = server.client();
    let manager = Manager::new(client.clone(), Box::new(move |_| client.clone()), clock);
    manager.run(Labeller::default());
    let is_done = || {
        let map = server.get(&kinds::CONFIG_MAPS, "n", "a").unwrap_or_default();
        map.at(&["metadata", "labels", "done"]).is_some()
    };
    until("the label is there", is_done).await;
}

#[tokio::test]
async fn a_conflict_is_retried_after_the_backoff() {
    let scene = Scene::new(Labeller::default()).await;
    scene.server.fail_next_write(Status::stale("", "configmaps", "a"));
    scene.put("a");
    scene.until_idle().await;
    assert!(!scene.is_done("a"));
    scene.clock_control.advance(Queue::RETRY.first);
    scene.until_idle().await;
    assert!(scene.is_done("a"));
    assert_eq!(scene.reasons(), ["FailedLabelling", "Labelling"]);
}

#[tokio::test]
async fn nothing_is_retried_in_a_terminating_namespace() {
    let scene = Scene::new(Labeller::default()).await;
    let mut terminating = Status::forbidden("", "configmaps", "a", "namespace n is being terminated");
    let reason = "NamespaceTerminating".to_owned();
    terminating.details.causes.push(corten_api::status::Cause { reason, ..Default::default() });
    scene.server.fail_next_write(terminating);
    scene.put("a");
    scene.until_idle().await;
    scene.clock_control.advance(seconds(3600));
    scene.until_idle().await;
    assert_eq!(scene.reconciles(), 1);
}

#[tokio::test]
async fn a_panic_is_caught_counted_and_retried() {
    let scene = Scene::new(Labeller { panics: 2, ..Labeller::default() }).await;
    scene.put("a");
    scene.until_idle().await;
    assert_eq!(scene.reconciles(), 1);
    scene.clock_control.advance(Queue::RETRY.first);
    scene.until_idle().await;
    assert_eq!(scene.reconciles(), 2);
    scene.clock_control.advance(Queue::RETRY.first * 2);
    scene.until_idle().await;
    assert!(scene.is_done("a"), "the third attempt succeeds");
    let metrics = scene.manager.metrics();
    assert!(metrics.contains("workqueue_retries_total{name=\"labeller-controller\"} 2"), "{metrics}");
}

#[tokio::test]
async fn a_panic_of_one_key_does_not_stop_the_others() {
    let scene = Scene::new(Labeller { panics: 1, ..Labeller::default() }).await;
    scene.put("a");
    scene.put("b");
    scene.until_idle().await;
    assert_eq!([scene.is_done("a"), scene.is_done("b")], [false, true]);
}

#[tokio::test]
async fn a_key_is_not_reconciled_before_the_cache_has_seen_its_own_writes() {
    let scene = Scene::new(Labeller::default()).await;
    let queue = scene.manager.queues.lock()[0].1.clone();
    scene.put("c");
    // From here on the cache does not see the label that the controller writes.
    scene.server.set_stalled(true);
    until("the write is made", || scene.is_done("c")).await;
    run_other_tasks().await;
    queue.add(Key::new("n", "c"));
    run_other_tasks().await;
    let updates = |server: &FakeServer| server.writes().iter().filter(|w| w.starts_with("PUT")).count();
    assert_eq!(updates(&scene.server), 1);
    let reconciles = scene.reconciles();
    scene.server.set_stalled(false);
    until("the key is reconciled", || scene.reconciles() > reconciles).await;
    scene.until_idle().await;
    assert_eq!(updates(&scene.server), 1, "the label was not written twice");
}

#[tokio::test]
async fn a_stale_cache_is_not_waited_for_longer_than_the_limit() {
    let scene = Scene::new(Labeller::default()).await;
    scene.put("a");
    scene.server.set_stalled(true);
    run_other_tasks().await;
    until("the write is made", || scene.is_done("a")).await;
    let queue = scene.manager.queues.lock()[0].1.clone();
    let reconciles = scene.reconciles();
    queue.add(Key::new("n", "a"));
    run_other_tasks().await;
    assert_eq!(scene.reconciles(), reconciles);
    scene.clock_control.advance(STALE);
    until("the key is reconciled", || scene.reconciles() > reconciles).await;
}

#[tokio::test]
async fn requeue_after_reconciles_without_a_change() {
    let scene = Scene::new(Labeller { requeue_after: Some(seconds(60)), ..Labeller::default() }).await;
    scene.put("a");
    scene.until_idle().await;
    let before = scene.reconciles();
    scene.clock_control.advance(seconds(59));
    scene.until_idle().await;
    assert_eq!(scene.reconciles(), before);
    scene.clock_control.advance(seconds(1));
    scene.until_idle().await;
    assert_eq!(scene.reconciles(), before + 1);
}

#[tokio::test]
async fn changes_are_collected_for_the_settle_time() {
    let scene = Scene::new(Labeller { settle: seconds(1), ..Labeller::default() }).await;
    for _ in 0..3 {
        scene.put("a");
        scene.until_idle().await;
    }
    assert_eq!(scene.reconciles(), 0);
    scene.clock_control.advance(seconds(1));
    scene.until_idle().await;
    assert_eq!(scene.reconciles(), 1);
}

#[tokio::test]
async fn a_controller_that_is_not_selected_does_not_run() {
    let selection = Selection::new(&["*".to_owned(), "-labeller-controller".to_owned()]);
    let scene = Scene::selecting(Labeller::default(), selection);
    scene.put("a");
    scene.until_idle().await;
    assert_eq!(scene.reconciles(), 0);
    assert_eq!(scene.server.writes(), Vec::<String>::new());
}

#[tokio::test]
async fn dropping_the_manager_stops_its_controllers() {
    let Scene { server, manager, reconciles, .. } = Scene::new(Labeller::default()).await;
    drop(manager);
    run_other_tasks().await;
    server.put(&kinds::CONFIG_MAPS, &value!({"metadata": {"name": "a", "namespace": "n"}}));
    run_other_tasks().await;
    assert_eq!(reconciles.load(Ordering::SeqCst), 0);
}
