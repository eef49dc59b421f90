use corten_api::value;

use super::*;
use crate::testing::{NodeBuilder, PodBuilder, node, pod};

/// An engine and a clock.
struct Test {
    engine: Engine,
    now: Timestamp,
}

impl Test {
    fn new(nodes: impl IntoIterator<Item = NodeBuilder>) -> Test {
        let now = Timestamp::from_second(1_000_000).unwrap();
        let mut test = Test { engine: Engine::new(Config::default(), 1), now };
        nodes.into_iter().for_each(|node| test.node(node));
        test
    }

    fn node(&mut self, node: NodeBuilder) {
        let node = Arc::new(node.node());
        self.engine.apply(Change::Node { name: node.name.clone(), node: Some(node) }, self.now);
    }

    fn pod(&mut self, pod: PodBuilder) {
        let pod = Arc::new(pod.build());
        self.engine.apply(Change::Pod { key: pod.key.clone(), pod: Some(pod) }, self.now);
    }

    fn gone(&mut self, name: &str) {
        self.engine.apply(Change::Pod { key: Key::new("default", name), pod: None }, self.now);
    }

    fn bound(&mut self, name: &str, outcome: Result<(), String>) {
        self.engine.apply(Change::Bound { uid: name.into(), outcome }, self.now);
    }

    fn preempted(&mut self, name: &str, agreed: bool) {
        self.engine.apply(Change::Preempted { uid: name.into(), agreed }, self.now);
    }

    /// The next step as text.
    fn step(&mut self) -> String {
        match self.engine.step(self.now) {
            Step::Bind { pod, node, .. } => format!("{} to {node}", pod.key.name),
            Step::ReportUnschedulable { pod, message, .. } => format!("{}: {message}", pod.key.name),
            Step::Preempt { pod, victims, .. } => format!("{} for {}", victims.len(), pod.key.name),
            Step::ClearNomination { pod } => format!("{} waits no more", pod.key.name),
            Step::Wait(_) => "nothing".to_owned(),
        }
    }

    fn pass(&mut self, seconds: i64) {
        self.now = self.now.checked_add(jiff::SignedDuration::from_secs(seconds)).unwrap();
    }
}

fn cores(name: &str, cpu: &str) -> PodBuilder {
    pod(name).requests(value!({"cpu": (cpu)}))
}

fn small(name: &str) -> NodeBuilder {
    node(name).allocatable(value!({"cpu": "2", "memory": "8Gi", "pods": "10"}))
}

#[test]
fn an_assumed_pod_counts_on_its_node() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("one", "1500m"));
    test.pod(cores("two", "1500m"));
    assert_eq!(test.step(), "one to a");
    let reported = test.step();
    assert!(reported.starts_with("two: 0/1 nodes are available: 1 Insufficient cpu."), "{reported}");
    assert_eq!(test.step(), "nothing");
}

#[test]
fn a_failed_binding_releases_its_resources() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("one", "1500m"));
    assert_eq!(test.step(), "one to a");
    test.pod(cores("two", "1500m"));
    assert!(test.step().starts_with("two: 0/1"));
    test.bound("one", Err("it went wrong".to_owned()));
    assert_eq!(test.step(), "one: it went wrong");
    assert_eq!(test.step(), "two to a");
}

#[test]
fn a_lost_response_of_a_binding_does_no_harm() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("one", "1500m"));
    assert_eq!(test.step(), "one to a");
    test.pod(cores("one", "1500m").set(&["spec", "nodeName"], "a"));
    test.bound("one", Err("connection reset".to_owned()));
    assert_eq!(test.step(), "nothing");
    test.pod(cores("two", "1500m"));
    assert!(test.step().starts_with("two: 0/1"), "it is there all the same");
}

#[test]
fn a_pod_is_not_tried_again_while_it_is_being_bound() {
    let mut test = Test::new([small("a")]);
    test.pod(pod("one"));
    assert_eq!(test.step(), "one to a");
    test.pod(pod("one").label("new", "label"));
    assert_eq!(test.step(), "nothing");
}

#[test]
fn queueing_hints_wake_unschedulable_pods() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("big", "4"));
    assert!(test.step().contains("1 Insufficient cpu"));
    test.node(small("useless"));
    assert_eq!(test.step(), "nothing");
    test.node(node("useful"));
    assert_eq!(test.step(), "big to useful");
}

#[test]
fn deleted_pods_release_resources() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("old", "2").set(&["spec", "nodeName"], "a"));
    test.pod(cores("new", "2"));
    assert!(test.step().starts_with("new: 0/1"));
    test.gone("old");
    test.pass(1);
    assert_eq!(test.step(), "new to a");
}

#[test]
fn finished_pods_use_no_resources() {
    let mut test = Test::new([small("a")]);
    let done = cores("done", "2").set(&["spec", "nodeName"], "a").set(&["status", "phase"], "Succeeded");
    test.pod(done);
    test.pod(cores("new", "2"));
    assert_eq!(test.step(), "new to a");
}

#[test]
fn pods_of_other_schedulers_and_gated_pods_are_ignored() {
    let mut test = Test::new([small("a")]);
    test.pod(pod("others").spec("schedulerName", value!("another")));
    test.pod(pod("gated").spec("schedulingGates", value!([{"name": "wait"}])));
    assert_eq!(test.step(), "nothing");
    test.pod(pod("gated"));
    assert_eq!(test.step(), "gated to a");
}

#[test]
fn without_nodes_a_pod_is_unschedulable() {
    let mut test = Test::new([]);
    test.pod(pod("one"));
    assert_eq!(test.step(), "one: no nodes available to schedule pods");
    test.node(small("a"));
    assert_eq!(test.step(), "one to a");
}

#[test]
fn a_node_deleted_between_decision_and_binding() {
    let mut test = Test::new([small("a"), small("b").taint("k", "v", "NoSchedule")]);
    test.pod(pod("one"));
    assert_eq!(test.step(), "one to a");
    test.engine.apply(Change::Node { name: "a".into(), node: None }, test.now);
    test.bound("one", Err("nodes \"a\" not found".to_owned()));
    assert!(test.step().contains("not found"));
    test.pass(1);
    assert!(test.step().starts_with("one: 0/1 nodes are available: 1 node(s) had untolerated taint(s)."));
}

#[test]
fn another_pod_of_the_same_name() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("one", "2").set(&["spec", "nodeName"], "a"));
    test.pod(cores("one", "2").set(&["metadata", "uid"], "second"));
    assert_eq!(test.step(), "one to a");
}

#[test]
fn pods_of_higher_priority_preempt() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("low", "2").priority(1).set(&["spec", "nodeName"], "a"));
    test.pod(cores("high", "2").priority(9));
    let reported = test.step();
    assert!(
        reported.ends_with("found a potential placement for pod on node a, preempting 1 victims"),
        "{reported}"
    );
    assert_eq!(test.step(), "1 for high");
    test.pod(cores("middle", "1").priority(5));
    assert!(test.step().starts_with("middle: 0/1"), "the place is kept");
    test.preempted("high", true);
    assert_eq!(test.step(), "nothing");
    test.gone("low");
    test.pass(2);
    assert_eq!(test.step(), "high to a");
}

#[test]
fn victims_may_be_gone_before_all_deletions_are_answered() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("low", "2").priority(1).set(&["spec", "nodeName"], "a"));
    test.pod(cores("high", "2").priority(9));
    test.step();
    assert_eq!(test.step(), "1 for high");
    test.gone("low");
    assert_eq!(test.step(), "nothing");
    test.preempted("high", true);
    assert_eq!(test.step(), "high to a");
}

/// Two small nodes full of pods of low priority, which have been asked to terminate for pods of high priority.
fn crowded() -> Test {
    let mut test = Test::new([small("a"), small("b")]);
    for name in ["a1", "a2", "b1", "b2"] {
        test.pod(cores(name, "1").set(&["spec", "nodeName"], &name[..1]));
    }
    for name in ["one", "two"] {
        test.pod(cores(name, "2").priority(9));
        assert!(test.step().ends_with("preempting 2 victims"));
        assert_eq!(test.step(), format!("2 for {name}"));
        test.preempted(name, true);
    }
    test
}

#[test]
fn a_pod_waits_until_all_its_victims_are_gone() {
    let mut test = crowded();
    let place = test.engine.cluster.snapshot.nominated().node_of("two").unwrap().to_string();
    let other = if place == "a" { "b" } else { "a" };
    test.gone(&format!("{place}1"));
    assert_eq!(test.step(), "nothing", "half of the room is not enough");
    test.gone(&format!("{place}2"));
    assert_eq!(test.step(), format!("two to {place}"), "the room is reserved for it");
    assert_eq!(test.step(), "nothing");
    test.gone(&format!("{other}1"));
    test.gone(&format!("{other}2"));
    assert_eq!(test.step(), format!("one to {other}"));
}

#[test]
fn a_dropped_nomination_frees_the_node() {
    for how in ["gone", "deleting"] {
        let mut test = Test::new([small("a")]);
        test.pod(cores("low", "2").set(&["spec", "nodeName"], "a"));
        test.pod(cores("high", "2").priority(9));
        test.step();
        assert_eq!(test.step(), "1 for high");
        test.pod(cores("middle", "2").priority(5));
        assert!(test.step().starts_with("middle: 0/1"));
        test.gone("low");
        assert_eq!(test.step(), "nothing", "the place is kept");
        match how {
            "gone" => test.gone("high"),
            _ => test.pod(
                cores("high", "2")
                    .priority(9)
                    .set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z"),
            ),
        }
        assert_eq!(test.step(), "middle to a", "{how}");
    }
}

#[test]
fn a_refused_preemption_is_retried() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("low", "2").set(&["spec", "nodeName"], "a"));
    test.pod(cores("high", "2").priority(9));
    for _ in 0..2 {
        assert!(test.step().ends_with("preempting 1 victims"));
        assert_eq!(test.step(), "1 for high");
        test.preempted("high", false);
    }
}

#[test]
fn lower_priority_nominations_for_a_node_are_cleared() {
    let mut test = Test::new([small("a")]);
    test.pod(cores("low", "2").set(&["spec", "nodeName"], "a"));
    test.pod(cores("high", "2").priority(9));
    test.step();
    assert_eq!(test.step(), "1 for high");
    test.preempted("high", true);
    test.pod(cores("highest", "2").priority(10));
    assert!(test.step().ends_with("preempting 1 victims"));
    assert_eq!(test.step(), "1 for highest");
    assert_eq!(test.step(), "high waits no more");
    assert!(test.step().starts_with("high: 0/1"), "it may be tried again at once");
    test.preempted("highest", true);
    test.gone("low");
    assert_eq!(test.step(), "highest to a");
}
