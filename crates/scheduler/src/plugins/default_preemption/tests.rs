use corten_api::value;
use corten_client::Key;

use super::*;
use crate::config::Config;
use crate::cycle::{Decision, Search};
use crate::testing::{NodeBuilder, PodBuilder, Scene, node, pod};

fn small(name: &str) -> NodeBuilder {
    node(name).allocatable(value!({"cpu": "4", "memory": "8Gi", "pods": "10"}))
}

fn cores(name: &str, priority: i64, cpu: &str) -> PodBuilder {
    pod(name).priority(priority).requests(value!({"cpu": (cpu)}))
}

/// The result of preemption for an unschedulable pod: the message, and the victims.
fn preempt(scene: &mut Scene, pod: &Pod) -> (String, Vec<String>) {
    preempt_knowing(&mut ShapeCache::default(), scene, pod)
}

fn preempt_knowing(shape_cache: &mut ShapeCache, scene: &mut Scene, pod: &Pod) -> (String, Vec<String>) {
    let profile = Config::default().profiles.remove(0);
    let mut search = Search::new(0, Random::new(3));
    let Decision::Unschedulable(diagnosis) = search.decide(shape_cache, &profile, &mut scene.cluster, pod)
    else {
        panic!("it fits");
    };
    let plugin = DefaultPreemption::default();
    let before: Vec<i64> =
        scene.nodes.iter().map(|at| scene.cluster.snapshot.room(*at).used_milli_cpu).collect();
    let mut random = Random::new(5);
    let found =
        plugin.post_filter(pod, &mut scene.cluster, &profile, &diagnosis, shape_cache, &mut random).unwrap();
    let after: Vec<i64> =
        scene.nodes.iter().map(|at| scene.cluster.snapshot.room(*at).used_milli_cpu).collect();
    assert_eq!(before, after, "nothing is left behind");
    (found.message, found.victims.iter().map(|victim| victim.key.name.to_string()).collect())
}

#[track_caller]
fn check(scene: &mut Scene, pod: PodBuilder, node: &str, victims: &[&str]) {
    let (message, found) = preempt(scene, &pod.build());
    assert!(message.contains(&format!("on node {node}, preempting {} victims", victims.len())), "{message}");
    assert_eq!(found, victims);
}

#[test]
fn pods_of_the_lowest_priority_are_preempted() {
    let mut scene = Scene::new([small("a"), small("b")]);
    scene.put(cores("a-high", 50, "4").build(), "a");
    scene.put(cores("b-low", 10, "4").build(), "b");
    check(&mut scene, cores("p", 100, "2"), "b", &["b-low"]);
}

#[test]
fn as_few_pods_as_possible_are_preempted() {
    let mut scene = Scene::new([small("a")]);
    for (name, priority) in [("one", 10), ("two", 20), ("three", 30), ("four", 40)] {
        scene.put(cores(name, priority, "1").build(), "a");
    }
    check(&mut scene, cores("p", 100, "2"), "a", &["two", "one"]);
    check(&mut scene, cores("p", 25, "1"), "a", &["one"]);
}

#[test]
fn fewer_victims_are_better() {
    let mut scene = Scene::new([small("a"), small("b")]);
    for name in ["a1", "a2", "a3", "a4"] {
        scene.put(cores(name, 10, "1").build(), "a");
    }
    scene.put(cores("b1", 10, "4").build(), "b");
    check(&mut scene, cores("p", 100, "3"), "b", &["b1"]);
}

#[test]
fn of_equal_candidates_the_newer_pods_are_preempted() {
    let mut scene = Scene::new([small("a"), small("b")]);
    let since = |name: &str, at: &str| cores(name, 10, "4").set(&["status", "startTime"], at).build();
    scene.put(since("old", "2026-01-01T00:00:00Z"), "a");
    scene.put(since("new", "2026-01-02T00:00:00Z"), "b");
    check(&mut scene, cores("p", 100, "4"), "b", &["new"]);
}

#[test]
fn budgets_are_respected_if_possible() {
    let mut scene = Scene::new([small("a"), small("b")]);
    scene.put(cores("a1", 10, "4").label("app", "web").build(), "a");
    scene.put(cores("b1", 20, "4").build(), "b");
    let budget =
        value!({"spec": {"selector": {"matchLabels": {"app": "web"}}}, "status": {"disruptionsAllowed": 0}});
    scene.cluster.budgets.set(&Key::new("default", "web"), Some(&budget));
    check(&mut scene, cores("p", 100, "4"), "b", &["b1"]);
    scene.cluster.snapshot.remove_node("b");
    scene.nodes.pop();
    check(&mut scene, cores("p", 100, "4"), "a", &["a1"]);
}

#[test]
fn affinity_counts_without_the_victims() {
    let mut scene = Scene::new([small("a").zone("z1")]);
    scene.put(cores("shy", 10, "1").required("podAntiAffinity", "app", "web", "zone").build(), "a");
    scene.put(cores("other", 10, "1").build(), "a");
    check(&mut scene, cores("p", 100, "1").label("app", "web"), "a", &["shy"]);
}

#[test]
fn the_reason_is_reported_when_preemption_does_not_help() {
    let mut scene = Scene::new([small("a"), small("b").cordoned(), small("c")]);
    scene.put(cores("equal", 100, "4").build(), "a");
    scene.put(cores("equal too", 100, "4").build(), "c");
    let (message, victims) = preempt(&mut scene, &cores("p", 100, "2").build());
    let reasons =
        "1 Preemption is not helpful for scheduling, 2 No preemption victims found for incoming pod.";
    assert_eq!(message, format!("preemption: 0/3 nodes are available: {reasons}"));
    assert!(victims.is_empty());
    let huge = cores("p", 1000, "64").build();
    let (message, _) = preempt(&mut scene, &huge);
    assert_eq!(message, "preemption: 0/3 nodes are available: 3 Preemption is not helpful for scheduling.");
}

#[test]
fn some_pods_may_not_preempt() {
    let mut scene = Scene::new([small("a")]);
    scene.put(cores("low", 10, "4").build(), "a");
    let polite = cores("p", 100, "4").spec("preemptionPolicy", value!("Never")).build();
    assert_eq!(preempt(&mut scene, &polite).0, "preemption: not eligible due to preemptionPolicy=Never.");
    let conditions =
        value!([{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]);
    let going = cores("low", 10, "4")
        .set(&["metadata", "deletionTimestamp"], "2026-01-01T00:00:00Z")
        .set(&["status", "conditions"], conditions);
    scene.put(going.build(), "a");
    let waiting = cores("p", 100, "4").set(&["status", "nominatedNodeName"], "a").build();
    let message = preempt(&mut scene, &waiting).0;
    assert_eq!(message, "preemption: not eligible due to a terminating pod on the nominated node.");
}

/// Whatever happens to nodes, budgets and nominated pods, cached costs equal those of a new evaluation.
#[test]
fn cached_costs_equal_a_new_evaluation() {
    let mut random = Random::new(17);
    let mut scene = Scene::new([small("a"), small("b"), small("c")]);
    let mut shape_cache = ShapeCache::default();
    let asking = ["p", "q"].map(|name| Arc::new(cores(name, 100, "3").build()));
    let mut tried = 0;
    for round in 0..2000 {
        let node = ["a", "b", "c"][random.below(3)];
        let name = format!("there{}", random.below(9));
        let snapshot = &mut scene.cluster.snapshot;
        match random.below(7) {
            0..=2 => {
                let started = format!("2026-01-01T00:00:0{}Z", random.below(9));
                let there = cores(&name, [10, 50, 100][random.below(3)], "2").label("app", "web");
                snapshot.add_pod(Arc::new(there.set(&["status", "startTime"], started).build()), node);
            }
            3 => drop(snapshot.remove_pod(&name)),
            4 => snapshot.nominate(&asking[random.below(2)], node),
            5 => drop(snapshot.unnominate(&asking[random.below(2)].uid)),
            _ => {
                let allowed = random.below(3) as i64;
                let budget = value!({"spec": {"selector": {"matchLabels": {"app": "web"}}},
                    "status": {"disruptionsAllowed": (allowed)}});
                scene.cluster.budgets.set(&Key::new("default", "web"), Some(&budget));
            }
        }
        let pod = &asking[random.below(2)];
        let profile = Config::default().profiles.remove(0);
        let decision = Search::new(0, Random::new(1)).decide(
            &mut ShapeCache::default(),
            &profile,
            &mut scene.cluster,
            pod,
        );
        if matches!(decision, Decision::Unschedulable(_)) {
            tried += 1;
            let remembered = preempt_knowing(&mut shape_cache, &mut scene, pod);
            assert_eq!(remembered, preempt(&mut scene, pod), "round {round}");
        }
    }
    assert!(tried > 500, "{tried}");
}
