//! Contracts of the recorder: equal events are counted in one object, recording never waits, failures lose one event.

use super::*;
use crate::testing::{FakeServer, manual_clock, run_other_tasks, seconds, until};

struct Scene {
    server: FakeServer,
    clock_control: corten_base::ClockControl,
    recorder: Recorder,
    _tasks: JoinSet<()>,
}

impl Scene {
    fn new() -> Scene {
        let (server, (clock, clock_control)) = (FakeServer::default(), manual_clock());
        let mut tasks = JoinSet::new();
        let recorder = Recorder::start(&server.client(), clock, &mut tasks);
        Scene { server, clock_control, recorder, _tasks: tasks }
    }

    async fn record(&self, event: Event) {
        self.recorder.record(event);
        until("the event is written", || self.recorder.is_idle()).await;
    }

    fn events(&self) -> Vec<Value> {
        self.server.list(&kinds::EVENTS)
    }
}

fn pod(name: &str) -> Value {
    let mut pod = kinds::PODS.new_object("n", name);
    meta::set_text(&mut pod, "uid", name);
    pod
}

fn event(message: &str) -> Event {
    Event::warning("test", &pod("p"), "Failed", message)
}

#[tokio::test]
async fn equal_events_are_counted_in_one_object() {
    let scene = Scene::new();
    for _ in 0..3 {
        scene.record(event("m")).await;
        scene.clock_control.advance(seconds(10));
    }
    let [event] = scene.events().try_into().expect("one event");
    assert_eq!(event.int_at(&["count"]), Some(3));
    let times =
        ["firstTimestamp", "lastTimestamp"].map(|key| event.str_at(&[key]).unwrap_or_default().to_owned());
    let at = |second| time::format(crate::testing::start() + seconds(second)).to_string();
    assert_eq!(times, [at(0), at(20)]);
}

#[tokio::test]
async fn equal_events_recorded_at_once_are_counted_too() {
    let scene = Scene::new();
    for _ in 0..5 {
        scene.recorder.record(event("m"));
    }
    until("all are written", || scene.recorder.is_idle()).await;
    let [event] = scene.events().try_into().expect("one event");
    assert_eq!(event.int_at(&["count"]), Some(5));
}

#[tokio::test]
async fn too_many_events_about_an_object_are_written_with_the_next_one() {
    let scene = Scene::new();
    let count = || scene.events()[0].int_at(&["count"]);
    for _ in 0..30 {
        scene.record(event("m")).await;
    }
    assert_eq!(count(), Some(25));
    scene.record(Event::warning("test", &pod("q"), "Failed", "m")).await;
    scene.record(Event::normal("test", &pod("p"), "Failed", "m")).await;
    assert_eq!(scene.events().len(), 3, "other objects and types have limits of their own");
    scene.clock_control.advance(seconds(299));
    scene.record(event("m")).await;
    assert_eq!(count(), Some(25));
    scene.clock_control.advance(seconds(1));
    scene.record(event("m")).await;
    assert_eq!(count(), Some(32));
}

#[tokio::test]
async fn events_that_differ_are_objects_of_their_own() {
    let scene = Scene::new();
    scene.record(event("m")).await;
    scene.record(event("other message")).await;
    scene.record(Event::normal("test", &pod("p"), "Failed", "m")).await;
    scene.record(Event::warning("other component", &pod("p"), "Failed", "m")).await;
    scene.record(Event::warning("test", &pod("q"), "Failed", "m")).await;
    scene.record(Event::warning("test", &pod("p"), "OtherReason", "m")).await;
    assert_eq!(scene.events().len(), 6);
    assert!(scene.events().iter().all(|event| event.int_at(&["count"]) == Some(1)));
}

#[tokio::test]
async fn events_with_an_action_are_repeated_as_a_series() {
    let scene = Scene::new();
    for _ in 0..2 {
        scene.record(event("m").with_action("Binding")).await;
    }
    let [event] = scene.events().try_into().expect("one event");
    assert_eq!(event.int_at(&["series", "count"]), Some(2));
    assert_eq!(event.str_at(&["action"]), Some("Binding"));
    assert_eq!(event.get("count"), None);
}

#[tokio::test]
async fn a_deleted_event_is_created_again() {
    let scene = Scene::new();
    scene.record(event("m")).await;
    let [first] = scene.events().try_into().expect("one event");
    scene.clock_control.advance(seconds(1));
    let client = scene.server.client();
    client.delete(&kinds::EVENTS, &Key::of(&first), &corten_client::DeleteOptions::default()).await.unwrap();
    scene.record(event("m")).await;
    let [second] = scene.events().try_into().expect("one event");
    assert_eq!(second.int_at(&["count"]), Some(1));
    assert_ne!(meta::name(&first), meta::name(&second));
}

#[tokio::test]
async fn events_about_cluster_scoped_objects_are_in_the_default_namespace() {
    let scene = Scene::new();
    scene.record(Event::normal("test", &kinds::NODES.new_object("", "node"), "R", "m")).await;
    assert_eq!(meta::namespace(&scene.events()[0]), "default");
}

#[tokio::test]
async fn a_failed_write_loses_one_event_only() {
    let scene = Scene::new();
    scene.server.set_unreachable(true);
    scene.record(event("lost")).await;
    scene.server.set_unreachable(false);
    scene.record(event("kept")).await;
    let messages: Vec<_> =
        scene.events().iter().filter_map(|e| e.str_at(&["message"]).map(str::to_owned)).collect();
    assert_eq!(messages, ["kept"]);
}

#[tokio::test]
async fn a_full_queue_drops_events_without_waiting() {
    let scene = Scene::new();
    for number in 0..MAX_PENDING + 10 {
        scene.recorder.record(Event::warning("test", &pod(&number.to_string()), "Failed", "m"));
    }
    until("the queue is drained", || scene.recorder.is_idle()).await;
    run_other_tasks().await;
    assert_eq!(scene.events().len(), MAX_PENDING);
}
